"""Repairs by the real mini-swe-agent, and every fault repaired by its oracle."""

import asyncio
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any, cast

import pytest

from strop import Environment, ScriptedModel, Task, Trajectory
from strop.models.scripted import call
from tests.environments.answers import solution_of
from tests.environments.conftest import Load
from tests.sdk.serve.intercept.test_clients import mini_swe_agent

Find = Callable[[str], Path]

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


@pytest.mark.parametrize("agent", ["tools", "mini-swe-agent"])
def test_every_row_of_swe_bench_becomes_a_task_or_stands_in_the_readme(
    load: Load, data_folder: Find, agent: str
) -> None:
    folder = data_folder("swe_bench_rows")
    environment = load("swe_env", agent=agent, source="rows", path=str(folder))
    tasks = [task for tasks in environment.tasks.values() for task in tasks]
    rows = [row for file in folder.glob("*.json") for row in json.loads(file.read_text())]
    assert len(rows) == 15
    # One stands there twice.
    assert len(tasks) == len({task.key for task in tasks}) == 14
    by_key = {row["instance_id"]: row for row in rows}
    assert by_key.keys() == {task.key for task in tasks}
    for task in tasks:
        row, reference = by_key[task.key], cast("Any", task.reference)
        assert task.prompt[0].text == row["problem_statement"]
        assert reference["fail_to_pass"] == row["FAIL_TO_PASS"]
        assert reference["pass_to_pass"] == row["PASS_TO_PASS"]
        assert str(task.metadata["image"]).startswith("swebench/sweb.eval.x86_64.")
        assert row["patch"].splitlines()[0] not in json.dumps(task.metadata)
        assert len(cast("list[Any]", solution_of(environment, task))) == 2
    print(f"swe_bench_rows: {len(rows)} rows, {len(tasks)} tasks")


READY = "echo COMPLETE_TASK_AND_SUBMIT_FINAL_OUTPUT"


@pytest.mark.slow
@pytest.mark.timeout(1800)
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
