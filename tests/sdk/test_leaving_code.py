"""Author code that wants to leave the program fails its attempt, and nothing else ends."""

import asyncio
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from strop import (
    Environment,
    Episode,
    RunPlan,
    ScriptedModel,
    Task,
    Trajectory,
    evaluate,
    group_reward,
    metric,
    read_trajectories,
    reward,
    tool,
)
from strop.models.scripted import call
from strop.types import Completion

TASKS = [Task(str(n), "ask", "answer") for n in range(8)]


@reward(name="fine", inline=True)
def fine(trajectory: Trajectory) -> float:
    return 1.0


@reward(name="leaving")
def leaving(trajectory: Trajectory) -> float:
    sys.exit(2)


@reward(name="leaving")
async def leaving_async(trajectory: Trajectory) -> float:
    sys.exit(2)


@reward(name="leaving", inline=True)
def leaving_inline(trajectory: Trajectory) -> float:
    raise SystemExit("no answer")


class LeavingSetup(Episode):
    async def setup(self) -> None:
        sys.exit(3)


class LeavingRespond(Episode):
    async def respond(self, completion: Completion) -> str:
        sys.exit(3)


class LeavingClose(Episode):
    async def close(self) -> None:
        sys.exit(3)


class LeavingTool(Episode):
    @tool
    def act(self) -> str:
        """Leave."""
        sys.exit(3)


class LeavingAsyncTool(Episode):
    @tool
    async def act(self) -> str:
        """Leave."""
        sys.exit(3)


class LeavingInlineTool(Episode):
    @tool(inline=True)
    def act(self) -> str:
        """Leave."""
        sys.exit(3)


def answer_or_act(messages: Any) -> Any:
    return call("act") if messages[-1].role == "user" else "answer"


PLACES: dict[str, tuple[dict[str, Any], str, str]] = {
    "reward": ({"rewards": [leaving]}, "RewardError", "`leaving` raised SystemExit: 2"),
    "async reward": ({"rewards": [leaving_async]}, "RewardError", "raised SystemExit: 2"),
    "inline reward": ({"rewards": [leaving_inline]}, "RewardError", "SystemExit: no answer"),
    "setup": ({"episode": LeavingSetup}, "EnvironmentFaultError", "setup` raised SystemExit: 3"),
    "respond": ({"episode": LeavingRespond}, "EnvironmentFaultError", "respond` raised SystemExit"),
    "close": ({"episode": LeavingClose}, "EnvironmentFaultError", "close` raised SystemExit"),
    "tool": ({"episode": LeavingTool}, "ToolFaultError", "`act` raised SystemExit: 3"),
    "async tool": ({"episode": LeavingAsyncTool}, "ToolFaultError", "`act` raised SystemExit: 3"),
    "inline tool": ({"episode": LeavingInlineTool}, "ToolFaultError", "`act` raised SystemExit"),
}


def an_environment(**options: Any) -> Environment:
    return Environment(**{"tasks": TASKS, "rewards": [fine], "max_turns": 3, **options})


@pytest.mark.parametrize("place", PLACES)
async def test_an_attempt_whose_code_leaves_fails_and_names_the_place(place: str) -> None:
    options, kind, said = PLACES[place]
    model = ScriptedModel(answer_or_act if "tool" in place else lambda messages: "answer")

    trajectory = await an_environment(**options).rollout(TASKS[0], model)

    assert trajectory.reward is None
    assert trajectory.failure is not None
    assert trajectory.failure.type == kind
    assert said in trajectory.failure.message


async def test_a_model_that_leaves_fails_the_attempt() -> None:
    trajectory = await an_environment().rollout(
        TASKS[0], ScriptedModel(lambda messages: sys.exit())
    )

    assert trajectory.failure is not None
    assert trajectory.failure.boundary == "model"
    assert "The model raised SystemExit" in trajectory.failure.message


async def test_a_metric_and_a_group_reward_that_leave_fail_theirs_and_keep_the_others() -> None:
    @metric
    def length(trajectory: Trajectory) -> float:
        sys.exit(1)

    @group_reward
    def spread(trajectories: Any) -> Any:
        sys.exit(1)

    one = await an_environment(rewards=[fine, length]).rollout(
        TASKS[0], ScriptedModel.constant("answer")
    )
    group = await an_environment(rewards=[fine, spread]).rollout_group(
        TASKS[0], ScriptedModel.constant("answer"), size=3
    )

    assert one.rewards["fine"].value == 1.0
    assert one.rewards["length"].error == "`length` raised SystemExit: 1"
    assert [member.reward for member in group] == [None] * 3
    assert {member.rewards["fine"].value for member in group} == {1.0}
    assert all("`spread` raised SystemExit" in str(member.failure) for member in group)


async def test_a_run_in_which_some_attempts_leave_accounts_for_each_exactly_once(
    tmp_path: Path,
) -> None:
    @reward(name="odd")
    def odd(trajectory: Trajectory) -> float:
        if int(trajectory.task.key) % 2:
            sys.exit(1)
        return 1.0

    plan = RunPlan(split="train", group_size=2, concurrency=8, max_failure_share=1.0)
    model = ScriptedModel.constant("answer")

    report = await evaluate(an_environment(rewards=[odd]), model, plan, out=tmp_path / "run")

    assert (report.attempt_count, report.scored_count) == (16, 8)
    assert report.failures == {"RewardError": 8}
    assert report.mean_reward == 1.0
    lines = read_trajectories(tmp_path / "run" / "trajectories.jsonl")
    assert len({each.attempt for each in lines}) == len(lines) == 16


async def test_an_interrupt_in_author_code_is_no_failure_of_an_attempt() -> None:
    @reward(name="interrupted", inline=True)
    def interrupted(trajectory: Trajectory) -> float:
        running = asyncio.current_task()
        assert running is not None
        running.cancel()  # As Ctrl-C does.
        raise asyncio.CancelledError

    environment = an_environment(rewards=[interrupted])
    rollout = environment.rollout(TASKS[0], ScriptedModel.constant("answer"))
    with pytest.raises(asyncio.CancelledError):
        await asyncio.create_task(rollout)


def test_a_program_whose_reward_leaves_goes_on_after_the_rollout() -> None:
    code = """
import sys, strop
from tests.sdk.test_leaving_code import TASKS, an_environment, leaving
trajectory = strop.run_sync(
    an_environment(rewards=[leaving]).rollout(TASKS[0], strop.ScriptedModel.constant("answer"))
)
print(trajectory.failure.type)
"""
    finished = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)

    assert (finished.returncode, finished.stdout) == (0, "RewardError\n"), finished.stderr
