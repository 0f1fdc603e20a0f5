"""What a trainer learns later stands beside a file of trajectories, and is joined on reading."""

import asyncio
import json
import math
import subprocess
import sys
from array import array
from dataclasses import replace
from pathlib import Path
from typing import Any

import jsonschema
import pytest

from strop import Attempt, RunPlan, ScriptedModel, Trajectory, evaluate, read_trajectories
from strop.errors import TrajectoryFileError
from strop.review.overview import read_overview
from strop.review.page import write_page
from strop.review.schema import KEYWORDS
from strop.review.stamps import stamps_schema
from strop.review.validation import StampValidator, Validator
from strop.stamp_file import SCHEMA, Stamps, StampWriter, read_stamped, stamps_path
from strop.trajectory_file import TrajectoryWriter
from strop.trajectory_json import unpack_numbers
from tests.architecture.tree import ROOT
from tests.sdk.cli.command import strop
from tests.sdk.trajectories import a_single_turn_environment, a_trajectory
from tests.sdk.trajectory_tools.test_schema import nodes, unknown_fields
from tests.waiting import wait_until


def member(number: int) -> Trajectory:
    attempt = Attempt(1, "ada/maze", "train", "7", 0, number)
    return replace(a_trajectory(), attempt=attempt)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    path = tmp_path / "trajectories.jsonl"
    with TrajectoryWriter(path) as writer:
        for number in range(4):
            writer.write(replace(member(number), stamps={"group_id": "at first"}))
    return path


def stamp_all(path: Path) -> None:
    with StampWriter(path) as stamps:
        for number in range(3):
            stamps.write(
                member(number).attempt,
                advantages=[0.5 - number],
                group_id=f"g{number}",
                policy_version_start=3,
                policy_version_end=4,
                interruptions=1,
                loss_weights={"rl": 1.0, "ce": 0.0},
                own={"any": [None, "JSON \ud800"]},
            )


def findings(path: Path) -> list[tuple[int, str, str]]:
    validator = Validator(path)
    assert list(validator) == []
    stamps = validator.stamps
    assert stamps is not None
    return [(each.line_number, each.field, each.message) for each in stamps]


def test_stamps_are_joined_and_the_trajectories_lines_stay(path: Path) -> None:
    before = path.read_bytes()

    stamp_all(path)

    assert path.read_bytes() == before
    assert stamps_path(path).name == "trajectories.stamps.jsonl"
    first, *_, last = read_stamped(path)
    assert first.stamps == {
        "group_id": "g0",
        "advantages": [0.5],
        "policy_version_start": 3,
        "policy_version_end": 4,
        "interruptions": 1,
        "loss_weights": {"rl": 1.0, "ce": 0.0},
        "own": {"any": [None, "JSON \ud800"]},
    }
    assert last.stamps == {"group_id": "at first"}
    assert [each.stamps for each in read_trajectories(path)] == [{"group_id": "at first"}] * 4


def test_later_stamps_of_the_same_name_count_and_others_stay(path: Path) -> None:
    stamp_all(path)
    with StampWriter(path) as stamps:
        stamps.write(member(1).attempt, group_id="another")

    found = Stamps(path).of(member(1).attempt)

    assert found["group_id"] == "another"
    assert found["policy_version_end"] == 4


def test_advantages_of_tokens_are_packed(path: Path) -> None:
    with StampWriter(path) as stamps:
        stamps.write(member(0).attempt, advantages=[array("f", [0.0, 0.25, 0.5])])
        stamps.write(member(1).attempt, advantages=[2])

    (packed,) = Stamps(path).of(member(0).attempt)["advantages"]
    (plain,) = Stamps(path).of(member(1).attempt)["advantages"]

    assert unpack_numbers("f", packed) == array("f", [0.0, 0.25, 0.5])
    assert plain == 2.0
    assert findings(path) == []


def test_advantages_are_held_against_the_samples_of_a_trajectory_that_is_given(path: Path) -> None:
    trajectory = member(0)
    (sample,) = trajectory.to_samples()
    fitting = array("f", [0.5] * len(sample.token_ids))
    with StampWriter(path) as stamps:
        stamps.write(trajectory, advantages=[fitting], group_id="g")
        stamps.write(trajectory, advantages=[0.5])
        for wrong, told in (
            ([], r"are 0, but `to_samples\(\)` gives 1\. Give one for each sample"),
            ([0.5, 0.5], r"are 2, but `to_samples\(\)` gives 1"),
            (
                [fitting[1:]],
                rf"`advantages\[0\]` holds {len(fitting) - 1} .* {len(fitting)} tokens",
            ),
        ):
            with pytest.raises(TrajectoryFileError, match=told):
                stamps.write(trajectory, advantages=wrong)

    assert Stamps(path).of(trajectory.attempt) == {"advantages": [0.5], "group_id": "g"}
    assert len(stamps_path(path).read_bytes().splitlines()) == 2


def test_the_validator_holds_advantages_against_the_samples_of_the_trajectory(path: Path) -> None:
    (sample,) = member(0).to_samples()
    fitting = array("f", [0.5] * len(sample.token_ids))
    with StampWriter(path) as stamps:
        for advantages in ([], [0.5], [fitting], [0.5, 0.5], [fitting[1:]]):
            stamps.write(member(3).attempt, advantages=advantages)

    count = len(fitting)
    assert [
        (line, field, message.partition(". ")[0]) for line, field, message in findings(path)
    ] == [
        (1, "stamps.advantages", "are 0, but `to_samples()` gives 1"),
        (4, "stamps.advantages", "are 2, but `to_samples()` gives 1"),
        (
            5,
            "stamps.advantages[0]",
            f"holds {count - 1} numbers, but the sample has {count} tokens",
        ),
    ]


def test_advantages_of_a_trajectory_with_findings_of_its_own_are_not_counted(path: Path) -> None:
    stamp_all(path)
    lines = [json.loads(line) for line in path.read_bytes().splitlines()]
    lines[0]["turn_rewards"] = [0.5] * 9
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))

    validator = Validator(path)
    found = list(validator)

    assert {each.line_number for each in found} == {1}
    assert validator.stamps is not None
    assert list(validator.stamps) == []


@pytest.mark.parametrize(
    ("stamps", "field"),
    [
        ({"group_id": 7}, "stamps.group_id"),
        ({"policy_version_start": "3"}, "stamps.policy_version_start"),
        ({"policy_version_end": 1.5}, "stamps.policy_version_end"),
        ({"interruptions": -1}, "stamps.interruptions"),
        ({"loss_weights": [1]}, "stamps.loss_weights"),
        ({"loss_weights": {"rl": "1"}}, "stamps.loss_weights.rl"),
        ({"loss_weights": {"rl": math.nan}}, "stamps.loss_weights.rl"),
        ({"advantages": [0.5, math.inf]}, r"stamps.advantages\[1\]"),
    ],
)
def test_a_stamp_that_is_not_what_its_name_says_is_refused(
    path: Path, stamps: Any, field: str
) -> None:
    with StampWriter(path) as writer, pytest.raises(TrajectoryFileError, match=field):
        writer.write(member(0).attempt, **stamps)

    assert stamps_path(path).read_bytes() == b""


def test_a_run_is_stamped_and_validated_by_the_command(tmp_path: Path) -> None:
    environment = a_single_turn_environment()
    asyncio.run(
        evaluate(environment, ScriptedModel.constant("x"), RunPlan(task_count=2), out=tmp_path)
    )
    path = tmp_path / "trajectories.jsonl"
    with StampWriter(path, has_fsync=True) as stamps:
        for each in read_trajectories(path):
            stamps.write(each.attempt, group_id=each.attempt.task_key)

    before = findings(path)
    with StampWriter(path) as stamps:
        stamps.write(member(0).attempt, group_id="of another run")
    checked = strop("trajectory", "validate", tmp_path)

    assert before == []
    assert checked.code == 1
    assert "stamps.jsonl, line 3: `attempt` is that of no trajectory" in checked.stdout
    assert "trajectories.jsonl: 2 lines, valid" in checked.stdout
    assert "trajectories.stamps.jsonl: 3 lines, 1 finding" in checked.stdout


def test_the_validator_names_what_is_wrong_with_a_line(path: Path) -> None:
    stamp_all(path)
    good = stamps_path(path).read_bytes().splitlines(keepends=True)[0]
    wrong = json.loads(good)
    wrong["stamps"]["advantages"] = ["AAA=", math.nan]
    lines = [
        good,
        b"no json\n",
        b"{}\n",
        json.dumps(wrong).encode() + b"\n",
        good.replace(b'"visit":0', b'"visit":9'),
        good[:40],
    ]
    stamps_path(path).write_bytes(b"".join(lines))

    found = findings(path)

    assert [(line, field) for line, field, _ in found] == [
        (2, ""),
        *((3, name) for name in ("schema", "attempt", "stamped_at_s", "stamps")),
        (4, "stamps.advantages[0]"),
        (4, "stamps.advantages[1]"),
        (5, "attempt"),
        (6, ""),
    ]
    assert "torn" in found[-1][2]


def test_a_broken_line_is_named_when_stamps_are_read(path: Path) -> None:
    stamps_path(path).write_bytes(b'{"schema": "strop.stamps/2"}\n')

    with pytest.raises(TrajectoryFileError, match=r"line 1: expected .*/1, found .*/2"):
        Stamps(path)
    stamps_path(path).write_bytes(b"[\n")
    with pytest.raises(TrajectoryFileError, match="line 1: the line is no JSON"):
        read_stamped(path)


def test_a_torn_line_is_passed_over_told_and_cut_by_the_next_writer(path: Path) -> None:
    stamp_all(path)
    whole = stamps_path(path).read_bytes()
    stamps_path(path).write_bytes(whole + whole[:60])

    stamps = Stamps(path)

    assert stamps.torn is not None
    assert (stamps.torn.line_number, stamps.torn.size_bytes) == (4, 60)
    assert stamps.of(member(2).attempt)["group_id"] == "g2"
    assert read_overview([path]).torn == [stamps.torn]
    StampWriter(path).close()
    assert stamps_path(path).read_bytes() == whole


def test_a_second_writer_of_stamps_is_refused_and_one_of_trajectories_is_not(path: Path) -> None:
    refused = pytest.raises(TrajectoryFileError, match="another run")
    with TrajectoryWriter(path), StampWriter(path), refused:
        StampWriter(path)


def test_a_killed_writer_leaves_whole_lines_and_at_most_one_torn(path: Path) -> None:
    code = f"""
import time
from pathlib import Path
from strop.stamp_file import StampWriter
from tests.sdk.test_stamp_file import member
writer = StampWriter(Path({str(path)!r}))
for _ in range(1_000):
    writer.write(member(0).attempt, group_id="x" * 50_000)
time.sleep(3600)
"""
    beside = stamps_path(path)
    child = subprocess.Popen([sys.executable, "-c", code], cwd=ROOT)
    try:
        wait_until(lambda: beside.exists() and beside.stat().st_size > 500_000, 300)
    finally:
        child.kill()
        child.wait()

    assert len(Stamps(path).of(member(0).attempt)["group_id"]) == 50_000
    StampWriter(path).close()
    assert findings(path) == []


def test_the_views_show_stamps_and_compare_advantages(path: Path, tmp_path: Path) -> None:
    stamp_all(path)

    compared = strop("eval", "view", path, "--task", "7").stdout
    shown = strop("eval", "view", path, "--task", "7", "--member", "1", "--full").stdout
    write_page([path], tmp_path / "page.html", title="run")

    assert "member  reward  advantage  right" in compared
    assert "     2     0.5       -1.5    0.5" in compared
    assert "     3     0.5          -    0.5" in compared
    assert "group_id='g1'" in shown


def test_lines_fit_their_schema_file_which_is_documented(path: Path) -> None:
    stamp_all(path)
    schema = stamps_schema()
    reference = (ROOT / "docs" / "reference" / "trajectory.md").read_text()

    jsonschema.Draft202012Validator.check_schema(schema)
    assert schema["$id"] == SCHEMA
    assert {name for node in nodes(schema) for name in node} <= KEYWORDS
    for line in stamps_path(path).read_bytes().splitlines():
        value = json.loads(line)
        assert list(jsonschema.Draft202012Validator(schema).iter_errors(value)) == []
        del value["stamps"]["own"]
        assert list(unknown_fields(value["attempt"], schema["properties"]["attempt"])) == []
        assert set(value["stamps"]) <= set(schema["properties"]["stamps"]["properties"])
    named = {name for node in nodes(schema) for name in node.get("properties", {})}
    assert not {name for name in named if f"`{name}`" not in reference}


def test_stamps_without_trajectories_are_those_of_none(tmp_path: Path) -> None:
    path = tmp_path / "t.jsonl"
    path.write_bytes(b"")
    stamp_all(path)

    assert len(list(StampValidator(stamps_path(path), {}, path))) == 3
    assert list(read_stamped(path)) == []
