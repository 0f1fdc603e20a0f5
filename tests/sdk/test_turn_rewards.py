"""Turns are rewarded one by one: by pure functions, checked as every reward is, and kept apart."""

import json
import math
from array import array
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from strop import (
    Completion,
    End,
    Environment,
    Episode,
    RunPlan,
    ScriptedModel,
    Task,
    Trajectory,
    evaluate,
    group_reward,
    read_trajectories,
    reward,
    turn_reward,
)
from strop.errors import ModelAuthError
from strop.review.meaning import meaning_problems
from strop.review.page import write_page
from strop.review.rescoring import rescore
from strop.review.validation import Validator
from strop.reward_function import Reward
from strop.rubric import Rubric
from strop.testing.probes import check_environment
from strop.threads import Threads
from strop.trajectory import TurnValues
from strop.trajectory_json import decode_line, encode_line
from tests.sdk.cli.command import strop
from tests.sdk.serve.remote.serving import serving
from tests.sdk.trajectories import a_trajectory, prompt_segment, sampled_segment

TASK = Task("1", "count", split="train")


class Counting(Episode):
    """Three turns; what each was worth stands in the outcome."""

    async def setup(self) -> None:
        self.outcome["steps"] = []

    async def respond(self, completion: Completion) -> str | End:
        steps = self.outcome["steps"]
        assert isinstance(steps, list)
        steps.append(float(len(completion.text)))
        return End() if self.turn_count == 3 else "more"


@reward(range=(0, 1))
def ended(trajectory: Trajectory) -> float:
    return float(trajectory.is_terminated)


@turn_reward(range=(0, 5), inline=True)
def step_size(trajectory: Trajectory) -> Any:
    return trajectory.outcome["steps"]


@turn_reward(weight=-0.5)
async def late(trajectory: Trajectory) -> list[int]:
    return list(range(trajectory.turn_count))


@turn_reward(process=True)
def apart(trajectory: Trajectory) -> list[float]:
    return [0.25] * trajectory.turn_count


@turn_reward(name="step_size")
def doubled(trajectory: Trajectory) -> Any:
    return [2 * each for each in trajectory.outcome["steps"]]  # type: ignore[operator, union-attr]


def counting(*rewards: Any, **options: Any) -> Environment:
    return Environment(tasks=[TASK], rewards=[ended, *rewards], episode=Counting, **options)


def three_replies() -> ScriptedModel:
    return ScriptedModel.replies(["a", "bb", "cccc"])


async def played(*rewards: Any, **options: Any) -> Trajectory:
    environment = counting(*rewards, **options)
    async with environment:
        return await environment.rollout(TASK, three_replies())


async def test_turn_rewards_are_weighted_sums_and_no_part_of_the_reward() -> None:
    trajectory = await played(step_size, late, apart)

    assert trajectory.turn_rewards == (1.25, 1.75, 3.25)
    assert trajectory.turn_values == {
        "step_size": TurnValues((1.0, 2.0, 4.0), 1.0, (0, 5)),
        "late": TurnValues((0.0, 1.0, 2.0), -0.5),
        "apart": TurnValues((0.25, 0.25, 0.25), 1.0),
    }
    assert trajectory.reward == 1.0
    assert list(trajectory.rewards) == ["ended"]
    assert list(meaning_problems(json.loads(encode_line(trajectory)))) == []
    assert decode_line(encode_line(trajectory)) == trajectory


async def test_reward_functions_may_read_them() -> None:
    @reward
    def best_turn(trajectory: Trajectory) -> float:
        return max(trajectory.turn_rewards or ())

    assert (await played(best_turn, step_size)).rewards["best_turn"].value == 4.0


async def test_without_such_a_function_there_are_none() -> None:
    trajectory = await played()

    assert trajectory.turn_rewards is None
    assert "turn_values" not in json.loads(encode_line(trajectory))


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ([1, 2], "returned 2 numbers for 3 turns"),
        ([1, 2, math.nan], "not finite. It is that of turn 3"),
        ([1, math.inf, 3], "not finite. It is that of turn 2"),
        (["1", 2, 3], "is no number. It is that of turn 1"),
        ([1, None, 3], "is no number. It is that of turn 2"),
        ([1, 2, 5.5], "outside its range [0, 5]"),
        (None, "Return a list with a number for each turn"),
        (1.0, "Return a list with a number for each turn"),
        ("abc", "is no number"),
    ],
    ids=repr,
)
async def test_unusable_numbers_fail_the_attempt_and_name_the_function(
    given: Any, message: str
) -> None:
    @turn_reward(range=(0, 5))
    def broken(trajectory: Trajectory) -> Any:
        return given

    trajectory = await played(broken, late)

    assert trajectory.failure is not None
    assert (trajectory.failure.type, trajectory.failure.boundary) == ("RewardError", "reward")
    assert "`broken`" in trajectory.failure.message
    assert message in trajectory.failure.message
    assert (trajectory.reward, trajectory.turn_rewards) == (None, None)
    assert trajectory.turn_values["broken"].values is None
    assert message in (trajectory.turn_values["broken"].error or "")
    assert trajectory.turn_values["late"].values == (0.0, 1.0, 2.0)
    assert trajectory.rewards["ended"].value == 1.0
    assert list(meaning_problems(json.loads(encode_line(trajectory)))) == []


async def test_sums_beyond_every_float_are_a_failure() -> None:
    @turn_reward(weight=1e300)
    def huge(trajectory: Trajectory) -> list[float]:
        return [1e300] * trajectory.turn_count

    trajectory = await played(huge)

    assert trajectory.failure is not None
    assert "Choose smaller weights" in trajectory.failure.message
    assert trajectory.turn_rewards is None


async def test_a_broken_sibling_takes_the_sums_away_and_keeps_the_values() -> None:
    @reward
    def broken(trajectory: Trajectory) -> float:
        raise ValueError("typo")

    trajectory = await played(step_size, broken)

    assert trajectory.turn_rewards is None
    assert trajectory.turn_values["step_size"].values == (1.0, 2.0, 4.0)


async def test_a_judge_that_lets_nobody_in_is_the_graver_failure() -> None:
    @turn_reward(outside=True)
    def judged(trajectory: Trajectory, replies: object) -> list[float]:
        raise ModelAuthError("no key")

    trajectory = await played(judged)

    assert trajectory.failure is not None
    assert trajectory.failure.type == "ModelAuthError"


async def test_a_failed_comparison_takes_the_sums_away() -> None:
    @group_reward
    def broken(trajectories: Sequence[Trajectory]) -> list[float]:
        return []

    environment = counting(step_size, broken)
    async with environment:
        (trajectory,) = await environment.rollout_group(TASK, three_replies(), 1)

    assert trajectory.failure is not None
    assert trajectory.turn_rewards is None


async def test_live_ones_see_the_episode_and_keep_what_they_saw() -> None:
    @turn_reward(live=True)
    def seen(trajectory: Trajectory, episode: Any) -> list[int]:
        return [episode.turn_count] * trajectory.turn_count

    trajectory = await played(seen)
    threads = Threads(1)
    try:
        again = await Rubric([ended, seen.weighted(2.0)]).score(trajectory, threads)
        unseen = await Rubric([ended, seen]).score(
            replace(trajectory, turn_values={}, turn_rewards=None), threads
        )
    finally:
        threads.close()

    assert trajectory.turn_rewards == (3.0, 3.0, 3.0)
    assert again.turn_rewards == (6.0, 6.0, 6.0)
    assert unseen.turn_rewards is None
    assert unseen.turn_values["seen"].error == "not recorded"


async def test_over_http_they_are_the_same() -> None:
    with serving(counting(step_size, late)) as server:
        async with server.connect() as remote:
            trajectory = await remote.rollout(TASK, three_replies())

    assert trajectory.turn_rewards == (await played(step_size, late)).turn_rewards


async def test_a_run_is_valid_rescored_and_shown(tmp_path: Path) -> None:
    environment = counting(step_size, late)
    await evaluate(environment, three_replies(), RunPlan(), out=tmp_path)
    path, new, bare = (tmp_path / name for name in ("trajectories.jsonl", "new.jsonl", "b.jsonl"))

    await rescore(counting(doubled), path, new)
    await rescore(counting(), path, bare)

    assert read_trajectories(path)[0].turn_rewards == (1.0, 1.5, 3.0)
    assert read_trajectories(new)[0].turn_rewards == (2.0, 4.0, 8.0)
    assert (read_trajectories(bare)[0].turn_rewards, read_trajectories(bare)[0].turn_values) == (
        None,
        {},
    )
    assert [list(Validator(each)) for each in (path, new, bare)] == [[], [], []]
    shown = strop("eval", "view", path).stdout
    assert "assistant · turn 3 · reward 3" in shown
    assert "turns: late       0, 1, 2 (weight -0.5)" in shown
    write_page([path], tmp_path / "page.html", title="run")


async def test_a_live_one_that_was_never_recorded_is_lost_to_rescoring(tmp_path: Path) -> None:
    @turn_reward(live=True)
    def seen(trajectory: Trajectory, episode: Any) -> list[int]:
        return [1, 2, 3]

    await evaluate(counting(), three_replies(), RunPlan(), out=tmp_path)

    await rescore(counting(seen), tmp_path / "trajectories.jsonl", tmp_path / "new.jsonl")

    (trajectory,) = read_trajectories(tmp_path / "new.jsonl")
    assert trajectory.failure is not None
    assert "`seen`: no value is recorded" in trajectory.failure.message
    assert list(Validator(tmp_path / "new.jsonl")) == []


def test_a_sample_has_each_turns_reward_at_its_last_token_once() -> None:
    trajectory = a_trajectory(
        prompt_segment(None, 1),
        sampled_segment(0, 2, 3),
        prompt_segment(1, 4),
        sampled_segment(2, 5),
        prompt_segment(1, 6),
        sampled_segment(4, 7),
        turn_rewards=(0.5, 1.0, -1.0),
    )

    first, second = trajectory.to_samples()

    assert first.token_rewards == array("f", [0, 0, 0.5, 0, 1.0])
    assert second.token_rewards == array("f", [0, 0, 0, 0, -1.0])
    (bare,) = replace(a_trajectory(), turn_rewards=None).to_samples()
    assert bare.token_rewards is None


async def test_the_check_of_an_environment_leaves_them_out_of_the_rewards_range() -> None:
    @turn_reward
    def open_ended(trajectory: Trajectory) -> list[float]:
        return [100.0] * trajectory.turn_count

    findings = await check_environment(counting(open_ended), reward_range=(0, 1))

    (found,) = [each for each in findings if each.check == "reward_range"]
    assert found.verdict == "ok", found


def test_one_that_cannot_be_called_is_refused_when_it_is_declared() -> None:
    with pytest.raises(ValueError, match="cannot be called"):
        turn_reward(lambda: [])
    assert isinstance(turn_reward(lambda trajectory: []), Reward)
    with pytest.raises(ValueError, match="Two reward functions"):
        counting(step_size, doubled)


def change(value: Any, name: str, to: Any) -> Any:
    value[name] = to
    return value


@pytest.mark.parametrize(
    ("name", "to", "field"),
    [
        ("turn_rewards", None, "turn_rewards"),
        ("turn_rewards", [1.0, 2.0], "turn_rewards"),
        ("turn_rewards", [1.0, 2.0, 4.5], "turn_rewards[2]"),
        ("failure", {}, "turn_rewards"),
    ],
)
async def test_the_validator_tells_contradictions(name: str, to: Any, field: str) -> None:
    value = json.loads(encode_line(await played(step_size)))

    problems = [problem[0] for problem in meaning_problems(change(value, name, to))]

    assert field in problems


@pytest.mark.parametrize(
    ("values", "field"),
    [
        ([1.0, 2.0], "turn_values.step_size.values"),
        ([1.0, 2.0, 6.0], "turn_values.step_size.value"),
        (None, "turn_values.step_size.error"),
    ],
)
async def test_the_validator_tells_wrong_values(values: Any, field: str) -> None:
    value = json.loads(encode_line(await played(step_size)))
    value["turn_values"]["step_size"]["values"] = values

    assert field in [problem[0] for problem in meaning_problems(value)]
