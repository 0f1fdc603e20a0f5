"""Settings: named by the signature of `load_environment`, checked all at once (step: load)."""

import inspect
import typing
from collections.abc import Callable, Mapping
from difflib import get_close_matches
from typing import Any

from pydantic import TypeAdapter, ValidationError
from pydantic.errors import PydanticSchemaGenerationError, PydanticUndefinedAnnotation
from pydantic_core import to_jsonable_python

from strop.errors import EnvironmentLoadError, SettingsError


def check_settings(
    load_environment: Callable[..., Any], given: Mapping[str, Any], *, where: str
) -> dict[str, Any]:
    """Every setting with its value, those that were not given with their default.

    Text that is no valid value as it stands is read as JSON, so that ``--set sizes=[1,2]`` and
    ``--set limit=null`` mean what they say.

    Raises:
        SettingsError: settings are unknown, missing or of a wrong type; the message names all.
    """
    parameters = _parameters(load_environment, where)
    takes_any = any(p.kind is p.VAR_KEYWORD for p in parameters.values())
    named = {n: p for n, p in parameters.items() if p.kind not in (p.VAR_KEYWORD, p.VAR_POSITIONAL)}
    values: dict[str, Any] = {}
    problems = []
    for name, parameter in named.items():
        if name in given:
            try:
                values[name] = _coerce(parameter.annotation, given[name], f"{where}: `{name}`")
            except ValidationError as error:
                problems.append(f"`{name}`: {_describe(error, given[name])}")
        elif parameter.default is parameter.empty:
            problems.append(f"`{name}` is missing")
        else:
            values[name] = parameter.default
    for name in given:
        if name in named:
            continue
        if takes_any:
            values[name] = given[name]
        else:
            problems.append(f"`{name}` is unknown{_suggestion(name, named)}")
    if problems:
        listed = "".join(f"\n  - {problem}" for problem in sorted(problems))
        raise SettingsError(f"{where} does not take these settings:{listed}\n{_usage(named)}")
    return values


def recorded_settings(values: Mapping[str, Any]) -> dict[str, Any]:
    """The settings as JSON, for trajectories: a path or a date as its text, a set as a list.

    What JSON has no form for is there as its `repr`.
    """
    recorded: dict[str, Any] = to_jsonable_python(
        dict(values), bytes_mode="base64", inf_nan_mode="constants", fallback=repr
    )
    return recorded


def _parameters(load_environment: Callable[..., Any], where: str) -> dict[str, inspect.Parameter]:
    try:
        signature = inspect.signature(load_environment)
        hints = typing.get_type_hints(load_environment, include_extras=True)
    except (TypeError, ValueError, NameError) as error:
        raise EnvironmentLoadError(
            f"The signature of {where}'s `load_environment` cannot be read: {error}. "
            "Annotate its settings with types that its module imports."
        ) from error
    parameters = {
        name: parameter.replace(annotation=hints.get(name, Any))
        for name, parameter in signature.parameters.items()
    }
    if any(p.kind is p.POSITIONAL_ONLY for p in parameters.values()):
        raise EnvironmentLoadError(
            f"{where}'s `load_environment` has positional-only settings, which nobody can name. "
            "Remove the `/` from its signature."
        )
    return parameters


def _coerce(annotation: Any, value: Any, where: str) -> Any:
    try:
        adapter: TypeAdapter[Any] = TypeAdapter(annotation)
    except (PydanticSchemaGenerationError, PydanticUndefinedAnnotation) as error:
        raise EnvironmentLoadError(
            f"{where} is annotated with {annotation!r}, of which no setting can be made. "
            "Use plain types: numbers, text, lists, literals, dataclasses."
        ) from error
    try:
        return adapter.validate_python(value)
    except ValidationError:
        if not isinstance(value, str):
            raise
        try:
            return adapter.validate_json(value)
        except ValidationError:
            pass
        raise


def _describe(error: ValidationError, value: Any) -> str:
    faults = error.errors(include_url=False, include_context=False, include_input=False)
    messages = dict.fromkeys(
        ".".join([*map(str, fault["loc"]), fault["msg"]]).replace("Input should", "should")
        for fault in faults
    )
    return f"{'; '.join(messages)} (it is {value!r:.80})"


def _suggestion(name: str, known: Mapping[str, Any]) -> str:
    close = get_close_matches(name, known, n=1)
    return f"; did you mean `{close[0]}`?" if close else ""


def _usage(named: Mapping[str, inspect.Parameter]) -> str:
    if not named:
        return "It takes no settings."
    shown = []
    for name, parameter in named.items():
        kind = inspect.formatannotation(parameter.annotation)
        default = "" if parameter.default is parameter.empty else f" = {parameter.default!r}"
        shown.append(f"{name}: {kind}{default}")
    return f"It takes: {', '.join(shown)}."
