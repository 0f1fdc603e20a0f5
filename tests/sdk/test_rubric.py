"""Rewards add up, keep their parts, and a broken function never passes for a zero."""

import asyncio
import math
import threading
from fractions import Fraction
from typing import Any

import pytest

from strop import Trajectory, metric, reward
from strop.reward_function import Reward
from strop.rubric import Rubric
from strop.threads import Threads
from strop.trajectory import Failure
from tests.sdk.trajectories import a_trajectory


@reward
def right(trajectory: Trajectory) -> float:
    return 0.5


@reward(weight=0.1, range=(0, 100))
async def length(trajectory: Trajectory) -> int:
    return len(trajectory.text)


@metric
def words(trajectory: Trajectory) -> float:
    return float(len(trajectory.text.split()))


async def score(*rewards: Any, episode: object | None = None, **changes: Any) -> Trajectory:
    threads = Threads(4)
    try:
        return await Rubric(rewards).score(a_trajectory(**changes), threads, episode)
    finally:
        threads.close()


async def test_the_reward_is_the_weighted_sum_and_keeps_its_parts() -> None:
    scored = await score(right, length, words)

    assert scored.reward == pytest.approx(0.5 + 0.6)
    assert {name: part.value for name, part in scored.rewards.items()} == {
        "right": 0.5,
        "length": 6.0,
        "words": 1.0,
    }
    assert scored.metrics["words"] == 1.0
    assert scored.rewards["length"].weight == 0.1
    assert scored.failure is None


@pytest.mark.parametrize(
    "value", [math.nan, math.inf, -math.inf, None, "1", [1], 1j, 1.5, -0.1], ids=repr
)
async def test_an_unusable_value_is_a_failure_that_names_the_function(value: Any) -> None:
    @reward(range=(0, 1))
    def broken(trajectory: Trajectory) -> Any:
        return value

    scored = await score(broken, right)

    assert scored.reward is None
    assert scored.failure is not None
    assert (scored.failure.type, scored.failure.boundary) == ("RewardError", "reward")
    assert "`broken`" in scored.failure.message
    assert scored.rewards["right"].value == 0.5
    assert "`broken`" in (scored.rewards["broken"].error or "")


@pytest.mark.parametrize("value", [True, 1, 1.0, Fraction(1, 1)])
async def test_any_real_number_counts(value: Any) -> None:
    assert (await score(reward(name="one")(lambda trajectory: value))).reward == 1.0


async def test_a_raise_is_kept_with_its_traceback_and_siblings_go_on() -> None:
    @reward
    async def broken(trajectory: Trajectory) -> float:
        raise KeyError("x")

    scored = await score(broken, length)

    assert scored.reward is None
    assert scored.failure is not None
    assert "KeyError" in scored.failure.message
    assert "in broken" in scored.failure.traceback
    assert scored.rewards["length"].value == 6.0


async def test_stop_iteration_in_a_thread_fails_and_does_not_hang() -> None:
    @reward
    def broken(trajectory: Trajectory) -> float:
        return float(next(iter([])))

    scored = await asyncio.wait_for(score(broken), timeout=60)

    assert scored.failure is not None


async def test_a_failed_trajectory_is_not_scored() -> None:
    failure = Failure("ModelError", "model", "down")

    scored = await score(right, failure=failure)

    assert scored.failure == failure
    assert scored.rewards == a_trajectory().rewards


async def test_a_def_runs_off_the_loop_and_an_inline_one_on_it() -> None:
    ran_on: dict[str, int] = {}

    @reward
    def threaded(trajectory: Trajectory) -> float:
        ran_on["threaded"] = threading.get_ident()
        return 0.0

    @reward(inline=True)
    def inline(trajectory: Trajectory) -> float:
        ran_on["inline"] = threading.get_ident()
        return 0.0

    await score(threaded, inline)

    assert ran_on["inline"] == threading.get_ident() != ran_on["threaded"]


async def test_many_slow_functions_do_not_wait_for_each_other() -> None:
    together = threading.Barrier(100, timeout=60)

    @reward
    def slow(trajectory: Trajectory) -> float:
        together.wait()
        return 1.0

    threads = Threads(100)
    rubric = Rubric([slow])
    scored = await asyncio.gather(*[rubric.score(a_trajectory(), threads) for _ in range(100)])
    threads.close()

    assert all(each.reward == 1.0 for each in scored)


async def test_a_live_reward_sees_the_episode_and_keeps_its_recorded_value() -> None:
    @reward(live=True)
    def live(trajectory: Trajectory, episode: Any) -> float:
        return float(episode)

    threads = Threads(1)
    rubric = Rubric([live])
    first = await rubric.score(a_trajectory(), threads, episode=0.25)
    again = await rubric.score(first, threads)
    never = await rubric.score(a_trajectory(), threads)
    threads.close()

    assert first.reward == again.reward == 0.25
    assert never.reward is None


def test_two_functions_of_one_name_are_refused() -> None:
    with pytest.raises(ValueError, match="Two reward functions are called right"):
        Rubric([right, reward(name="right")(lambda trajectory: 1.0)])


def test_a_wrong_signature_is_told_when_it_is_made() -> None:
    with pytest.raises(ValueError, match=r"`scored` cannot be called as scored\(trajectory\)"):

        @reward
        def scored(trajectory: Trajectory, answers: list[str]) -> float:
            return 0.0

    with pytest.raises(ValueError, match=r"live\(trajectory, episode\)"):

        @reward(live=True)
        def live(trajectory: Trajectory) -> float:
            return 0.0


def test_a_weight_can_be_replaced() -> None:
    assert right.weighted(3.0).weight == 3.0
    assert right.weight == 1.0
    assert isinstance(right, Reward)
    assert right(a_trajectory()) == 0.5
