"""A report says what a run showed, and a run's files can be resumed."""

import itertools
import math
import random
import statistics
from dataclasses import replace
from pathlib import Path

import pytest

from strop import Attempt, RunPlan, ScriptedModel, evaluate, read_trajectories, summarize
from strop.errors import TrajectoryFileError
from strop.evaluation import TRAJECTORIES_NAME, Tally, pass_at_k
from strop.trajectory import Failure, OutsideReply, RewardValue, Seat, Trajectory
from strop.types import EnvironmentIdentity, Usage
from tests.sdk.test_runner import ANSWER
from tests.sdk.trajectories import (
    a_single_turn_environment,
    a_trajectory,
    prompt_segment,
    sampled_segment,
)


def scored(key: str, reward: float | None, member: int = 0) -> Trajectory:
    failure = Failure("RewardError", "reward", "broken") if reward is None else None
    seat = Seat(True, reward, {"right": RewardValue(reward, 1.0)})
    attempt = Attempt(0, "ada/maze", "train", key, 0, member)
    return a_trajectory(attempt=attempt, seats={"policy": seat}, failure=failure)


def test_the_mean_and_its_error_are_by_task() -> None:
    rewards = {"a": [1.0, 0.0], "b": [1.0, 1.0], "c": [0.0, 0.0]}
    trajectories = [
        scored(key, reward, member)
        for key, group in rewards.items()
        for member, reward in enumerate(group)
    ]

    report = summarize(trajectories, group_size=2)

    means = [0.5, 1.0, 0.0]
    assert report.mean_reward == pytest.approx(0.5)
    assert report.standard_error == pytest.approx(statistics.stdev(means) / math.sqrt(3))
    assert report.pass_at == {1: pytest.approx(0.5), 2: pytest.approx(2 / 3)}
    assert (report.attempt_count, report.scored_count, report.task_count) == (6, 6, 3)


def test_failures_are_counted_apart_and_never_as_zero() -> None:
    report = summarize([scored("a", 1.0), scored("b", None), scored("c", None)])

    assert report.mean_reward == 1.0
    assert report.failures == {"RewardError": 2}
    assert (report.attempt_count, report.scored_count, report.task_count) == (3, 1, 1)
    assert report.standard_error is None


def test_the_messages_of_failures_survive_to_the_report() -> None:
    report = summarize([scored("a", None), scored("b", None), scored("c", 1.0)])

    assert report.causes == {"broken": 2}


def test_messages_that_never_repeat_do_not_fill_the_memory() -> None:
    tally = Tally()
    for number in range(5_000):
        failure = Failure("RewardError", "reward", f"broken {number} " + "x" * 10_000)
        tally.add(replace(scored(str(number), None), failure=failure))

    assert len(tally.report().causes) == 10
    assert tally.report().failures == {"RewardError": 5_000}
    assert len(tally._causes) <= 1_000


def test_tokens_of_judges_are_counted_apart() -> None:
    reply = OutsideReply("judge:polite", "d" * 64, "VERDICT: yes", Usage(50, 7))
    judged = replace(scored("a", 1.0), replies=(reply, replace(reply, usage=None)))

    report = summarize([judged, judged, scored("b", 0.0)])

    assert report.outside_usage == Usage(100, 14)
    assert report.source_usage == {"judge:polite": Usage(100, 14)}
    assert report.usage == Usage(9, 3, 3)


def test_replies_that_are_no_answer_are_counted_by_kind_and_environment() -> None:
    cut = replace(sampled_segment(0, 3), finish_reason="length")
    empty = sampled_segment(0, text="\u2003")
    other = Attempt(0, "ada/other", "train", "c")
    trajectories = [
        a_trajectory(prompt_segment(None, 1), cut, empty),
        a_trajectory(prompt_segment(None, 1), empty, sampled_segment(0, 3)),
        a_trajectory(attempt=other, environment=EnvironmentIdentity("other", "ada")),
    ]

    report = summarize(trajectories)

    assert report.odd_replies == {"truncated": 1, "empty": 2}
    assert report.environments["ada/maze"].odd_replies == report.odd_replies
    assert report.environments["ada/other"].odd_replies == {}


def test_nothing_scored_has_no_mean() -> None:
    report = summarize([scored("a", None)])

    assert report.mean_reward is None
    assert report.mean_turns is None
    assert report.to_json()["pass_at"] == {}


@pytest.mark.parametrize(("n", "c", "k"), [(5, 0, 1), (5, 2, 1), (5, 2, 3), (5, 5, 5), (6, 3, 4)])
def test_pass_at_k_is_the_share_of_draws_with_a_pass(n: int, c: int, k: int) -> None:
    draws = list(itertools.combinations([True] * c + [False] * (n - c), k))

    assert pass_at_k(n, c, k) == pytest.approx(sum(any(draw) for draw in draws) / len(draws))


def test_the_order_of_arrival_does_not_matter_and_open_groups_count() -> None:
    dice = random.Random(1)
    trajectories = [
        scored(str(key), float(dice.random() < 0.5), member)
        for key in range(40)
        for member in range(4)
    ]
    shuffled = trajectories[:]
    dice.shuffle(shuffled)

    one, other = summarize(trajectories, 4), summarize(shuffled, 4)

    assert one.mean_reward == pytest.approx(other.mean_reward)
    assert one.standard_error == pytest.approx(other.standard_error)
    assert one.pass_at == pytest.approx(other.pass_at)
    partial = summarize(trajectories[:-3], 4)
    assert partial.task_count == 40


def test_finished_groups_are_not_held() -> None:
    tally = Tally(group_size=2)
    for key in range(1000):
        tally.add(scored(str(key), 1.0, 0))
        tally.add(scored(str(key), 0.0, 1))

    assert len(tally._open) == 0
    assert tally.attempt_count == 2000
    assert tally.report().pass_at == {1: pytest.approx(0.5), 2: 1.0}


async def test_a_run_leaves_one_line_an_attempt(tmp_path: Path) -> None:
    report = await evaluate(
        a_single_turn_environment(), ANSWER, RunPlan(group_size=2), out=tmp_path / "run"
    )

    trajectories = read_trajectories(tmp_path / "run" / TRAJECTORIES_NAME)
    assert report.mean_reward == 1.0
    assert len(trajectories) == len({t.attempt for t in trajectories}) == 40
    assert summarize(trajectories, 2) == report


async def test_results_are_never_overwritten(tmp_path: Path) -> None:
    plan = RunPlan(task_count=2)
    await evaluate(a_single_turn_environment(), ANSWER, plan, out=tmp_path)
    before = (tmp_path / TRAJECTORIES_NAME).read_bytes()

    with pytest.raises(TrajectoryFileError, match="holds results already"):
        await evaluate(a_single_turn_environment(), ANSWER, plan, out=tmp_path)
    assert (tmp_path / TRAJECTORIES_NAME).read_bytes() == before


async def test_a_resumed_run_makes_what_is_missing_and_reports_on_all(tmp_path: Path) -> None:
    path = tmp_path / TRAJECTORIES_NAME
    await evaluate(a_single_turn_environment(), ANSWER, RunPlan(), out=tmp_path)
    lines = path.read_bytes().splitlines(keepends=True)
    path.write_bytes(b"".join(lines[:7]) + lines[7][:100])

    report = await evaluate(
        a_single_turn_environment(), ANSWER, RunPlan(), out=tmp_path, is_resumed=True
    )

    after = path.read_bytes()
    assert report.attempt_count == len(after.splitlines()) == 20
    assert after.startswith(b"".join(lines[:7]))
    assert len({t.attempt for t in read_trajectories(path)}) == 20


async def test_nothing_is_written_without_a_folder(tmp_path: Path) -> None:
    seen: list[Trajectory] = []

    await evaluate(
        a_single_turn_environment(),
        ScriptedModel.constant("x"),
        RunPlan(task_count=3),
        on_trajectory=seen.append,
    )

    assert len(seen) == 3
    assert list(tmp_path.iterdir()) == []


def test_truncated_attempts_and_turns_are_counted() -> None:
    cut = replace(scored("a", 0.0), stop_reason="max_turns")

    report = summarize([cut, scored("b", 1.0)])

    assert report.truncated_count == 1
    assert report.mean_turns == 1.0
    assert report.metrics == {"right": 0.5}
    assert report.usage.completion_tokens == 2
