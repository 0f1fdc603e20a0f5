"""Turns, tokens, time and conditions end an episode, each with its own reason."""

import asyncio
import threading
import time
from collections.abc import Sequence
from typing import Any

import pytest

from strop import (
    Completion,
    Environment,
    Episode,
    Message,
    RunPlan,
    ScriptedModel,
    Task,
    TimeLimits,
    ToolCall,
    Trajectory,
    evaluate,
    reward,
    tool,
)
from strop.errors import SettingsError
from strop.models.scripted import call
from strop.types import Usage

TASK = Task("1", "Go on.", split="train")


class Chat(Episode):
    async def respond(self, completion: Completion) -> str:
        return "Go on."


def an_environment(**options: Any) -> Environment:
    return Environment(**{"tasks": [TASK], "rewards": [], "episode": Chat, **options})


def counted(count: int) -> ScriptedModel:
    return ScriptedModel.constant(Completion(Message("assistant", "x"), usage=Usage(1, count)))


async def test_sampled_tokens_are_limited() -> None:
    trajectory = await an_environment(max_tokens=10).rollout(TASK, counted(4))

    assert trajectory.turn_count == 3
    assert (trajectory.stop_reason, trajectory.is_truncated) == ("max_tokens", True)


async def test_sampled_tokens_are_limited_where_no_usage_is_told() -> None:
    untold = ScriptedModel.constant(Completion(Message("assistant", "word " * 8)))
    trajectory = await an_environment(max_tokens=25).rollout(TASK, untold)

    assert trajectory.turn_count == 3
    assert trajectory.stop_reason == "max_tokens"
    assert trajectory.usage == Usage()


async def test_a_condition_ends_an_episode_with_its_reason() -> None:
    def is_long(episode: Episode) -> str | bool:
        return "long enough" if episode.turn_count == 4 else False

    trajectory = await an_environment(stop_when=[is_long]).rollout(TASK, counted(1))

    assert trajectory.turn_count == 4
    assert (trajectory.stop_reason, trajectory.stop_detail) == ("ended", "long enough")


async def test_a_slow_setup_fails_the_attempt() -> None:
    class Slow(Chat):
        async def setup(self) -> None:
            await asyncio.sleep(60)

    environment = an_environment(episode=Slow, time_limits=TimeLimits(setup_s=0.05))
    trajectory = await asyncio.wait_for(environment.rollout(TASK, counted(1)), 60)

    assert trajectory.failure is not None
    assert "`Slow.setup` raised TimeoutError" in trajectory.failure.message


async def test_slow_turns_truncate_even_while_the_model_samples() -> None:
    async def slow(messages: Any) -> str:
        await asyncio.sleep(0.06 if len(messages) < 4 else 60)
        return "x"

    environment = an_environment(time_limits=TimeLimits(turns_s=0.3))
    trajectory = await asyncio.wait_for(environment.rollout(TASK, ScriptedModel(slow)), 60)

    assert trajectory.stop_reason == "time_limit"
    assert trajectory.failure is None
    assert trajectory.turn_count >= 1


async def test_a_slow_tool_is_told_to_the_model_and_the_rollout_goes_on() -> None:
    class Tools(Episode):
        @tool
        def slow(self) -> str:
            """Slow."""
            time.sleep(60)
            return ""

    environment = an_environment(episode=Tools, time_limits=TimeLimits(tool_s=0.05))
    trajectory = await environment.rollout(TASK, ScriptedModel.replies([call("slow"), "x"]))

    assert trajectory.failure is None
    assert "took longer than 0.05 s" in trajectory.messages()[2].text
    assert trajectory.timing.tools_s < 50


async def test_a_slow_reward_fails_the_attempt() -> None:
    @reward
    async def slow(trajectory: Trajectory) -> float:
        await asyncio.sleep(60)
        return 1.0

    environment = an_environment(
        rewards=[slow], episode=Episode, time_limits=TimeLimits(reward_s=0.05)
    )
    trajectory = await asyncio.wait_for(environment.rollout(TASK, counted(1)), 60)

    assert trajectory.failure is not None
    assert "`slow` took longer than 0.05 s" in trajectory.failure.message


@pytest.mark.parametrize("kind", ["tool", "reward"])
async def test_code_that_spins_beyond_its_limit_is_ended(kind: str) -> None:
    ended = threading.Event()

    def spin(trajectory: Any = None) -> float:
        """Never returns."""
        try:
            while True:
                pass
        finally:
            ended.set()

    def play() -> float:
        """Spin."""
        return spin()

    environment = an_environment(
        episode=Episode,
        tools=[play],
        rewards=[reward(spin)] if kind == "reward" else [],
        time_limits=TimeLimits(tool_s=0.2, reward_s=0.2),
    )
    said: list[Any] = [call("play"), "x"] if kind == "tool" else ["x"]
    trajectory = await environment.rollout(TASK, ScriptedModel.replies(said))

    assert await asyncio.to_thread(ended.wait, 60)
    assert (trajectory.failure is not None) == (kind == "reward")


async def test_a_tool_that_hangs_ends_with_the_time_of_the_turns() -> None:
    def hang() -> str:
        """Hang."""
        while True:
            time.sleep(0.01)

    environment = an_environment(episode=Episode, tools=[hang], time_limits=TimeLimits(turns_s=0.2))
    rollout = environment.rollout(TASK, ScriptedModel.replies([call("hang"), "x"]))
    trajectory = await asyncio.wait_for(rollout, 60)

    assert (trajectory.stop_reason, trajectory.failure) == ("time_limit", None)
    assert trajectory.turn_count == 1


async def test_functions_can_be_tools_of_every_episode() -> None:
    def add(left: int, right: int) -> int:
        """Add two numbers.

        Args:
            left: The first.
            right: The second.
        """
        return left + right

    environment = an_environment(episode=Episode, tools=[add])
    model = ScriptedModel.replies([call("add", left=2, right=3), "x"])
    trajectory = await environment.rollout(TASK, model)

    assert trajectory.messages()[2].text == "5"


async def test_two_hundred_sleeping_tools_stop_nobody() -> None:
    others_ended = threading.Event()
    others: list[str] = []

    class Sleepy(Episode):
        @tool
        def nap(self) -> str:
            """Sleep until all others have ended; tells whether they have."""
            have_ended = others_ended.wait(60)
            others_ended.set()
            return str(have_ended)

        @tool
        def look(self) -> str:
            """Look."""
            return "seen"

    @reward(range=(0, 1))
    def is_whole(trajectory: Trajectory) -> float:
        return float(trajectory.messages()[2].text in ("seen", "True"))

    def policy(messages: Sequence[Message]) -> str | ToolCall:
        if len(messages) > 1:
            return "done"
        return call("nap" if int(messages[0].text) < 200 else "look")

    def count(trajectory: Trajectory) -> None:
        if int(trajectory.task.key) >= 200:
            others.append(trajectory.task.key)
        if len(others) == 300:
            others_ended.set()

    # Those that sleep begin first, and take all of the run's places but 56.
    tasks = [Task(str(n), str(n), split="train") for n in range(500)]
    environment = Environment(tasks=tasks, rewards=[is_whole], episode=Sleepy)
    plan = RunPlan(concurrency=256)
    report = await evaluate(environment, ScriptedModel(policy), plan, on_trajectory=count)

    assert report.failures == {}
    assert report.mean_reward == 1.0
    assert report.attempt_count == 500


@pytest.mark.parametrize("limits", [{"max_turns": 0}, {"max_tokens": 0}])
def test_a_limit_of_nothing_is_refused(limits: dict[str, int]) -> None:
    with pytest.raises(SettingsError, match="Allow at least 1"):
        an_environment(**limits)
