"""From a Python function to a tool: schema, checked arguments, call (step: author)."""

from __future__ import annotations

import inspect
import json
import re
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Any, Protocol, TypeVar, cast, get_type_hints, overload

from strop.errors import SandboxError, ToolError, ToolFaultError
from strop.faults import FAULTS, own_fault
from strop.types import JSON, Content, End, Part, ToolSpec

if TYPE_CHECKING:
    from pydantic import BaseModel

    from strop.threads import Threads

Function = TypeVar("Function", bound=Callable[..., Any])
_MARK = "__strop_tool__"
_ARGUMENT = re.compile(r"^(?P<name>\*{0,2}\w+)(?: *\([^)]*\))?: *(?P<text>.*)$")


@dataclass(frozen=True, slots=True)
class ToolOptions:
    """What the decorator was told."""

    is_inline: bool = False
    errors: tuple[type[Exception], ...] = ()
    seats: tuple[str, ...] = ()
    """Who may call it; none named is everybody."""
    is_parallel: bool = False
    """Whether calls in one turn may run at the same time."""


@overload
def tool(function: Function, /) -> Function: ...
@overload
def tool(
    *,
    inline: bool = False,
    errors: tuple[type[Exception], ...] = (),
    seats: tuple[str, ...] = (),
    parallel: bool = False,
) -> Callable[[Function], Function]: ...
def tool(
    function: Function | None = None,
    /,
    *,
    inline: bool = False,
    errors: tuple[type[Exception], ...] = (),
    seats: tuple[str, ...] = (),
    parallel: bool = False,
) -> Function | Callable[[Function], Function]:
    """Mark a method of an episode, or a function, as a tool.

    Its annotations and Google docstring become the schema that the model sees. It returns a
    string, anything that is JSON, a `Part` or a list of them for images and sounds, or `End`; it
    tells the model of an error by raising `ToolError`.

    Args:
        function: A typed one, `def` or `async def`.
        inline: Run a `def` on the event loop: only for what takes microseconds.
        errors: Errors besides `ToolError` whose message goes to the model; any other error is
            the author's and fails the attempt.
        seats: Who may call it, where an episode has several seats; none named is everybody.
        parallel: Calls of one turn that stand together run at the same time: only for what leaves
            the episode's state alone. Their answers keep the order of the calls.
    """

    def mark(marked: Function) -> Function:
        setattr(marked, _MARK, ToolOptions(inline, errors, seats, parallel))
        return marked

    return mark if function is None else mark(function)


class ToolLike(Protocol):
    """A tool of any origin: a method, a function, a server's."""

    name: str

    @property
    def spec(self) -> ToolSpec:
        """What a model sees of it."""
        ...

    async def call(self, owner: object, arguments: str, threads: Threads) -> Content | End:
        """Run it with the arguments that a model wrote."""
        ...


class ToolConnection(Protocol):
    """A live connection to whatever offers tools."""

    @property
    def tools(self) -> Sequence[ToolLike]:
        """What it offers."""
        ...

    async def close(self) -> None:
        """Free it."""
        ...


class ToolServer(Protocol):
    """What offers tools and has to be connected first, such as `strop.mcp.McpServer`."""

    @property
    def is_shared(self) -> bool:
        """One connection for all episodes of an environment, or one for each."""
        ...

    async def connect(self) -> ToolConnection:
        """Open a connection."""
        ...


@dataclass(slots=True)
class Tool:
    """A Python function as a tool."""

    name: str
    function: Callable[..., Any]
    options: ToolOptions = field(default_factory=ToolOptions)
    is_method: bool = True
    """Whether its first parameter is the episode."""
    is_async: bool = field(init=False)
    _arguments: type[BaseModel] | None = field(default=None, init=False)
    _spec: ToolSpec | None = field(default=None, init=False)

    def __post_init__(self) -> None:
        self.is_async = inspect.iscoroutinefunction(self.function)

    @property
    def is_parallel(self) -> bool:
        """Whether calls of one turn may run at the same time."""
        return self.options.is_parallel

    @property
    def origin(self) -> str:
        """Where it stands, for messages."""
        names = (getattr(self.function, name, "") for name in ("__module__", "__qualname__"))
        return f"`{'.'.join(filter(None, names)) or self.name}`"

    @classmethod
    def of(cls, function: Callable[..., Any]) -> Tool:
        """A plain function as a tool; `tool` options on it count."""
        options = getattr(function, _MARK, None) or ToolOptions()
        return cls(function.__name__, function, options, is_method=False)

    @property
    def spec(self) -> ToolSpec:
        """Name, description and JSON schema of the arguments.

        Raises:
            TypeError: A parameter has no annotation, or one that JSON cannot carry.
        """
        if self._spec is None:
            summary, _ = parse_docstring(self.function)
            schema = self._model().model_json_schema()
            self._spec = ToolSpec(self.name, summary, _without_titles(schema))
        return self._spec

    def parse(self, arguments: str) -> dict[str, Any]:
        """Check the arguments that a model wrote.

        Raises:
            ToolError: They are no JSON object, or do not fit the schema.
        """
        from pydantic import ValidationError

        model = self._model()
        try:
            parsed = model.model_validate_json(arguments or "{}", strict=True)
        except ValidationError as error:
            raise ToolError(_explain(self.name, error.errors(include_url=False))) from None
        return {str(each.alias): getattr(parsed, name) for name, each in model.model_fields.items()}

    async def call(self, owner: object, arguments: str, threads: Threads) -> Content | End:
        """Run the function.

        Raises:
            ToolError: The model is to be told.
            SandboxError: The function's sandbox failed.
            ToolFaultError: The function raised what it does not declare.
        """
        parsed = self.parse(arguments)
        function = partial(self.function, owner) if self.is_method else self.function
        try:
            if self.is_async:
                result = await cast("Awaitable[Any]", function(**parsed))
            elif self.options.is_inline:
                result = function(**parsed)
            else:
                result = await threads.call(partial(function, **parsed))
            return _as_content(result)
        except (ToolError, SandboxError):
            raise
        except self.options.errors as error:
            raise ToolError(f"{type(error).__name__}: {error}") from error
        except FAULTS as error:
            fault = own_fault(error)
            raise ToolFaultError(
                f"The tool `{self.name}` raised {type(fault).__name__}: {fault}. "
                "Raise ToolError for what the model should hear, or declare it in @tool(errors=…)."
            ) from error

    def _model(self) -> type[BaseModel]:
        if self._arguments is None:
            self._arguments = _argument_model(self.name, self.function, self.is_method)
        return self._arguments


def tools_of(owner: type) -> dict[str, Tool]:
    """The marked methods of a class, base classes first, in the order of their definition."""
    found: dict[str, Tool] = {}
    for cls in reversed(owner.__mro__):
        for name, function in vars(cls).items():
            options = getattr(function, _MARK, None)
            if isinstance(options, ToolOptions):
                found[name] = Tool(name, function, options)
            else:
                found.pop(name, None)
    return found


def parse_docstring(function: Callable[..., Any]) -> tuple[str, dict[str, str]]:
    """A Google docstring's text before its first section, and its arguments' descriptions."""
    text = inspect.getdoc(function) or ""
    before, _, after = text.partition("\nArgs:\n")
    descriptions: dict[str, str] = {}
    name = ""
    for line in after.splitlines():
        if line and not line.startswith(" "):
            break
        match = (
            _ARGUMENT.match(line.strip()) if line.startswith("    ") and line[4:5] != " " else None
        )
        if match:
            name = match["name"].lstrip("*")
            descriptions[name] = match["text"].strip()
        elif name and line.strip():
            descriptions[name] += f" {line.strip()}"
    summary = re.split(r"\n(?:Returns|Raises|Yields|Example|Examples|Source|Note):\n", before)[0]
    return summary.strip(), descriptions


def _argument_model(name: str, function: Callable[..., Any], is_method: bool) -> type[BaseModel]:
    from pydantic import ConfigDict, Field, create_model

    hints = get_type_hints(function, include_extras=True)
    _, descriptions = parse_docstring(function)
    fields: dict[str, Any] = {}
    parameters = list(inspect.signature(function).parameters.values())
    for index, parameter in enumerate(parameters[1:] if is_method else parameters):
        if parameter.name not in hints or parameter.kind in (
            inspect.Parameter.VAR_POSITIONAL,
            inspect.Parameter.VAR_KEYWORD,
        ):
            raise TypeError(
                f"The parameter `{parameter.name}` of the tool `{name}` needs a type annotation: "
                "the model's schema is made from it."
            )
        default = ... if parameter.default is inspect.Parameter.empty else parameter.default
        described = Field(
            default, alias=parameter.name, description=descriptions.get(parameter.name)
        )
        # A field of the parameter's own name could be one that every model has, such as `copy`.
        fields[f"argument_{index}"] = (hints[parameter.name], described)
    config = ConfigDict(extra="forbid", arbitrary_types_allowed=False)
    return create_model(name, __config__=config, **fields)


def _explain(name: str, errors: Any) -> str:
    lines = []
    for error in errors:
        where = ".".join(str(part) for part in error["loc"])
        lines.append(f"{where}: {error['msg']}" if where else str(error["msg"]))
    return f"Wrong arguments for `{name}`: " + "; ".join(lines)


def _without_titles(schema: Any) -> Any:
    if isinstance(schema, list):
        return [_without_titles(part) for part in schema]
    if not isinstance(schema, dict):
        return schema
    return {
        key: {name: _without_titles(part) for name, part in value.items()}
        if key == "properties" and isinstance(value, dict)
        else _without_titles(value)
        for key, value in schema.items()
        if not (key == "title" and isinstance(value, str))
    }


def _as_content(result: JSON | End | Part | Sequence[Part]) -> Content | End:
    if isinstance(result, str | End):
        return result
    if isinstance(result, Part):
        return (result,)
    if isinstance(result, list | tuple) and result and isinstance(result[0], Part):
        return _as_parts(result)
    return "" if result is None else json.dumps(result, ensure_ascii=False)


def _as_parts(result: Sequence[Any]) -> tuple[Part, ...]:
    if not all(isinstance(each, Part) for each in result):
        raise TypeError("a list of parts holds something else. Give texts as Part('text', text=…)")
    return tuple(result)
