"""`strop trajectory validate` names line and field of everything that contradicts itself."""

import json
import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given

from strop import Attempt, Trajectory
from strop.review import validation
from strop.review.meaning import meaning_problems
from strop.review.validation import Validator
from strop.trajectory import Failure, RewardValue, Seat
from strop.trajectory_file import TrajectoryWriter
from strop.trajectory_json import encode_line
from tests.sdk.cli.command import strop
from tests.sdk.trajectories import a_trajectory
from tests.sdk.trajectory_tools.arbitrary import PATIENT, trajectories

Change = Callable[[Any], None]


def member(number: int) -> Trajectory:
    attempt = Attempt(1, "ada/maze", "train", "7", 0, number)
    return replace(a_trajectory(), attempt=attempt)


def write(path: Path, *items: Trajectory | bytes) -> Path:
    lines = (each if isinstance(each, bytes) else encode_line(each) for each in items)
    path.write_bytes(b"".join(lines))
    return path


def findings(path: Path) -> list[tuple[int, str]]:
    return [(each.line_number, each.field) for each in Validator(path)]


@given(trajectories())
@PATIENT
def test_nothing_is_found_in_what_is_written(trajectory: Trajectory) -> None:
    assert list(meaning_problems(json.loads(encode_line(trajectory)))) == []


def set_in(*path: Any, to: Any) -> Change:
    def change(value: Any) -> None:
        for key in path[:-1]:
            value = value[key]
        value[path[-1]] = to

    return change


def empty_seats(value: Any) -> None:
    value["seats"] = {}
    for segment in value["segments"]:
        segment["seat"] = "policy"


SAMPLING = ("segments", 1, "sampling")
RIGHT = ("seats", "policy", "rewards", "right")


@pytest.mark.parametrize(
    ("change", "field"),
    [
        (set_in("segments", 1, "parent", to=1), "segments[1].parent"),
        (set_in("segments", 0, "parent", to=1), "segments[0].parent"),
        (set_in("segments", 0, "seat", to="nobody"), "segments[0].seat"),
        (set_in("segments", 1, "logprobs", to="AAAAAAAAAAA="), "segments[1].logprobs"),
        (set_in("segments", 0, "token_ids", to="AAAA"), "segments[0].token_ids"),
        (set_in("segments", 0, "token_ids", to="A"), "segments[0].token_ids"),
        (set_in("segments", 0, "logprobs", to="AAAAAAAAAAA="), "segments[0].logprobs"),
        (set_in("segments", 0, "sampling", to={}), "segments[0].sampling"),
        (set_in(*SAMPLING, "temperature", to=-1), "segments[1].sampling.temperature"),
        (set_in("segments", 1, "messages", to=[]), "segments[1].messages"),
        (set_in("segments", 1, "messages", 0, "role", to="user"), "segments[1].messages"),
        (set_in("reward", to=0.25), "reward"),
        (set_in("reward", to=None), "reward"),
        (set_in(*RIGHT, "value", to=0.75), "seats.policy.reward"),
        (set_in(*RIGHT, "value", to=1.5), "seats.policy.rewards.right.value"),
        (set_in(*RIGHT, "value", to=float("nan")), "seats.policy.rewards.right.value"),
        (set_in(*RIGHT, "value", to=None), "seats.policy.rewards.right.error"),
        (set_in(*RIGHT, "weight", to=0.5), "seats.policy.reward"),
        (set_in("seats", "policy", "reward", to=None), "seats.policy.reward"),
        (set_in("turn_rewards", to=[1, 2]), "turn_rewards"),
        (set_in("is_terminated", to=False), "is_terminated"),
        (set_in("is_truncated", to=True), "is_truncated"),
        (set_in("stop_reason", to="failure"), "failure"),
        (set_in("usage", "prompt_tokens", to=4), "usage.prompt_tokens"),
        (set_in("seeds", "sampling", to=4), "seeds.sampling"),
        (set_in("seeds", "environment", to=4), "seeds.environment"),
        (set_in("task", "key", to="8"), "task.key"),
        (empty_seats, "seats"),
        (set_in("outcome", to=[]), "outcome"),
    ],
)
def test_a_contradiction_is_named_with_its_field(
    tmp_path: Path, change: Change, field: str
) -> None:
    value = json.loads(encode_line(member(1)))
    change(value)
    path = write(tmp_path / "t.jsonl", member(0), json.dumps(value).encode() + b"\n")

    assert (2, field) in findings(path)
    assert {line for line, _ in findings(path)} == {2}


def test_a_failed_attempt_has_no_reward(tmp_path: Path) -> None:
    failure = Failure("RewardError", "reward", "broken")
    scored = replace(member(0), failure=failure)
    failed = Seat(True, None, {"right": RewardValue(None, 1.0, None, "broken")})

    path = write(
        tmp_path / "t.jsonl", scored, replace(member(1), failure=failure, seats={"policy": failed})
    )

    assert findings(path) == [(1, "seats.policy.reward")]


def test_a_metric_is_the_value_of_its_function() -> None:
    rewards = {"right": RewardValue(0.5, 1.0), "length": RewardValue(5.0, 0.0)}
    value = json.loads(encode_line(a_trajectory(seats={"policy": Seat(True, 0.5, rewards)})))

    assert [field for field, _ in meaning_problems(value)] == ["metrics.length"]


def test_keys_of_a_mixture_may_name_their_environment() -> None:
    attempt = Attempt(1, "ada/maze", "train", "easy:7")

    value = json.loads(encode_line(a_trajectory(attempt=attempt)))

    assert list(meaning_problems(value)) == []


def test_an_attempt_that_stands_there_twice_is_told(tmp_path: Path) -> None:
    path = write(tmp_path / "t.jsonl", member(0), member(1), member(0), member(0))

    assert [str(each).partition(": ")[2] for each in Validator(path)] == [
        "`attempt` is that of line 1: the attempt stands there twice",
        "`attempt` is that of line 1: the attempt stands there twice",
    ]


@pytest.mark.parametrize(
    ("line", "message"),
    [
        (b"\n", "no JSON"),
        (b"{\n", "no JSON"),
        (b"\xff\xfe\n", "no JSON"),
        (b"[" * 100_000 + b"\n", "no JSON"),
        (b'{"n":' + b"9" * 5_000 + b"}\n", "no JSON"),
        (b"null\n", "is null, not object"),
        (b'{"schema":"strop.trajectory/2"}\n', '"strop.trajectory/2", not "strop.trajectory/1"'),
        (b'{"schema":', "torn"),
    ],
)
def test_a_line_that_is_no_trajectory_is_told_and_the_rest_is_checked(
    tmp_path: Path, line: bytes, message: str
) -> None:
    path = write(tmp_path / "t.jsonl", member(0), line)
    found = list(Validator(path))

    assert {each.line_number for each in found} == {2}
    assert any(message in str(each) for each in found)


def test_a_line_too_long_for_memory_is_passed_over(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(validation, "MAX_LINE_BYTES", 10_000)
    path = write(tmp_path / "t.jsonl", b"x" * 3_000_000 + b"\n", member(0), b"x" * 20_000)

    assert findings(path) == [(1, ""), (3, "")]


def test_memory_does_not_grow_with_the_file(tmp_path: Path) -> None:
    code = """
import resource, sys
from pathlib import Path
from strop.review.validation import Validator
assert list(Validator(Path(sys.argv[1]))) == []
print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss)
"""
    peaks_kb = []
    for count in (20, 2_000):
        path = tmp_path / f"{count}.jsonl"
        with TrajectoryWriter(path) as writer:
            for number in range(count):
                writer.write(replace(member(number), outcome={"text": "x" * 20_000}))
        printed = subprocess.run(
            [sys.executable, "-c", code, path], capture_output=True, check=True
        )
        peaks_kb.append(int(printed.stdout))

    assert path.stat().st_size > 40_000_000
    assert peaks_kb[1] - peaks_kb[0] < 4_000


def test_the_command_is_content_with_a_good_run(tmp_path: Path) -> None:
    write(tmp_path / "trajectories.jsonl", member(0), member(1))

    finished = strop("trajectory", "validate", tmp_path)

    assert finished.code == 0
    assert finished.stdout == f"{tmp_path / 'trajectories.jsonl'}: 2 lines, valid\n"


def test_the_command_lists_findings_and_fails(tmp_path: Path) -> None:
    good = write(tmp_path / "good.jsonl", member(0))
    bad = write(tmp_path / "bad.jsonl", member(0), b"{}\n")

    finished = strop("trajectory", "validate", good, bad, "--limit", "2")

    assert finished.code == 1
    assert f"{bad}, line 2: `schema` is missing" in finished.stdout
    assert f"{bad}: 2 lines, 25 findings" in finished.stdout
    assert "23 more findings" in finished.stderr


def test_findings_are_told_as_json(tmp_path: Path) -> None:
    path = write(tmp_path / "t.jsonl", member(0), b"{}\n")

    finished = strop("trajectory", "validate", path, "--json")

    assert finished.code == 1
    assert finished.document["is_valid"] is False
    (checked,) = finished.document["files"]
    assert checked["finding_count"] == 25
    assert checked["findings"][0] == {"line": 2, "field": "schema", "message": "is missing"}


def test_a_path_without_trajectories_is_refused(tmp_path: Path) -> None:
    assert "does not exist" in strop("trajectory", "validate", tmp_path / "none").stderr
    assert "holds no trajectories.jsonl" in strop("trajectory", "validate", tmp_path).stderr


def test_of_a_folder_of_runs_every_run_is_checked(tmp_path: Path) -> None:
    for name in ("a", "b"):
        (tmp_path / name).mkdir()
        write(tmp_path / name / "trajectories.jsonl", member(0))

    finished = strop("trajectory", "validate", tmp_path, "--json")

    assert [Path(each["path"]).parent.name for each in finished.document["files"]] == ["a", "b"]
