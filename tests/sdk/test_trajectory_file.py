"""Trajectory files survive odd contents, kills, full disks and second writers."""

import json
import math
import os
import signal
import subprocess
import sys
from dataclasses import replace
from datetime import date
from functools import partial
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from strop import Message, Task, read_trajectories
from strop.errors import TrajectoryFileError, UnwritableError
from strop.trajectory import Failure, RewardValue, Seat, Segment
from strop.trajectory_file import TrajectoryReader, TrajectoryWriter
from strop.trajectory_json import decode_line, encode_line, from_json, to_json
from strop.types import Part, ToolCall
from tests.sdk.trajectories import a_trajectory, prompt_segment, sampled_segment
from tests.waiting import wait_until

ODD_TEXT = "\ud800 \x00 \u2028 \u2029 \x85 \r\n \ufeff \U0001f600"


def test_a_trajectory_comes_back_equal() -> None:
    trajectory = a_trajectory(
        failure=Failure("RewardError", "reward", "broken", "Traceback …"),
        seats={"policy": Seat(True, None, {"right": RewardValue(None, 1.0, None, "raised")})},
        turn_rewards=None,
    )

    assert decode_line(encode_line(trajectory)) == trajectory


def test_messages_with_parts_and_calls_come_back() -> None:
    message = Message("assistant", (Part("text", text="x"),), (ToolCall("1", "f", "{bad"),))
    trajectory = a_trajectory(Segment("messages", "policy", None, (message,)))

    assert decode_line(encode_line(trajectory)) == trajectory


@given(text=st.text(st.characters(exclude_categories=())), number=st.integers())
def test_odd_text_and_numbers_come_back(text: str, number: int) -> None:
    task = Task("k", text, number, {text: [number, -0.0]}, "train")
    trajectory = a_trajectory(task=task, outcome={"n": number, "t": text})

    line = encode_line(trajectory)

    assert decode_line(line) == trajectory
    assert line.isascii()
    assert line.count(b"\n") == 1


def test_not_a_number_and_infinities_come_back() -> None:
    trajectory = a_trajectory(outcome={"x": math.nan, "y": -math.inf})

    outcome = decode_line(encode_line(trajectory)).outcome

    assert math.isnan(outcome["x"])  # type: ignore[arg-type]
    assert outcome["y"] == -math.inf


def test_tokens_are_little_endian_base64() -> None:
    value = to_json(a_trajectory(prompt_segment(None, 1, 258)))

    assert value["segments"][0]["token_ids"] == "AQAAAAIBAAA="  # type: ignore[index, call-overload]


def test_a_reference_can_be_kept_secret() -> None:
    line = encode_line(a_trajectory(), has_reference=False)

    assert b"reference" not in line
    assert decode_line(line).task.reference is None


@pytest.mark.parametrize(
    "line",
    [
        b"",
        b"{",
        b"[]",
        b"null",
        b'{"schema":"strop.trajectory/2"}',
        b'{"schema":"strop.trajectory/1"}',
    ],
)
def test_what_is_no_trajectory_is_refused(line: bytes) -> None:
    with pytest.raises(TrajectoryFileError):
        decode_line(line)


@pytest.mark.parametrize(
    ("task", "place"),
    [
        (Task("k1", "x", metadata={"when": {"day": date(2026, 1, 1)}}), "task.metadata.when.day"),  # type: ignore[dict-item]
        (Task("k1", "x", reference={1, 2}), "task.reference"),  # type: ignore[arg-type]
        (Task("k1", "x", reference=10**5000), "task.reference"),
        (Task("k1", "x", reference=json.loads("[" * 900 + "]" * 900)), None),
    ],
    ids=["date", "set", "number", "deep"],
)
def test_what_cannot_be_written_is_named(task: Task, place: str | None) -> None:
    trajectory = a_trajectory(task=task)
    if place is None:
        assert decode_line(encode_line(trajectory)) == trajectory
        return

    with pytest.raises(UnwritableError, match=f"task 'k1' cannot be written: its `{place}`"):
        encode_line(trajectory)


def test_a_missing_field_is_named() -> None:
    value = json.loads(encode_line(a_trajectory()))
    del value["outcome"]

    with pytest.raises(TrajectoryFileError, match="outcome"):
        from_json(value)


def test_lines_are_read_in_order_whatever_stands_in_them(tmp_path: Path) -> None:
    path = tmp_path / "t.jsonl"
    trajectories = [a_trajectory(outcome={"n": n, "odd": ODD_TEXT}) for n in range(5)]

    with TrajectoryWriter(path, has_fsync=True) as writer:
        for trajectory in trajectories:
            writer.write(trajectory)

    assert read_trajectories(path) == trajectories


def test_a_torn_last_line_is_told_and_the_rest_is_read(tmp_path: Path) -> None:
    path = tmp_path / "t.jsonl"
    line = encode_line(a_trajectory())
    path.write_bytes(line + line[:50])
    reader = TrajectoryReader(path)

    assert len(list(reader)) == 1
    assert reader.torn is not None
    assert (reader.torn.line_number, reader.torn.size_bytes) == (2, 50)
    with pytest.raises(TrajectoryFileError, match="line 2 is torn"):
        read_trajectories(path)


def test_a_broken_line_in_the_middle_is_named_and_never_dropped(tmp_path: Path) -> None:
    path = tmp_path / "t.jsonl"
    line = encode_line(a_trajectory())
    path.write_bytes(line + b"{}\n" + line)

    with pytest.raises(TrajectoryFileError, match="line 2"):
        list(TrajectoryReader(path))


@pytest.mark.parametrize("torn_bytes", [1, 70_000, 200_000])
def test_a_writer_cuts_a_torn_line_and_keeps_finished_ones(tmp_path: Path, torn_bytes: int) -> None:
    path = tmp_path / "t.jsonl"
    line = encode_line(a_trajectory())
    path.write_bytes(line * 2 + b"x" * torn_bytes)

    with TrajectoryWriter(path) as writer:
        writer.write(a_trajectory())

    assert path.read_bytes() == line * 3


def test_a_file_of_nothing_but_a_torn_line_becomes_empty(tmp_path: Path) -> None:
    path = tmp_path / "t.jsonl"
    path.write_bytes(b"{" * 100)

    TrajectoryWriter(path).close()

    assert path.read_bytes() == b""


def test_a_second_writer_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "t.jsonl"

    with TrajectoryWriter(path), pytest.raises(TrajectoryFileError, match="another run"):
        TrajectoryWriter(path)

    TrajectoryWriter(path).close()


def test_a_full_disk_leaves_only_whole_lines(tmp_path: Path) -> None:
    code = f"""
import resource, signal
from pathlib import Path
from strop.trajectory_file import TrajectoryWriter
from tests.sdk.trajectories import a_trajectory
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
resource.setrlimit(resource.RLIMIT_FSIZE, (5000, 5000))
writer = TrajectoryWriter(Path({str(tmp_path / "t.jsonl")!r}))
try:
    while True:
        writer.write(a_trajectory())
except OSError as error:
    print("refused", error.errno)
"""

    printed = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True
    ).stdout

    assert printed.startswith("refused")
    assert len(read_trajectories(tmp_path / "t.jsonl")) >= 2


def is_larger_than(path: Path, size: int) -> bool:
    return path.exists() and path.stat().st_size > size


def test_a_killed_writer_leaves_whole_lines_and_at_most_one_torn(tmp_path: Path) -> None:
    path = tmp_path / "t.jsonl"
    code = f"""
from pathlib import Path
from strop.trajectory_file import TrajectoryWriter
from tests.sdk.trajectories import a_trajectory
writer = TrajectoryWriter(Path({str(path)!r}))
while True:
    writer.write(a_trajectory(outcome={{"x": "y" * 100_000}}))
"""
    for _ in range(5):
        child = subprocess.Popen([sys.executable, "-c", code])
        size = path.stat().st_size if path.exists() else 0
        wait_until(partial(is_larger_than, path, size + 500_000))
        os.kill(child.pid, signal.SIGKILL)
        child.wait()
        reader = TrajectoryReader(path)
        assert len(list(reader)) >= 4


def test_rewards_and_seats_keep_their_parts() -> None:
    trajectory = a_trajectory(
        prompt_segment(None, 1),
        replace(sampled_segment(0, 2), seat="black"),
        seats={
            "white": Seat(True, 1.0, {"won": RewardValue(1.0, 1.0, (0.0, 1.0))}),
            "black": Seat(False, 0.0, {"won": RewardValue(0.0, 1.0, (0.0, 1.0))}),
        },
    )

    assert decode_line(encode_line(trajectory)).seats == trajectory.seats
    assert trajectory.reward == 1.0
