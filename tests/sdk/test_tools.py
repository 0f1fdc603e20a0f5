"""A method's annotations and docstring are its schema, and what a model writes is checked."""

import json
from enum import Enum
from typing import Any, Literal

import pytest

from strop import End, Episode, ToolError, tool
from strop.errors import ToolFaultError
from strop.threads import Threads
from strop.tools import Tool, parse_docstring, tools_of
from strop.types import Content


class Size(Enum):
    SMALL = "small"
    LARGE = "large"


class Shop(Episode):
    """A shop."""

    @tool
    def buy(
        self,
        item: str,
        count: int = 1,
        size: Size = Size.SMALL,
        colour: Literal["red", "blue"] | None = None,
        tags: list[str] | None = None,
    ) -> str:
        """Buy something.

        It may take a while.

        Args:
            item: What to buy,
                by name.
            count: How many.

        Returns:
            A receipt.
        """
        return f"{count} {item} {size.value} {colour} {tags}"

    @tool(inline=True)
    def price(self, item: str) -> dict[str, Any]:
        """What it costs."""
        return {"item": item, "price": 2.5}

    @tool
    async def leave(self) -> End:
        """Leave."""
        return End("bye")

    @tool(errors=(KeyError,))
    def find(self, item: str) -> str:
        """Find it."""
        if item == "bug":
            raise ZeroDivisionError("oops")
        if item == "told":
            raise ToolError("closed")
        return {"a": "here"}[item]

    def helper(self) -> None:
        """Not a tool."""


TOOLS = tools_of(Shop)


async def call(name: str, arguments: str) -> Content | End:
    threads = Threads(2)
    try:
        return await TOOLS[name].call(object(), arguments, threads)
    finally:
        threads.close()


def test_marked_methods_are_the_tools_in_order() -> None:
    assert list(TOOLS) == ["buy", "price", "leave", "find"]


def test_the_schema_comes_from_annotations_and_docstring() -> None:
    spec = TOOLS["buy"].spec

    assert spec.description == "Buy something.\n\nIt may take a while."
    properties: Any = spec.parameters["properties"]
    assert spec.parameters["required"] == ["item"]
    assert spec.parameters["additionalProperties"] is False
    assert properties["item"] == {"description": "What to buy, by name.", "type": "string"}
    assert properties["count"] == {"default": 1, "description": "How many.", "type": "integer"}
    assert "title" not in json.dumps(spec.parameters)


def test_a_parameter_called_title_stays_in_the_schema() -> None:
    def write(self: object, title: str) -> str:
        """Write."""
        return title

    properties: Any = Tool("write", write).spec.parameters["properties"]

    assert properties == {"title": {"type": "string"}}


async def test_arguments_arrive_typed_and_defaults_fill_in() -> None:
    given = '{"item": "tea", "size": "large", "colour": "red", "tags": ["a"]}'

    assert await call("buy", given) == "1 tea large red ['a']"


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        ("{", "Wrong arguments for `buy`"),
        ("[]", "Wrong arguments for `buy`"),
        ("null", "Wrong arguments for `buy`"),
        ("{}", "item: Field required"),
        ('{"item": 5}', "item: Input should be a valid string"),
        ('{"item": "a", "count": "two"}', "count: Input should be a valid integer"),
        ('{"item": "a", "count": 1.5}', "count:"),
        ('{"item": "a", "price": 3}', "price: Extra inputs"),
        ('{"item": "a", "colour": "green"}', "colour"),
    ],
)
async def test_wrong_arguments_are_told_to_the_model(arguments: str, told: str) -> None:
    with pytest.raises(ToolError, match=told):
        await call("buy", arguments)


async def test_no_arguments_at_all_is_an_empty_object() -> None:
    assert await call("leave", "") == End("bye")


async def test_a_result_that_is_no_text_becomes_json() -> None:
    assert await call("price", '{"item": "tea"}') == '{"item": "tea", "price": 2.5}'


async def test_declared_errors_go_to_the_model_and_others_are_the_authors() -> None:
    with pytest.raises(ToolError, match="KeyError"):
        await call("find", '{"item": "b"}')
    with pytest.raises(ToolError, match="closed"):
        await call("find", '{"item": "told"}')
    with pytest.raises(ToolFaultError, match="`find` raised ZeroDivisionError: oops"):
        await call("find", '{"item": "bug"}')


def test_an_untyped_parameter_is_refused_by_name() -> None:
    def act(self: object, what) -> str:  # type: ignore[no-untyped-def]
        return str(what)

    with pytest.raises(TypeError, match="`what` of the tool `act`"):
        _ = Tool("act", act).spec


def test_a_subclass_inherits_replaces_and_drops_tools() -> None:
    class Smaller(Shop):
        price = None  # type: ignore[assignment]

        @tool
        def find(self, item: str) -> str:
            """Find it better."""
            return item

    found = tools_of(Smaller)

    assert set(found) == {"buy", "leave", "find"}
    assert found["find"].spec.description == "Find it better."


def test_a_function_without_docstring_has_an_empty_description() -> None:
    assert parse_docstring(lambda: None) == ("", {})
