"""Progress tells how far a run is, what it earned, what failed, its cost and the time left."""

import contextlib
import fcntl
import pty
import re
import struct
import sys
import termios
from dataclasses import replace
from typing import Any

import pytest

from strop.cli.run_progress import RunProgress
from strop.run_file import RunFile
from strop.trajectory import Failure, Seat, Trajectory
from strop.types import Usage
from tests.sdk.trajectories import a_trajectory, prompt_segment, sampled_segment


def priced(**prices: float) -> Any:
    return RunFile.parse({"environments": [{"ref": "any"}], "model": prices}).cost


FREE = priced()
PRICED = priced(prompt_price=1e6, completion_price=2e6)


def with_reward(reward: float | None, **changes: Any) -> Trajectory:
    failure = Failure("RewardError", "reward", "broken") if reward is None else None
    return a_trajectory(seats={"policy": Seat(True, reward)}, failure=failure, **changes)


def without_tokens(reward: float) -> Trajectory:
    blind = replace(sampled_segment(0, 2), usage=None)
    return a_trajectory(prompt_segment(None, 1), blind, seats={"policy": Seat(True, reward)})


def after(*trajectories: Trajectory, planned: int | None = 10, cost: Any = FREE) -> RunProgress:
    progress = RunProgress(planned, cost)
    for trajectory in trajectories:
        progress.add(trajectory)
    return progress


def test_rewards_are_averaged_over_scored_attempts_only() -> None:
    line = after(with_reward(1.0), with_reward(0.0), with_reward(None)).line(5)

    assert line.startswith("3/10 attempts, reward 0.500, 1 failed, ")


def test_nothing_scored_shows_no_reward() -> None:
    assert "reward" not in after(with_reward(None)).line(1)


def test_without_a_plan_there_is_no_time_left() -> None:
    line = after(with_reward(1.0), planned=None).line(5)

    assert line.startswith("1 attempts, ")
    assert "left" not in line


@pytest.mark.parametrize(
    ("elapsed_s", "gone", "left"),
    [(5, "0:05", "0:45"), (65, "1:05", "9:45"), (3_700, "1:01:40", "9:15:00")],
)
def test_the_time_left_follows_from_the_pace(elapsed_s: int, gone: str, left: str) -> None:
    line = after(with_reward(1.0)).line(elapsed_s)

    assert f"{gone} gone, {left} left" in line


def test_no_time_is_left_after_more_than_was_planned() -> None:
    assert "0:00 left" in after(*[with_reward(1.0)] * 3, planned=2).line(9)


def test_tokens_are_counted_and_written_short() -> None:
    big = replace(sampled_segment(0, 2), usage=Usage(1_500_000, 0))
    many = a_trajectory(prompt_segment(None, 1), big, seats={"policy": Seat(True, 1.0)})

    assert "4 tokens" in after(with_reward(1.0)).line(1)
    assert "1.5M tokens" in after(many).line(1)
    assert "tokens" not in after(without_tokens(1.0)).line(1)


def test_the_cost_is_shown_where_a_price_is_known() -> None:
    trajectory = with_reward(1.0)

    assert "cost 5.00" in after(trajectory, cost=PRICED).line(1)
    assert "cost" not in after(trajectory).line(1)


def test_without_a_terminal_only_the_last_line_comes_at_once(
    capsys: pytest.CaptureFixture[str],
) -> None:
    with RunProgress(3, FREE) as progress:
        for _ in range(3):
            progress.add(with_reward(1.0))
    said = capsys.readouterr()

    assert said.out == ""
    assert re.fullmatch(r"3/3 attempts, .*left\n", said.err)


def test_a_terminal_has_one_line_that_is_wiped_at_the_end(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True)
    monkeypatch.setenv("TERM", "xterm")
    with RunProgress(2, FREE) as progress:
        progress.add(with_reward(1.0))
        progress.add(with_reward(0.0))
    said = capsys.readouterr().err

    assert said.startswith("\r\033[K1/2 attempts")
    assert said.endswith("\r\033[K")
    assert "\n" not in said


def refreshed(cost: Any, monkeypatch: pytest.MonkeyPatch, *widths: int) -> list[str]:
    """The lines that a run shows on a real terminal, resized before each attempt's end."""
    ours, theirs = pty.openpty()
    monkeypatch.setenv("TERM", "xterm")
    with open(theirs, "w", encoding="utf-8") as stream:
        monkeypatch.setattr(sys, "stderr", stream)
        progress = RunProgress(len(widths), cost)
        for columns in widths:
            fcntl.ioctl(ours, termios.TIOCSWINSZ, struct.pack("HHHH", 24, columns, 0, 0))
            progress.add(COSTLY)
    shown = ""
    with open(ours, "rb", buffering=0) as terminal, contextlib.suppress(OSError):
        while piece := terminal.read(65536):
            shown += piece.decode()
    before, *lines = shown.split("\r\033[K")
    assert before == ""
    return lines


COSTLY = a_trajectory(
    prompt_segment(None, 1),
    replace(sampled_segment(0, 2), usage=Usage(1_200_000, 34_000)),
    seats={"policy": Seat(True, 0.5)},
)


@pytest.mark.parametrize(
    ("columns", "expected"),
    [
        (
            100,
            r"1/2 attempts, reward 0\.500, 0 failed, 1\.2M tokens, cost 12\.50, .* gone, .* left",
        ),
        (80, r"1/2 attempts, reward 0\.500, 0 failed, 1\.2M tokens, cost 12\.50, [\d:]+ left"),
        (60, r"1/2 attempts, reward 0\.500, 0 failed, cost 12\.50, [\d:]+ left"),
        (36, r"1/2 attempts, 0 failed, [\d:]+ left"),
        (30, r"1/2 attempts, [\d:]+ left"),
        (20, r"1/2 attempts"),
        (8, r"1/2 att"),
        (1, r""),
        (0, r"1/2 attempts, reward 0\.500, 0 failed, 1\.2M tokens, cost 12\.50, [\d:]+ left"),
    ],
)
def test_the_live_line_leaves_out_what_its_terminal_has_no_room_for(
    columns: int, expected: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    first, _ = refreshed(lambda *_: 12.5, monkeypatch, columns, 9)

    assert re.fullmatch(expected, first)
    assert len(first) < (columns or 80)


def test_the_live_line_follows_a_terminal_that_is_resized(monkeypatch: pytest.MonkeyPatch) -> None:
    narrow, wide = refreshed(FREE, monkeypatch, 20, 200)

    assert narrow == "1/2 attempts"
    assert re.fullmatch(r"2/2 attempts, reward .*, 2\.5M tokens, .* gone, [\d:]+ left", wide)


def test_a_dumb_terminal_gets_plain_lines(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True)
    monkeypatch.setenv("TERM", "dumb")
    with RunProgress(1, FREE) as progress:
        progress.add(with_reward(1.0))

    assert "\033" not in capsys.readouterr().err


def test_what_an_earlier_run_made_is_counted_and_not_taken_for_the_pace() -> None:
    progress = RunProgress(10, FREE)
    for _ in range(5):
        progress.add_finished(with_reward(1.0))
    progress.add(with_reward(0.0))

    line = progress.line(5)

    assert line.startswith("6/10 attempts, reward 0.833, 0 failed, ")
    assert line.endswith("0:05 gone, 0:20 left")


def test_a_resumed_run_ends_with_the_last_line(capsys: pytest.CaptureFixture[str]) -> None:
    with RunProgress(2, FREE) as progress:
        progress.add_finished(with_reward(1.0))
        assert capsys.readouterr().err == ""
        progress.add(with_reward(1.0))

    assert capsys.readouterr().err.startswith("2/2 attempts, ")


def test_a_run_without_attempts_says_nothing(capsys: pytest.CaptureFixture[str]) -> None:
    with RunProgress(0, FREE):
        pass

    assert capsys.readouterr().err == ""
