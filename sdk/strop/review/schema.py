"""Holds JSON against the schema of a trajectory, or of stamps: the part of JSON Schema in use.

Integers are stricter than the standard's: 1.0 is none, since readers keep the difference.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from functools import cache
from importlib.resources import files
from typing import Any

Problem = tuple[str, str]
"""A field such as ``segments[2].parent``, and what is wrong with it."""

_TYPES: dict[str, Callable[[Any], bool]] = {
    "object": lambda value: isinstance(value, dict),
    "array": lambda value: isinstance(value, list),
    "string": lambda value: isinstance(value, str),
    "boolean": lambda value: isinstance(value, bool),
    "null": lambda value: value is None,
    "integer": lambda value: isinstance(value, int) and not isinstance(value, bool),
    "number": lambda value: isinstance(value, int | float) and not isinstance(value, bool),
}
_LONGEST_SHOWN = 60

KEYWORDS = frozenset(
    {"type", "const", "enum", "minimum", "pattern", "required", "properties"}
    | {"additionalProperties", "items", "minItems", "maxItems", "$ref"}
    | {"$schema", "$id", "$defs", "title", "description", "contentEncoding"}
)
"""All that the schema may use; the last line only explains."""


@cache
def trajectory_schema() -> dict[str, Any]:
    """The schema of one line, as in ``strop/trajectory.schema.json``; not to be changed."""
    text = files("strop").joinpath("trajectory.schema.json").read_text(encoding="ascii")
    schema: dict[str, Any] = json.loads(text)
    return schema


def schema_problems(value: Any, schema: dict[str, Any] | None = None) -> list[Problem]:
    """Everything that keeps a JSON value from the shape that a schema says; None is a trajectory's.

    Another schema than a trajectory's has no references.
    """
    return list(_check(value, schema or trajectory_schema(), ""))


def field_name(parent: str, key: str | int) -> str:
    """How messages name a member of `parent`."""
    if isinstance(key, int):
        return f"{parent}[{key}]"
    if key.isidentifier() and key.isascii():
        return f"{parent}.{key}" if parent else key
    return f"{parent}[{json.dumps(key)}]"


def _check(value: Any, schema: dict[str, Any], where: str) -> Iterator[Problem]:
    types = schema.get("type")
    if types is not None:
        wanted = [types] if isinstance(types, str) else types
        if not any(_TYPES[each](value) for each in wanted):
            yield where, f"is {_shown(value)}, not {' or '.join(wanted)}"
            return
    if "const" in schema and value != schema["const"]:
        yield where, f"is {_shown(value)}, not {_shown(schema['const'])}"
    if "enum" in schema and value not in schema["enum"]:
        yield where, f"is {_shown(value)}, not one of {', '.join(map(_shown, schema['enum']))}"
    if "$ref" in schema:
        name = schema["$ref"].removeprefix("#/$defs/")
        yield from _check(value, trajectory_schema()["$defs"][name], where)
    if isinstance(value, dict):
        yield from _check_object(value, schema, where)
    elif isinstance(value, list):
        yield from _check_array(value, schema, where)
    else:
        yield from _check_plain(value, schema, where)


def _check_object(value: dict[str, Any], schema: dict[str, Any], where: str) -> Iterator[Problem]:
    for name in schema.get("required", ()):
        if name not in value:
            yield field_name(where, name), "is missing"
    properties = schema.get("properties", {})
    others = schema.get("additionalProperties")
    for name, member in value.items():
        expected = properties.get(name, others)
        if expected is not None:
            yield from _check(member, expected, field_name(where, name))


def _check_array(value: list[Any], schema: dict[str, Any], where: str) -> Iterator[Problem]:
    least, most = schema.get("minItems", 0), schema.get("maxItems", len(value))
    if not least <= len(value) <= most:
        yield where, f"has {len(value)} entries, not {least} to {most}"
    if "items" in schema:
        for index, member in enumerate(value):
            yield from _check(member, schema["items"], field_name(where, index))


def _check_plain(value: Any, schema: dict[str, Any], where: str) -> Iterator[Problem]:
    if value is None:
        return
    if "minimum" in schema and value < schema["minimum"]:
        yield where, f"is {_shown(value)}, below {schema['minimum']}"
    is_text = isinstance(value, str)
    if is_text and "pattern" in schema and re.fullmatch(schema["pattern"], value) is None:
        yield where, f"is {_shown(value)}, which is no base64"


def _shown(value: Any) -> str:
    if isinstance(value, dict | list):
        return f"{'an object' if isinstance(value, dict) else 'an array'} of {len(value)}"
    # Cut first: an integer or text may be millions of characters long.
    if isinstance(value, str):
        value = value[:_LONGEST_SHOWN]
    text = json.dumps(value)
    return text if len(text) <= _LONGEST_SHOWN else f"{text[:_LONGEST_SHOWN]}…"
