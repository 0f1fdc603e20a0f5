"""Tools take whatever arguments a model writes, whatever their author calls them."""

import asyncio
import json
import time
import warnings
from collections.abc import Callable
from typing import Annotated, Any, Literal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from strop import Environment, Episode, ScriptedModel, Task
from strop.errors import SettingsError, ToolError, ToolFaultError
from strop.threads import Threads
from strop.toolbox import Toolbox
from strop.tools import Tool, parse_docstring, tool
from strop.types import Content, End, ToolCall


def call(function: Callable[..., Any], arguments: str) -> Content | End:
    threads = Threads(1)
    try:
        return asyncio.run(Tool.of(function).call(None, arguments, threads))
    finally:
        threads.close()


def a_tool(parameter: str, annotation: str = "str", default: str = "") -> Callable[..., Any]:
    """A function with one parameter of any name."""
    names: dict[str, Any] = {}
    exec(f"def act({parameter}: {annotation}{default}):\n    return {parameter}", names)
    function: Callable[..., Any] = names["act"]
    return function


NAMES = [
    *("json", "schema", "copy", "dict", "validate", "construct", "parse_obj", "fields", "self"),
    *("model_config", "model_fields", "model_dump", "model_name", "model_validate", "model_extra"),
    *("model_computed_fields", "model_post_init", "_private", "__dunder", "cls", "type", "id"),
    *("input", "class_", "from_", "argument_0", "größe"),
]


@pytest.mark.parametrize("name", NAMES)
def test_a_parameter_may_have_any_name(name: str) -> None:
    function = a_tool(name)
    with warnings.catch_warnings():
        warnings.simplefilter("error")

        spec = Tool.of(function).spec

    assert list(spec.parameters["properties"]) == [name]  # type: ignore[arg-type]
    assert spec.parameters["required"] == [name]
    assert call(function, json.dumps({name: "hello"})) == "hello"


@pytest.mark.parametrize("name", ["json", "model_fields", "_private"])
def test_a_wrong_argument_is_called_by_its_authors_name(name: str) -> None:
    with pytest.raises(ToolError, match=f"`act`: {name}: "):
        call(a_tool(name), json.dumps({name: 3}))
    with pytest.raises(ToolError, match=f"{name}: Field required"):
        call(a_tool(name), "{}")
    with pytest.raises(ToolError, match="argument_0: Extra inputs"):
        call(a_tool(name), json.dumps({name: "x", "argument_0": "y"}))


def test_two_parameters_keep_their_order_defaults_and_descriptions() -> None:
    def act(schema: int, copy: Literal["a", "b"] = "b", json: list[int] | None = None) -> str:
        """Do it.

        Args:
            schema: How many.
            copy: Which
                of both.
            json: What else.
        """
        return f"{schema} {copy} {json}"

    schema: Any = Tool.of(act).spec.parameters

    assert list(schema["properties"]) == ["schema", "copy", "json"]
    assert schema["required"] == ["schema"]
    assert schema["properties"]["copy"]["description"] == "Which of both."
    assert schema["properties"]["copy"]["default"] == "b"
    assert schema["properties"]["copy"]["enum"] == ["a", "b"]
    assert schema["additionalProperties"] is False
    assert call(act, '{"schema": 1}') == "1 b None"
    assert call(act, '{"json": [1], "copy": "a", "schema": 2}') == "2 a [1]"


REFUSED = [
    "null",
    "[]",
    "3",
    '"x"',
    "true",
    " ",
    "{",
    "}",
    "{}x",
    "{'size': 1}",
    '{"size": 1,}',
    '{"size": "1"}',
    '{"size": 1.0}',
    '{"size": true}',
    '{"size": null}',
    '{"size": [1]}',
    '{"size": NaN}',
    '{"size": 1e400}',
    '{"size": ' + "1" * 5000 + "}",
    '{"Size": 1}',
    '{"size": 1, "more": 2}',
    '{"size": 1, "__class__": 2}',
    "[" * 100_000,
    '{"size":' * 10_000,
    "\x00",
    "\ud800",
    '{"size": "\ud800"}',
    "\ufeff{}",
    "<size>1</size>",
]


@pytest.mark.parametrize("arguments", REFUSED, ids=range(len(REFUSED)))
def test_arguments_that_do_not_fit_are_told_to_the_model_shortly(arguments: str) -> None:
    def grow(size: int = 1) -> int:
        return size

    with pytest.raises(ToolError, match=r"^Wrong arguments for `grow`: ") as caught:
        call(grow, arguments)
    assert len(str(caught.value)) < 300


@given(st.text(max_size=40))
def test_any_text_as_arguments_runs_the_tool_or_is_told(text: str) -> None:
    parsed = Tool.of(a_tool("size", "int", " = 1"))
    for arguments in (text, f'{{"size": {text}}}', json.dumps({"size": text})):
        try:
            found = parsed.parse(arguments)
        except ToolError:
            continue
        assert list(found) == ["size"]
        assert type(found["size"]) is int


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(st.characters(exclude_categories=["Cs"])),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text("ab"), inner, max_size=3),
    max_leaves=6,
)


@given(JSON)
def test_any_json_comes_back_as_text_that_reads_as_the_same(value: Any) -> None:
    def echo(value: Any) -> Any:
        return value

    parsed = Tool.of(echo).parse(json.dumps({"value": value}))
    assert parsed == {"value": value}
    answer = asyncio.run(_inline(echo, json.dumps({"value": value})))
    expected = value if isinstance(value, str) else "" if value is None else None
    assert answer == expected or json.loads(str(answer)) == value


async def _inline(function: Callable[..., Any], arguments: str) -> Content | End:
    return await Tool.of(tool(inline=True)(function)).call(None, arguments, Threads(1))


@pytest.mark.parametrize("result", [{1, 2}, object(), b"bytes", 1j, {"a": {1}}, {(1,): 2}])
def test_a_result_that_is_no_json_is_the_authors_fault(result: Any) -> None:
    def give() -> Any:
        return result

    with pytest.raises(ToolFaultError, match="The tool `give` raised"):
        call(give, "{}")


@pytest.mark.parametrize(
    "error", [ValueError("x"), KeyError("x"), StopIteration("x"), TimeoutError("x"), OSError("x")]
)
def test_an_error_is_the_authors_fault_unless_it_is_declared(error: Exception) -> None:
    def fail() -> None:
        raise error

    with pytest.raises(ToolFaultError, match="The tool `fail` raised"):
        call(fail, "{}")
    if not isinstance(error, StopIteration):
        with pytest.raises(ToolError, match=f"^{type(error).__name__}: "):
            call(tool(errors=(type(error),))(fail), "{}")


@pytest.mark.parametrize("annotation", ["", ": Callable", ": object.__init__"])
def test_a_parameter_that_json_cannot_carry_is_refused_when_it_is_asked_for(
    annotation: str,
) -> None:
    names: dict[str, Any] = {"Callable": Callable}
    exec(f"def act(x{annotation}): ...", names)

    with pytest.raises(Exception, match=r"x|schema|Callable|callable"):
        Tool.of(names["act"]).spec  # noqa: B018 - reading it is the act


@pytest.mark.parametrize("parameters", ["*values: int", "**values: int", "value"])
def test_a_parameter_without_a_name_or_a_type_is_named(parameters: str) -> None:
    names: dict[str, Any] = {}
    exec(f"def act({parameters}): ...", names)

    with pytest.raises(TypeError, match=r"The parameter `values?` of the tool `act`"):
        Tool.of(names["act"]).spec  # noqa: B018 - reading it is the act


def test_constraints_of_an_annotation_are_checked_and_shown() -> None:
    from pydantic import Field

    def act(size: Annotated[int, Field(ge=1, le=3)]) -> int:
        return size

    shown: Any = Tool.of(act).spec.parameters["properties"]
    assert (shown["size"]["minimum"], shown["size"]["maximum"]) == (1, 3)
    assert call(act, '{"size": 3}') == "3"
    with pytest.raises(ToolError, match="size: Input should be less than or equal to 3"):
        call(act, '{"size": 4}')


def answers(calls: list[ToolCall], *functions: Callable[..., Any]) -> list[str]:
    threads = Threads(2)
    box = Toolbox(map(Tool.of, functions))
    try:
        messages, _ = asyncio.run(box.answer(tuple(calls), "policy", None, threads))
    finally:
        threads.close()
    assert [message.tool_call_id for message in messages] == [each.id for each in calls]
    return [message.text for message in messages]


def test_each_of_many_calls_gets_one_answer_in_its_order() -> None:
    calls = [ToolCall(str(n), "act", json.dumps({"x": str(n)})) for n in range(50)]

    assert answers(calls, a_tool("x")) == [str(n) for n in range(50)]


def test_calls_that_share_an_id_are_all_refused_and_the_others_run() -> None:
    calls = [ToolCall(name, "act", '{"x": "y"}') for name in ("a", "b", "a", "", "")]

    texts = answers(calls, a_tool("x"))

    assert [text.startswith("Error: The call id") for text in texts] == [1, 0, 1, 1, 1]
    assert texts[1] == "y"


def test_thousands_of_calls_with_one_id_take_no_quadratic_time() -> None:
    calls = [ToolCall(str(n // 2), "none", "{}") for n in range(20_000)]
    started_at = time.process_time()

    texts = answers(calls, a_tool("x"))

    assert time.process_time() - started_at < 4
    assert all(text.startswith("Error: The call id") for text in texts)


@pytest.mark.parametrize("name", ["", "ACT", "act ", "__class__", "a" * 1000, "act\n", "\ud800"])
def test_an_unknown_tool_is_told_with_those_that_there_are(name: str) -> None:
    (text,) = answers([ToolCall("1", name, "{}")], a_tool("x"))

    assert text.startswith("Error: There is no tool")
    assert text.endswith("Use: act.")


def test_two_tools_of_one_name_are_refused() -> None:
    box = Toolbox([Tool.of(a_tool("x"))])

    with pytest.raises(ValueError, match="two tools called 'act'"):
        box.add([Tool.of(a_tool("y"))])


class Shop(Episode):
    """An episode with a tool."""

    @tool
    def act(self, x: str) -> str:
        """Act."""
        return x


def an_environment(**options: Any) -> Environment:
    return Environment(tasks=[Task("1", "Go.")], rewards=[], **options)


def test_a_method_and_a_function_of_one_name_are_refused_when_the_environment_is_made() -> None:
    def act(x: str) -> str:
        """Act otherwise."""
        return x

    with pytest.raises(SettingsError) as refused:
        an_environment(episode=Shop, tools=[act])
    with pytest.raises(SettingsError, match="two tools called 'act'"):
        an_environment(tools=[act, Tool("act", Shop.act)])

    told = str(refused.value)
    assert "two tools called 'act': `tests.sdk.test_tools_hostile.Shop.act` and `" in told
    assert ".<locals>.act`. Rename one of them, or offer only one." in told


def bare(x):  # type: ignore[no-untyped-def]
    return x


def odd(x: Threads) -> str:
    return str(x)


def unknown(x: "Nowhere") -> str:  # type: ignore[name-defined]  # noqa: F821
    return str(x)


@pytest.mark.parametrize(
    ("function", "why"),
    [(bare, "parameter `x`"), (odd, "Threads"), (unknown, "'Nowhere' is not defined")],
)
async def test_a_tool_that_gives_no_schema_is_refused_when_it_is_offered(
    function: Callable[..., Any], why: str
) -> None:
    class Late(Episode):
        async def setup(self) -> None:
            self.add_tools(Tool.of(function))

    with pytest.raises(SettingsError, match=f"gives the tool '{function.__name__}' no sc.*{why}"):
        an_environment(tools=[function])
    late = await an_environment(episode=Late).rollout(Task("1", "Go."), ScriptedModel.constant(""))

    assert late.failure is not None
    assert (late.failure.type, late.failure.boundary) == ("EnvironmentFaultError", "environment")
    assert "`Late.setup` raised SettingsError" in late.failure.message
    assert why in late.failure.message


@given(st.text(st.sampled_from("Args:\n xyz()*—")))
def test_no_docstring_makes_the_schema_fail(text: str) -> None:
    def act(x: int) -> None: ...

    act.__doc__ = f"Act.\n\nArgs:\n    x: One.\n{text}"

    summary, descriptions = parse_docstring(act)

    assert summary.startswith("Act")
    assert set(Tool.of(act).spec.parameters["properties"]) == {"x"}  # type: ignore[arg-type]
    assert all(isinstance(each, str) for each in descriptions.values())
