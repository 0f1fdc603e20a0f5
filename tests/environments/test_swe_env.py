"""Repairs by the real mini-swe-agent, and every fault repaired by its oracle."""

import asyncio
from typing import Any

import pytest

from strop import Environment, ScriptedModel, Task, Trajectory
from strop.models.scripted import call
from tests.environments.answers import solution_of
from tests.environments.conftest import Load
from tests.sdk.serve.intercept.test_clients import mini_swe_agent

CONCURRENCY = 16

__all__ = ["mini_swe_agent"]


async def rewards_of(environment: Environment, tasks: list[Task], replies: Any) -> list[Any]:
    """What the replies `replies(task)` earn."""
    turns = asyncio.Semaphore(CONCURRENCY)

    async def reward_of(task: Task) -> float | None:
        async with turns:
            trajectory = await environment.rollout(task, ScriptedModel.replies(replies(task)))
        assert trajectory.failure is None, (task.key, trajectory.failure)
        return trajectory.reward

    return await asyncio.gather(*map(reward_of, tasks))


@pytest.mark.slow
@pytest.mark.timeout(3600)
async def test_every_fault_is_repaired_by_its_oracle_and_by_no_other_tasks(load: Load) -> None:
    environment = load("swe_env")
    async with environment:
        tasks = [task for tasks in environment.tasks.values() for task in tasks]
        solutions = {task.key: solution_of(environment, task) for task in tasks}
        assert set(await rewards_of(environment, tasks, lambda t: solutions[t.key])) == {1.0}
        assert set(await rewards_of(environment, tasks, lambda t: ["Ready."])) == {0.0}
        constant = solutions[tasks[0].key]
        assert sum(await rewards_of(environment, tasks, lambda t: constant)) <= 1
    print(f"{len(tasks)} faults: each repaired by its oracle, none by nothing")


async def play(environment: Environment, task: Task, commands: list[str]) -> Trajectory:
    replies = [call("bash", command=command) for command in commands]
    return await environment.rollout(task, ScriptedModel.replies(replies))


READY = "echo COMPLETE_TASK_AND_SUBMIT_FINAL_OUTPUT"


@pytest.mark.slow
@pytest.mark.timeout(600)
async def test_mini_swe_agent_repairs_a_library_in_the_sandbox(
    load: Load,
    mini_swe_agent: str,
) -> None:
    environment = load("swe_env", agent="mini-swe-agent", program=mini_swe_agent)
    task = environment.tasks["eval"][0]
    solution: Any = solution_of(environment, task)
    async with environment:
        good = await environment.rollout(task, ScriptedModel.replies(list(solution)))
        assert good.failure is None, good.failure
        assert (good.reward, good.turn_count, good.stop_reason) == (1.0, 2, "ended")
        assert str(good.isolation).startswith("namespace")
        bad = await play(
            environment, task, ["python3 run_tests.py; ls /work", "rm -r tests", READY]
        )
        assert bad.failure is None, bad.failure
        assert (bad.reward, bad.turn_count) == (0.0, 3)
        told = [message.text for segment in bad.segments for message in segment.messages]
        assert any("FAILED test_" in text and "No such file" in text for text in told)
