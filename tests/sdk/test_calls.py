"""Made-up arguments fit the schemas of tools, whatever those say."""

import json
import random
from collections.abc import Callable
from datetime import date, datetime
from enum import Enum
from typing import Annotated, Any, Literal
from uuid import UUID

import jsonschema
import pytest
from pydantic import BaseModel, Field

from strop.testing.calls import random_arguments, random_call
from strop.tools import Tool

WORDS = ("maze", "7", "north-east")
SEEDS = range(40)


class Colour(Enum):
    RED = "red"
    BLUE = "blue"


class Leaf(BaseModel):
    name: str = Field(min_length=2, max_length=5)
    weight: Annotated[float, Field(gt=0, le=1)] = 0.5


class Tree(BaseModel):
    leaf: Leaf
    branches: "list[Tree]" = Field(default_factory=list, max_length=2)
    other: "Tree | None" = None


def nothing() -> str:
    return ""


def plain(text: str, count: int, share: float, is_on: bool, gone: None) -> str:
    return ""


def chosen(direction: Literal["up", "down"], level: Literal[1, 2], colour: Colour) -> str:
    return ""


def bounded(
    low: Annotated[int, Field(ge=3, lt=5)],
    high: Annotated[int, Field(gt=1_000)],
    even: Annotated[int, Field(multiple_of=2, ge=10, le=20)],
    below: Annotated[float, Field(lt=-1_000.5)],
    text: Annotated[str, Field(min_length=30)],
    short: Annotated[str, Field(max_length=1)],
    code: Annotated[str, Field(pattern=r"^[0-9]+$")],
) -> str:
    return ""


def containers(
    names: Annotated[list[str], Field(min_length=2, max_length=3)],
    pairs: list[tuple[int, str]],
    table: dict[str, list[float]],
    kinds: dict[Literal["a", "b"], int],
    apart: set[int] | None = None,
) -> str:
    return ""


def alternatives(value: int | str | list[bool] | None, other: Leaf | Literal["none"]) -> str:
    return ""


def nested(tree: Tree, leaves: list[Leaf]) -> str:
    return ""


def times(day: date, moment: datetime, key: UUID) -> str:
    return ""


FUNCTIONS = [nothing, plain, chosen, bounded, containers, alternatives, nested, times]


@pytest.mark.parametrize("function", FUNCTIONS, ids=lambda function: str(function.__name__))
def test_calls_of_typed_functions_are_accepted_by_them(function: Callable[..., str]) -> None:
    tool = Tool.of(function)
    for seed in SEEDS:
        call = random_call(tool.spec, WORDS, random.Random(seed))

        assert call.name == function.__name__
        assert tool.parse(call.arguments).keys() == tool.parse(call.arguments).keys()


@pytest.mark.parametrize("function", [plain, alternatives, containers])
def test_calls_differ(function: Callable[..., str]) -> None:
    spec = Tool.of(function).spec

    calls = {random_call(spec, WORDS, random.Random(seed)).arguments for seed in SEEDS}

    assert len(calls) > len(SEEDS) / 2
    assert len({random_call(spec, WORDS, random.Random(1)).arguments for _ in range(5)}) == 1


def test_texts_are_made_of_the_words_that_were_given() -> None:
    schema = {"properties": {"text": {"type": "string"}}, "required": ["text"]}

    for seed in SEEDS:
        text = str(random_arguments(schema, WORDS, random.Random(seed))["text"])
        assert set(text.split()) <= set(WORDS)


def a_schema(rng: random.Random, depth: int = 0) -> Any:
    """A schema as servers of tools write them, which can be met."""
    low, more = rng.randint(-50, 50), rng.randint(0, 9)
    name = rng.choice(["a", "b", "c/d", "e~f"])

    def inner() -> Any:
        return a_schema(rng, depth + 1)

    leaves: list[Any] = [
        {"type": rng.choice(["string", "boolean", "null"])},
        {"type": rng.choice(["integer", "number"]), "minimum": low, "maximum": low + more},
        {"type": "integer", "exclusiveMinimum": low, "exclusiveMaximum": low + 2},
        {"type": "string", "minLength": more, "maxLength": more + rng.randint(0, 9)},
        {"enum": [low, None, "x"]},
        {"const": rng.choice([None, low, "constant", [1]])},
        {"type": ["string", "integer"]},
        {"$ref": "#/$defs/shared"},
        {},
        True,
    ]
    if depth > 2 or rng.random() < 0.3:
        return rng.choice(leaves)
    fields = {"type": "object", "properties": {name: inner(), "z": inner()}}
    containers: list[Callable[[], Any]] = [
        lambda: {"type": "array", "items": inner(), "minItems": more % 3, "maxItems": more % 3 + 1},
        lambda: {"type": "array", "prefixItems": [inner(), inner()], "items": False, "minItems": 2},
        lambda: {**fields, "required": [name], "additionalProperties": False},
        lambda: {"type": "object", "additionalProperties": inner()},
        lambda: {"anyOf": [inner(), inner()]},
        lambda: {"allOf": [fields], "required": ["z"]},
    ]
    return rng.choice(containers)()


@pytest.mark.parametrize("seed", range(10))
def test_made_up_arguments_fit_any_schema(seed: int) -> None:
    rng = random.Random(seed)
    for _ in range(10):
        properties = {name: a_schema(rng) for name in ("x", "y")}
        schema = {
            "type": "object",
            "properties": properties,
            "required": list(properties),
            "$defs": {"shared": {"type": "object", "properties": {"deep": {"type": "integer"}}}},
        }

        arguments = random_arguments(schema, WORDS, rng)

        jsonschema.validate(json.loads(json.dumps(arguments)), schema)


def test_a_schema_that_names_itself_comes_to_an_end() -> None:
    node = {
        "type": "object",
        "properties": {
            "next": {"anyOf": [{"$ref": "#/$defs/node"}, {"type": "null"}]},
            "all": {"type": "array", "items": {"$ref": "#/$defs/node"}},
        },
        "required": ["next", "all"],
    }
    schema = {"$ref": "#/$defs/node", "$defs": {"node": node}}

    for seed in SEEDS:
        arguments = random_arguments(schema, WORDS, random.Random(seed))
        jsonschema.validate(arguments, schema)


@pytest.mark.parametrize(
    "schema",
    [
        {},
        {"type": "object"},
        {"type": []},
        {"type": "string"},
        {"properties": {"a": {"$ref": "#/$defs/absent"}}, "required": ["a"]},
        {"properties": {"a": {"$ref": "elsewhere.json"}}, "required": ["a"]},
        {"properties": {"a": {"type": "string", "pattern": "("}}, "required": ["a"]},
        {"properties": {"a": {"type": "integer", "minimum": 5, "maximum": 3}}, "required": ["a"]},
        {"properties": {"a": {"type": "new"}}, "required": ["a"]},
        {"allOf": [{"properties": {"a": {}}}, {"properties": {"b": {}}}], "required": ["a", "b"]},
    ],
)
def test_an_odd_schema_is_no_fault(schema: dict[str, Any]) -> None:
    for seed in SEEDS:
        arguments = random_arguments(schema, WORDS, random.Random(seed))
        assert set(schema.get("required", ())) <= arguments.keys()
