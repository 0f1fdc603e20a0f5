"""`strop eval view` shows runs, groups and attempts as plain text and as JSON."""

import json
import math
import random
import subprocess
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from strop import Message
from strop.review.escaping import shorten, visible, visible_line
from strop.review.overview import histogram, read_overview
from strop.trajectory import Seat, Segment
from strop.trajectory_file import TrajectoryWriter
from tests.sdk.cli.command import STROP, strop
from tests.sdk.trajectories import a_trajectory, prompt_segment, sampled_segment
from tests.sdk.trajectory_tools.hostile import HOSTILE, hostile_trajectory
from tests.sdk.trajectory_tools.runs import a_run, attempt_at


@pytest.fixture
def run(tmp_path: Path) -> Path:
    return a_run(tmp_path / "trajectories.jsonl")


def view(*arguments: str | Path, **variables: Any) -> str:
    finished = strop("eval", "view", *arguments, **{"COLUMNS": "100", **variables})
    assert finished.code == 0, finished.stderr
    return finished.stdout


def save(path: Path, *trajectories: object) -> Path:
    with TrajectoryWriter(path) as writer:
        for each in trajectories:
            writer.write(each)  # type: ignore[arg-type]
    return path


def test_a_run_shows_figures_histogram_and_groups(run: Path) -> None:
    text = view(run)

    assert "reward     0.5258 ± 0.031" in text
    assert "failures   2 RewardError" in text
    assert "0.7 to 0.8  ████████████████████████████████████████ 5\n" in text
    assert "1            4  0.5237   0.281    0.961  ▃▃█✗\n" in text


def test_a_folder_means_its_run(run: Path) -> None:
    assert view(run.parent) == view(run)


def test_groups_are_limited_and_the_rest_is_counted(run: Path) -> None:
    assert "… 4 more; see --limit and --task." in view(run, "--limit", "2")


def test_a_task_shows_its_attempts_beside_each_other(run: Path) -> None:
    text = view(run, "--task", "1")

    assert "member  reward  escaped  progress  turns  tokens  ended by  last reply" in text
    assert "     3       -        -         -      3     101  ended     RewardError: `prog" in text


def test_a_member_shows_every_turn(run: Path) -> None:
    text = view(run, "--task", "0", "--member", "1")

    assert "ada/maze train 0, member 1" in text
    assert text.count("assistant · turn") == 3
    assert '→ move({"direction":"left"})  call_0' in text
    assert "reference    {'exit': [3, 4]}" in text
    assert "progress         0.414  1       0 to 1" in text
    assert "ended ended" not in text


def test_a_run_without_failures_says_so(tmp_path: Path, run: Path) -> None:
    lines = run.read_text().splitlines(keepends=True)
    path = tmp_path / "good.jsonl"
    path.write_text("".join(line for line in lines if json.loads(line)["failure"] is None))

    assert "No attempt failed." in view(path, "--failed")


def test_failures_are_listed_with_their_cause(run: Path) -> None:
    text = view(run, "--failed")

    assert "Tasks with failures" in text
    assert text.count("RewardError: `progress` raised") == 2


def test_a_failed_attempt_shows_message_and_traceback(run: Path) -> None:
    text = view(run, "--task", "1", "--member", "3")

    assert "RewardError at the boundary reward" in text
    assert 'File "maze.py", line 12, in progress' in text


def test_a_file_of_one_attempt_is_shown_whole(tmp_path: Path) -> None:
    path = save(tmp_path / "t.jsonl", a_trajectory())

    assert "assistant · turn 1" in view(path)


def test_forks_and_seats_are_named(tmp_path: Path) -> None:
    graph = (
        prompt_segment(None, 1),
        sampled_segment(0, 2),
        sampled_segment(0, 3),
        replace(prompt_segment(None, 4), seat="judge"),
    )
    seats = {"policy": Seat(True, 0.0), "judge": Seat(False, 0.0)}
    path = save(tmp_path / "t.jsonl", a_trajectory(*graph, seats=seats, turn_rewards=None))

    text = view(path)

    assert "assistant · policy · turn 2 · forks after segment 0" in text
    assert "user · judge" in text


def test_plain_text_lists_token_ids_with_their_logprobs(run: Path) -> None:
    assert "▮" not in view(run, "--task", "0", "--member", "1")
    assert "2541(-0." in view(run, "--task", "0", "--member", "1", "--tokens")


def test_long_texts_are_cut_in_the_middle_unless_all_is_asked_for(tmp_path: Path) -> None:
    long = "a" * 500_000 + "b" * 500_000
    segment = Segment("messages", "policy", None, (Message("user", long),))
    path = save(tmp_path / "t.jsonl", a_trajectory(segment, turn_rewards=None))

    assert "… 996,000 characters left out …" in view(path)
    assert view(path, "--full").count("b") >= 500_000


def test_the_width_of_plain_text_can_be_chosen(run: Path) -> None:
    assert max(map(len, view(run, "--task", "1", COLUMNS="60").splitlines())) <= 60


def test_a_reader_who_has_seen_enough_is_no_error(run: Path) -> None:
    command = (
        f"'{STROP}' eval view '{run}' --task 0 --member 0 | head -n 1; echo ${{PIPESTATUS[0]}}"
    )

    finished = subprocess.run(["bash", "-c", command], capture_output=True, text=True, check=True)

    assert finished.stdout.split() == ["0"]
    assert finished.stderr == ""


def test_what_the_encoding_cannot_say_is_replaced(run: Path) -> None:
    text = view(run, PYTHONIOENCODING="ascii", LC_ALL="C")

    assert "reward     0.5258 ? 0.031" in text


def test_json_holds_report_histogram_and_groups(run: Path) -> None:
    document = strop("eval", "view", run, "--json", "--limit", "2").document

    assert document["report"]["attempt_count"] == 24
    assert sum(bar["count"] for bar in document["histogram"]) == 22
    assert document["group_count"] == 6
    assert [group["task_key"] for group in document["groups"]] == ["0", "1"]


def test_json_of_a_member_is_its_trajectory(run: Path) -> None:
    (found,) = strop("eval", "view", run, "--task", "1", "--member", "2", "--json").document[
        "trajectories"
    ]

    assert found["schema"] == "strop.trajectory/1"
    assert found["reward"] == 0.961


def test_json_of_hostile_text_is_json(tmp_path: Path) -> None:
    path = save(tmp_path / "t.jsonl", hostile_trajectory())

    (found,) = strop("eval", "view", path, "--member", "0", "--json").document["trajectories"]

    assert found["stop_detail"] == HOSTILE


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (("--task", "none"), "no attempt at a task 'none'"),
        (("--task", "0", "--member", "9"), "no member 9"),
        (("--tokenizer", "none.json"), "no tokenizer.json"),
    ],
)
def test_what_is_not_there_is_said(run: Path, options: tuple[str, ...], message: str) -> None:
    finished = strop("eval", "view", run, *options)

    assert finished.code != 0
    assert message in finished.stderr


def test_a_torn_line_is_told_and_the_rest_shown(run: Path) -> None:
    run.write_bytes(run.read_bytes()[:-10])

    assert "line 24 is torn" in " ".join(view(run).split())
    assert "attempts   23" in view(run)


def test_a_broken_line_is_an_error_that_leads_to_the_validator(run: Path) -> None:
    run.write_bytes(run.read_bytes() + b"{}\n")

    finished = strop("eval", "view", run)

    assert finished.code == 1
    assert "line 25" in finished.stderr
    assert "strop trajectory validate" in finished.stderr


def test_an_empty_file_is_shown_as_such(tmp_path: Path) -> None:
    (tmp_path / "t.jsonl").touch()

    assert "attempts   0, 0 scored" in view(tmp_path / "t.jsonl")


def test_runs_of_one_folder_keep_their_groups_apart(tmp_path: Path) -> None:
    for name in ("a", "b"):
        a_run(tmp_path / name / "trajectories.jsonl", task_count=2)

    document = strop("eval", "view", tmp_path, "--json").document

    assert document["group_count"] == 4
    assert document["report"]["attempt_count"] == 16


def test_a_place_leads_back_to_its_trajectory(run: Path) -> None:
    overview = read_overview([run])
    member = overview.groups[3].members[2]

    assert member.place.read().attempt.task_key == "3"
    assert member.place.read().reward == member.reward


def test_the_overview_holds_no_turns(tmp_path: Path) -> None:
    trajectory = attempt_at(1, 0, random.Random(1))

    overview = read_overview([save(tmp_path / "t.jsonl", trajectory)])

    assert overview.groups[0].rewards == [trajectory.reward]
    assert overview.groups[0].mean_reward == trajectory.reward


@given(st.lists(st.floats(), max_size=60))
def test_every_finite_value_is_in_one_bar(values: list[float]) -> None:
    bars = histogram(values)

    assert sum(bar.count for bar in bars) == sum(map(math.isfinite, values))


def test_few_values_have_a_bar_each() -> None:
    assert [(bar.low, bar.count) for bar in histogram([1.0, 0.0, 1.0])] == [(0.0, 1), (1.0, 2)]


@given(st.text(st.characters(exclude_categories=())))
def test_visible_text_has_nothing_that_moves_a_cursor(text: str) -> None:
    shown = visible(text)

    assert all(
        letter.isprintable() or letter in "\n\t\u200c\u200d\xa0" or letter.isspace()
        for letter in shown
    )
    assert not set(shown) & set("\x1b\r\x07\x08\x9b\u2028\u2029\u202e")
    shown.encode("utf-8")
    assert "\n" not in visible_line(text)


def test_a_letter_that_nobody_has_assigned_is_spelled_out() -> None:
    assert visible("a\u0378b") == "a\\u0378b"


@pytest.mark.parametrize("text", ["naïve", "日本語", "👩\u200d🚀", "a\tb\nc", "\xa0", "ـا"])
def test_ordinary_text_stays_as_it_is(text: str) -> None:
    assert visible(text) == text


def test_a_shortened_text_keeps_both_ends() -> None:
    assert shorten("abcdefghij", 4) == "abc\n… 6 characters left out …\nj"
    assert shorten("abcd", 4) == "abcd"
