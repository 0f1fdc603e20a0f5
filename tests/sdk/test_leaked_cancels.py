"""A cancel that leaks out of author code or a model fails its attempt, and ends no worker."""

import asyncio
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from strop import (
    Environment,
    Episode,
    Message,
    RunPlan,
    ScriptedModel,
    Task,
    TimeLimits,
    Trajectory,
    evaluate,
    group_reward,
    read_trajectories,
    reward,
    tool,
    turn_reward,
)
from strop.errors import RunStoppedError
from strop.evaluation import TRAJECTORIES_NAME
from strop.models.scripted import call
from strop.types import Completion, End
from tests.sdk.test_runner import attempts_of
from tests.waiting import until

TASKS = [Task(str(n), "ask", metadata={"leaks": n % 4 == 1}) for n in range(20)]
LEAKING = {task.key for task in TASKS if task.metadata["leaks"]}
CONSTANT = ScriptedModel.constant("x")
CALLING = ScriptedModel.replies([call("act"), "done"])


async def leak(task: Task) -> None:
    """Await what somebody has cancelled."""
    if task.metadata["leaks"]:
        gone = asyncio.get_running_loop().create_future()
        gone.cancel()
        await gone


class AtSetup(Episode):
    async def setup(self) -> None:
        await leak(self.task)


class AtRespond(Episode):
    async def respond(self, completion: Completion) -> End:
        await leak(self.task)
        return End()


class AtClose(Episode):
    async def close(self) -> None:
        await leak(self.task)


class AtTool(Episode):
    @tool
    async def act(self) -> str:
        """Act."""
        await leak(self.task)
        return "acted"


class AtParallelTool(Episode):
    @tool(parallel=True)
    async def act(self) -> str:
        """Act."""
        await leak(self.task)
        return "acted"


@reward(name="fine", inline=True)
def fine(trajectory: Trajectory) -> float:
    return 1.0


@reward(name="leaks")
async def of_one(trajectory: Trajectory) -> float:
    await leak(trajectory.task)
    return 1.0


@turn_reward(name="leaks")
async def of_turns(trajectory: Trajectory) -> list[float]:
    await leak(trajectory.task)
    return [1.0] * trajectory.turn_count


@group_reward(name="leaks")
async def of_group(trajectories: Sequence[Trajectory]) -> list[float]:
    await leak(trajectories[0].task)
    return [1.0] * len(trajectories)


class Leaking:
    """A model whose shared connection is gone for some tasks."""

    name = "leaking"

    def for_task(self, task: Task) -> ScriptedModel:
        async def policy(messages: Sequence[Message], tools: Any, rng: Any) -> str:
            await leak(task)
            return "x"

        return ScriptedModel(policy)

    async def complete(self, *_: Any) -> Completion:
        raise NotImplementedError

    async def close(self) -> None:
        """Nothing to free."""


PARALLEL = ScriptedModel.replies([[call("act"), call("act")], "done"])


@pytest.mark.parametrize(
    ("episode", "rewards", "model", "boundary"),
    [
        (AtSetup, [fine], CONSTANT, "environment"),
        (AtRespond, [fine], CONSTANT, "environment"),
        (AtClose, [fine], CONSTANT, "environment"),
        (AtTool, [fine], CALLING, "tool"),
        (AtParallelTool, [fine], PARALLEL, "tool"),
        (Episode, [of_one], CONSTANT, "reward"),
        (Episode, [fine, of_turns], CONSTANT, "reward"),
        (Episode, [fine, of_group], CONSTANT, "reward"),
        (Episode, [fine], Leaking(), "model"),
    ],
)
@pytest.mark.parametrize("limits", [TimeLimits(), TimeLimits(60, 60, 60, 60)])
async def test_a_leaked_cancel_fails_its_attempt_and_every_other_is_made(
    episode: type[Episode], rewards: list[Any], model: Any, boundary: str, limits: TimeLimits
) -> None:
    environment = Environment(tasks=TASKS, rewards=rewards, episode=episode, time_limits=limits)
    made = await attempts_of(environment, RunPlan(concurrency=3), model)

    assert sorted(each.task.key for each in made) == sorted(task.key for task in TASKS)
    failures = {each.task.key: each.failure for each in made if each.failure is not None}
    assert failures.keys() == LEAKING
    for failure in failures.values():
        assert failure.boundary == boundary
        assert "CancelledError: a task or future that it awaited was cancelled" in failure.message


async def test_a_run_that_lacks_an_attempt_does_not_end_well(tmp_path: Path) -> None:
    class EndsItself(Episode):
        async def setup(self) -> None:
            running = asyncio.current_task()
            assert running is not None
            if self.task.metadata["leaks"] and not self.environment_is_mended:
                running.cancel()
                await asyncio.sleep(0)

        environment_is_mended = False

    environment = Environment(tasks=TASKS[:4], rewards=[fine], episode=EndsItself)
    with pytest.raises(RunStoppedError, match="Attempts are missing"):
        await evaluate(environment, CONSTANT, RunPlan(concurrency=2), out=tmp_path)
    assert len(read_trajectories(tmp_path / TRAJECTORIES_NAME)) == 3

    EndsItself.environment_is_mended = True
    report = await evaluate(
        environment, CONSTANT, RunPlan(concurrency=2), out=tmp_path, is_resumed=True
    )
    assert report.scored_count == report.attempt_count == 4


async def test_a_cancel_of_the_run_is_passed_on_from_code_that_waits_for_another_task() -> None:
    entered: list[str] = []

    class Waiting(Episode):
        async def setup(self) -> None:
            entered.append(self.task.key)
            await asyncio.ensure_future(asyncio.Event().wait())

    environment = Environment(tasks=TASKS, rewards=[fine], episode=Waiting)
    run = asyncio.ensure_future(attempts_of(environment, RunPlan(concurrency=3), CONSTANT))
    await until(lambda: len(entered) == 3)
    run.cancel()
    with pytest.raises(asyncio.CancelledError):
        await run
    assert len(entered) == 3
