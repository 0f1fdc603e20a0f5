"""Describes the parameters of ``load_environment`` as a JSON schema (step: package).

``python -m strop.hub.building.settings_child MODULE:FUNCTION ANSWER PATH…`` imports author code, so
it runs in a process of its own and answers in a file: what the author prints is in nobody's way.
"""

import importlib
import inspect
import json
import re
import sys
import typing
from collections.abc import Callable
from pathlib import Path
from typing import Any

from pydantic import PydanticUserError, TypeAdapter, ValidationError
from pydantic.errors import PydanticInvalidForJsonSchema
from pydantic_core import PydanticSerializationError

_ARGUMENT = re.compile(r"\*{0,2}(?P<name>\w+)\s*(?:\([^)]*\))?\s*:\s*(?P<text>.*)")
_SECTION = re.compile(r"(Args|Arguments|Parameters):\s*")


def describe(function: Callable[..., Any]) -> tuple[dict[str, Any], list[str]]:
    """The JSON schema of a function's parameters, and what makes one of them no setting."""
    parameters = inspect.signature(function).parameters
    try:
        hints = typing.get_type_hints(function, include_extras=True)
    except Exception as error:  # noqa: BLE001 - annotations are author code
        return {}, [f"the annotations cannot be read: {type(error).__name__}: {error}"]
    texts = argument_texts(inspect.getdoc(function) or "")
    adapters: dict[str, TypeAdapter[Any]] = {}
    problems = []
    for name, parameter in parameters.items():
        problem = _shape_problem(parameter, name in hints)
        try:
            if problem is None:
                adapters[name] = TypeAdapter(hints[name])
                adapters[name].json_schema()
        except (PydanticUserError, PydanticInvalidForJsonSchema) as error:
            problem = f"has a type that JSON cannot hold: {str(error).splitlines()[0]}"
            adapters.pop(name, None)
        if problem is not None:
            problems.append(f"`{name}` {problem}")
    schemas, definitions = TypeAdapter.json_schemas(
        [(name, "validation", adapter) for name, adapter in adapters.items()]
    )
    properties: dict[str, Any] = {}
    for name, adapter in adapters.items():
        schema: dict[str, Any] = {**schemas[(name, "validation")]}
        if texts.get(name):
            schema["description"] = texts[name]
        default = parameters[name].default
        if default is not inspect.Parameter.empty:
            problems += _add_default(schema, name, adapter, default)
        properties[name] = schema
    required = [name for name in properties if parameters[name].default is inspect.Parameter.empty]
    schema = {
        "type": "object",
        "properties": properties,
        "required": required,
        "additionalProperties": False,
    }
    return schema | definitions, problems


def _shape_problem(parameter: inspect.Parameter, is_typed: bool) -> str | None:
    if parameter.kind in (parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD):
        return "takes any number of values. Name each setting"
    if parameter.kind is parameter.POSITIONAL_ONLY:
        return "is positional-only, and settings are given by name. Remove the `/`"
    return None if is_typed else "has no type. Annotate it, such as `size: int = 4`"


def _add_default(
    schema: dict[str, Any], name: str, adapter: TypeAdapter[Any], default: Any
) -> list[str]:
    try:
        adapter.validate_python(default)
        value = adapter.dump_python(default, mode="json", warnings=False)
        schema["default"] = json.loads(json.dumps(value, allow_nan=False))
    except ValidationError:
        return [f"`{name}` has the default {default!r}, which is not of its type"]
    except (PydanticSerializationError, ValueError, TypeError):
        return [f"`{name}` has the default {default!r}, which JSON cannot hold"]
    return []


def argument_texts(docstring: str) -> dict[str, str]:
    """What a Google docstring says about each argument, each on one line."""
    texts: dict[str, str] = {}
    name, indent, is_inside = "", 0, False
    for line in docstring.splitlines():
        depth = len(line) - len(line.lstrip())
        if _SECTION.fullmatch(line):
            is_inside, indent = True, 0
        elif is_inside and line.strip() and depth == 0:
            is_inside = False
        elif is_inside and line.strip():
            indent = indent or depth
            match = _ARGUMENT.fullmatch(line.strip()) if depth == indent else None
            if match:
                name, texts[match["name"]] = match["name"], match["text"]
            elif name:
                texts[name] = f"{texts[name]} {line.strip()}".strip()
    return texts


def main(entry_point: str, answer: str, *paths: str) -> None:
    """Import `entry_point` with `paths` first, and write schema and problems to `answer`."""
    sys.path[:0] = paths
    module, _, attributes = entry_point.partition(":")
    function: Any = importlib.import_module(module)
    for attribute in attributes.split("."):
        function = getattr(function, attribute)
    schema, problems = describe(function)
    content = {"schema": schema, "problems": problems}
    Path(answer).write_text(json.dumps(content), encoding="utf-8")


if __name__ == "__main__":
    main(*sys.argv[1:])
