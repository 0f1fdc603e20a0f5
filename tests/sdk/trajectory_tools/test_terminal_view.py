"""On a terminal the viewer has colours, keeps to the width, pages, and can be stopped."""

import random
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from rich.cells import cell_len

from strop.trajectory_file import TrajectoryWriter
from tests.sdk.cli.command import strop
from tests.sdk.trajectory_tools.hostile import hostile_trajectory
from tests.sdk.trajectory_tools.runs import a_run, attempt_at
from tests.sdk.trajectory_tools.terminal import Terminal

ESCAPE = "\x1b["
UNLIKELY = f"{ESCAPE}38;5;220m"
PROMPT = "\n:"
BELL = "\x07"


@pytest.fixture
def run(tmp_path: Path) -> Path:
    return a_run(tmp_path / "trajectories.jsonl")


def shown(*arguments: str | Path, columns: int = 80, **variables: Any) -> str:
    with Terminal(
        "eval", "view", *arguments, "--no-pager", columns=columns, **variables
    ) as terminal:
        assert terminal.finish() == 0, terminal.text
        return terminal.shown


def test_colours_are_for_terminals_alone(run: Path) -> None:
    assert ESCAPE in shown(run)
    assert ESCAPE not in strop("eval", "view", run).stdout
    assert ESCAPE not in strop("eval", "view", run, FORCE_COLOR="1").stdout


@pytest.mark.parametrize("variables", [{"NO_COLOR": "1"}, {"TERM": "dumb"}])
def test_colours_can_be_switched_off(run: Path, variables: dict[str, Any]) -> None:
    assert ESCAPE not in shown(run, "--task", "0", "--member", "1", **variables)


def test_tokens_are_coloured_by_logprob(run: Path) -> None:
    text = shown(run, "--task", "0", "--member", "1")

    assert f"{UNLIKELY}▮" in text
    assert "logprob -0.819 on average" in text


def test_ids_are_listed_when_asked_for(run: Path) -> None:
    text = shown(run, "--task", "0", "--member", "1", "--tokens")

    assert "▮" not in text
    assert "2541 " in text


@pytest.mark.parametrize("columns", [20, 60, 200])
@pytest.mark.parametrize("what", ["overview", "group", "attempt", "failed"])
def test_no_line_is_wider_than_the_terminal(run: Path, columns: int, what: str) -> None:
    options = {
        "overview": (),
        "group": ("--task", "1"),
        "attempt": ("--task", "1", "--member", "3"),
        "failed": ("--failed",),
    }[what]

    with Terminal("eval", "view", run, *options, "--no-pager", columns=columns) as terminal:
        assert terminal.finish() == 0
        lines = terminal.text.splitlines()

    assert [line for line in lines if cell_len(line) > columns] == []
    assert len(lines) > 5


def test_the_terminal_knows_its_width_better_than_a_variable(run: Path) -> None:
    with Terminal("eval", "view", run, "--no-pager", columns=50, COLUMNS="150") as terminal:
        assert terminal.finish() == 0
        assert max(map(cell_len, terminal.text.splitlines())) <= 50


def test_a_wide_terminal_is_used(run: Path) -> None:
    with Terminal("eval", "view", run, "--task", "1", "--no-pager", columns=160) as terminal:
        terminal.finish()
        widths = [cell_len(line.rstrip()) for line in terminal.text.splitlines()]

    assert max(widths) > 100


def test_long_output_is_paged_and_left_with_q(run: Path) -> None:
    with Terminal("eval", "view", run, "--task", "0", "--member", "0", rows=12) as terminal:
        terminal.wait_for("outcome")
        assert terminal.is_running()
        terminal.press("G")
        terminal.wait_for("turn 3")
        terminal.press("q")

        assert terminal.finish() == 0
        assert terminal.modes == terminal.modes_before


def test_ctrl_c_in_the_pager_ends_nothing(run: Path) -> None:
    with Terminal("eval", "view", run, "--task", "0", "--member", "0", rows=12) as terminal:
        terminal.wait_for(PROMPT)
        terminal.press("\x03")
        terminal.wait_for(BELL)
        assert terminal.is_running()

        assert terminal.finish(pressing="q") == 0
        assert "Traceback" not in terminal.text


def test_short_output_needs_no_key(run: Path) -> None:
    with Terminal("eval", "view", run, rows=60) as terminal:
        assert terminal.finish() == 0
        assert "Rewards" in terminal.text


@pytest.mark.parametrize("pager", ["", "no-such-pager"])
def test_without_a_pager_everything_is_printed(run: Path, pager: str) -> None:
    with Terminal("eval", "view", run, rows=10, PAGER=pager) as terminal:
        assert terminal.finish() == 0
        assert "Rewards" in terminal.text


def test_ctrl_c_while_a_large_file_is_read_stops_it(tmp_path: Path) -> None:
    path = tmp_path / "large.jsonl"
    trajectory = attempt_at(1, 0, random.Random(1), turns=400)
    with TrajectoryWriter(path) as writer:
        for number in range(400):
            writer.write(replace(trajectory, attempt=replace(trajectory.attempt, member=number)))

    with Terminal("eval", "view", path) as terminal:
        terminal.wait_until_open(path)
        terminal.press("\x03")

        assert terminal.finish() == 130
        assert "Interrupted." in terminal.text
        assert "Traceback" not in terminal.text
        assert terminal.modes == terminal.modes_before


@pytest.mark.parametrize("options", [(), ("--failed",), ("--member", "0", "--full", "--tokens")])
def test_nothing_that_a_model_wrote_reaches_the_terminal_raw(
    tmp_path: Path, options: tuple[str, ...]
) -> None:
    path = tmp_path / "t.jsonl"
    with TrajectoryWriter(path) as writer:
        writer.write(hostile_trajectory())

    coloured = shown(path, *options)
    with Terminal("eval", "view", path, *options, "--no-pager") as terminal:
        assert terminal.finish() == 0
        plain = terminal.text

    for forbidden in ("\x1b[2J", "\x1b]0;", "\x9b", "\x07", "\x08", "\u202e", "\u2028", "\x00"):
        assert forbidden not in coloured
    assert "\x1b" not in plain
    assert "\\x1b[2J\\x1b]0;owned\\x07" in "".join(plain.split("\n"))
