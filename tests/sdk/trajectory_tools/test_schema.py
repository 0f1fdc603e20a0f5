"""The schema file says exactly what the writer writes, and our reader of it agrees with others."""

import copy
import json
from collections.abc import Iterator
from dataclasses import fields
from pathlib import Path
from typing import Any, get_args, get_type_hints

import jsonschema
import pytest
from hypothesis import given
from hypothesis import strategies as st

from strop import Attempt, Trajectory, Usage
from strop.review.schema import KEYWORDS, field_name, schema_problems, trajectory_schema
from strop.trajectory import SCHEMA, Failure, Seat, Segment, StopReason, Timing
from strop.trajectory_json import encode_line, from_json
from strop.types import EnvironmentIdentity, FinishReason, Message, Part, Role
from tests.architecture.tree import ROOT
from tests.sdk.trajectories import a_trajectory
from tests.sdk.trajectory_tools.arbitrary import PATIENT, trajectories

OPEN = {"settings", "metadata", "metrics", "outcome", "stamps", "raw", "reference"} | {
    "reply",
    "extra",
}
"""Fields whose contents an environment decides."""


def written(trajectory: Trajectory) -> Any:
    return json.loads(encode_line(trajectory))


def resolve(schema: dict[str, Any]) -> dict[str, Any]:
    if "$ref" not in schema:
        return schema
    target: dict[str, Any] = trajectory_schema()["$defs"][schema["$ref"].removeprefix("#/$defs/")]
    return target | schema


def nodes(schema: dict[str, Any]) -> Iterator[dict[str, Any]]:
    yield schema
    inner = [*schema.get("properties", {}).values(), *schema.get("$defs", {}).values()]
    for name in ("items", "additionalProperties"):
        inner += [schema[name]] if name in schema else []
    for each in inner:
        yield from nodes(each)


def unknown_fields(value: Any, schema: dict[str, Any], where: str = "") -> Iterator[str]:
    """Fields that the schema does not name."""
    schema = resolve(schema)
    if isinstance(value, list):
        for member in value:
            yield from unknown_fields(member, schema.get("items", {}), f"{where}[]")
    elif isinstance(value, dict):
        known = schema.get("properties", {})
        for name, member in value.items():
            if name not in known and "additionalProperties" not in schema:
                yield f"{where}.{name}"
            elif name not in OPEN:
                child = known.get(name, schema.get("additionalProperties", {}))
                yield from unknown_fields(member, child, f"{where}.{name}")


def test_it_is_a_valid_schema_of_the_version_that_is_written() -> None:
    jsonschema.Draft202012Validator.check_schema(trajectory_schema())
    assert trajectory_schema()["$id"] == SCHEMA


def test_it_uses_nothing_that_our_reader_passes_over() -> None:
    assert {name for node in nodes(trajectory_schema()) for name in node} <= KEYWORDS


@given(trajectories())
@PATIENT
def test_whatever_is_written_fits_and_holds_only_known_fields(trajectory: Trajectory) -> None:
    value = written(trajectory)

    assert schema_problems(value) == []
    assert list(jsonschema.Draft202012Validator(trajectory_schema()).iter_errors(value)) == []
    assert list(unknown_fields(value, trajectory_schema())) == []


def test_fields_that_must_be_there_are_those_that_are_always_written() -> None:
    value = written(a_trajectory())

    assert set(trajectory_schema()["required"]) == set(value)


@pytest.mark.parametrize(
    ("schema", "record"),
    [
        ("attempt", Attempt),
        ("environment", EnvironmentIdentity),
        ("failure", Failure),
        ("timing", Timing),
        ("usage", Usage),
        ("segment", Segment),
        ("message", Message),
        ("part", Part),
        ("seat", Seat),
        ("", Trajectory),
    ],
)
def test_every_field_of_a_record_is_in_the_schema(schema: str, record: Any) -> None:
    root = trajectory_schema()
    found = root["$defs"].get(schema) or (root["properties"][schema] if schema else root)

    assert {field.name for field in fields(record)} <= set(found["properties"])


def test_choices_are_those_of_the_types() -> None:
    root = trajectory_schema()
    segment, message = root["$defs"]["segment"], root["$defs"]["message"]
    states = get_args(get_type_hints(EnvironmentIdentity)["state"])

    assert root["properties"]["stop_reason"]["enum"] == list(get_args(StopReason))
    assert segment["properties"]["finish_reason"]["enum"] == [*get_args(FinishReason), None]
    assert message["properties"]["role"]["enum"] == list(get_args(Role))
    assert root["properties"]["environment"]["properties"]["state"]["enum"] == list(states)


PATHS = st.lists(st.integers(0, 40), min_size=1, max_size=6)
STRANGERS = st.sampled_from([None, True, -1, "x", "a===", [], {}, [1, 2, 3], {"kind": 0}, 1.5])


@given(trajectories(), PATHS, STRANGERS, st.booleans())
@PATIENT
def test_our_reader_agrees_with_the_standard_one_on_broken_lines(
    trajectory: Trajectory, path: list[int], stranger: Any, is_removed: bool
) -> None:
    value = written(trajectory)
    broken = copy.deepcopy(value)
    target: Any = broken
    for place in path[:-1]:
        members = list(target.values()) if isinstance(target, dict) else target
        if not members or not isinstance(members[place % len(members)], dict | list):
            break
        target = members[place % len(members)]
    if not target:
        return
    keys = list(target) if isinstance(target, dict) else list(range(len(target)))
    key = keys[path[-1] % len(keys)]
    if is_removed:
        del target[key]
    else:
        target[key] = stranger

    standard = jsonschema.Draft202012Validator(trajectory_schema()).is_valid(broken)

    assert (schema_problems(broken) == []) == standard


@pytest.mark.parametrize(
    ("path", "stranger", "problem"),
    [
        (["segments", 0, "parent"], "0", ("segments[0].parent", 'is "0", not integer or null')),
        (["seats", "policy"], 1, ("seats.policy", "is 1, not object")),
        (["failure"], {}, ("failure.type", "is missing")),
        (["attempt", "member"], -1, ("attempt.member", "is -1, below 0")),
        (["stop_reason"], [], ("stop_reason", "is an array of 0, not one of")),
        (["reward"], True, ("reward", "is true, not number or null")),
        (["segments", 1, "logprobs"], "?", ("segments[1].logprobs", "no base64")),
        (["metrics", "a b"], "x" * 10**6, ('metrics["a b"]', 'is "xxx')),
    ],
)
def test_a_problem_names_field_value_and_what_was_wanted(
    path: list[Any], stranger: Any, problem: tuple[str, str]
) -> None:
    value = written(a_trajectory())
    target = value
    for key in path[:-1]:
        target = target[key]
    target[path[-1]] = stranger

    field, message = schema_problems(value)[0]

    assert field == problem[0]
    assert problem[1] in message
    assert len(message) < 200


def test_names_of_fields_cannot_write_to_the_terminal() -> None:
    assert field_name("metrics", "\x1b[2J\u202e") == 'metrics["\\u001b[2J\\u202e"]'


def test_readers_pass_over_fields_that_a_later_writer_added() -> None:
    value = written(a_trajectory())
    for record in ("attempt", "environment", "timing"):
        value[record]["added"] = 1
    value["added"] = 1
    value["segments"][1]["usage"]["added"] = 1

    assert schema_problems(value) == []
    assert from_json(value) == a_trajectory()


def test_every_field_is_in_the_reference() -> None:
    reference = (ROOT / "docs" / "reference" / "trajectory.md").read_text()
    named = {name for node in nodes(trajectory_schema()) for name in node.get("properties", {})}

    assert not {name for name in named if f"`{name}`" not in reference}


def test_the_file_is_ascii_and_comes_with_the_package() -> None:
    path = ROOT / "sdk" / "strop" / "trajectory.schema.json"

    assert json.loads(Path(path).read_text(encoding="ascii")) == trajectory_schema()
