"""Every row of HumanEval and MBPP, judged as it should be by the environment for code."""

import asyncio
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from strop import Environment, ScriptedModel, Task
from tests.environments.answers import solution_of
from tests.environments.conftest import Load

Find = Callable[[str], Path]
Answer = Callable[[Task], str]

SETS = [("humaneval", 164), ("mbpp", 971)]
"""With how many rows; of MBPP three are excluded."""
DAILY_STEP = 41
CONCURRENCY = 32


def tasks_of(environment: Environment, step: int = 1) -> list[Task]:
    return [task for tasks in environment.tasks.values() for task in tasks][::step]


def wrong(task: Task) -> str:
    """Functions of the right names, whose value is nothing that is asked for."""
    reference: Any = task.reference
    named = (f"def {name}(*a, **k):\n    return 'no answer'\n" for name in reference["names"])
    return f"```python\n{''.join(named)}```"


async def misjudged(
    environment: Environment, tasks: list[Task], answer: Answer, expected: float
) -> list[str]:
    """Keys of the tasks whose answer gets another reward than expected."""
    rewards = await rewards_of(environment, tasks, answer)
    return [task.key for task, reward in zip(tasks, rewards, strict=True) if reward != expected]


async def rewards_of(environment: Environment, tasks: list[Task], answer: Answer) -> list[float]:
    turns = asyncio.Semaphore(CONCURRENCY)

    async def reward_of(task: Task) -> float:
        async with turns:
            model = ScriptedModel.constant(answer(task))
            trajectory = await environment.rollout(task, model)
        assert trajectory.failure is None, (task.key, trajectory.failure)
        assert trajectory.reward is not None
        return trajectory.reward

    return await asyncio.gather(*map(reward_of, tasks))


async def hold_up(environment: Environment, tasks: list[Task]) -> None:
    """Reference solutions get the most, nothing and wrong ones nothing."""
    async with environment:
        answers = {task.key: solution_of(environment, task) for task in tasks}
        assert await misjudged(environment, tasks, lambda task: answers[task.key], 1) == []
        assert await misjudged(environment, tasks, lambda task: "", 0) == []
        assert await misjudged(environment, tasks, lambda task: "```python\n\n```", 0) == []
        assert await misjudged(environment, tasks, wrong, 0) == []


@pytest.mark.parametrize(("dataset", "row_count"), SETS)
async def test_some_reference_solutions_score_1_and_wrong_ones_0(
    load: Load, data_folder: Find, dataset: str, row_count: int
) -> None:
    environment = load("code_env", dataset=dataset, path=str(data_folder(dataset)))
    assert len(tasks_of(environment)) == row_count
    await hold_up(environment, tasks_of(environment, DAILY_STEP))


@pytest.mark.slow
@pytest.mark.timeout(3600)
@pytest.mark.parametrize(("dataset", "row_count"), SETS)
async def test_every_reference_solution_scores_1_and_every_wrong_one_0(
    load: Load, data_folder: Find, dataset: str, row_count: int
) -> None:
    environment = load("code_env", dataset=dataset, path=str(data_folder(dataset)))
    tasks = tasks_of(environment)
    assert len({task.key for task in tasks}) == row_count
    await hold_up(environment, tasks)
    print(f"{dataset}: {row_count} rows, each solution 1, each empty and each wrong one 0")


@pytest.mark.slow
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("dataset", [name for name, _ in SETS])
async def test_a_constant_policy_gets_no_more_than_the_commonest_answers_share(
    load: Load, data_folder: Find, dataset: str
) -> None:
    environment = load("code_env", dataset=dataset, path=str(data_folder(dataset)))
    async with environment:
        tasks = tasks_of(environment)
        [(constant, count)] = Counter(solution_of(environment, task) for task in tasks).most_common(
            1
        )
        rewards = await rewards_of(environment, tasks, lambda task: constant)
    assert sum(rewards) <= count
    print(f"{dataset}: the commonest answer stands in {count} of {len(tasks)} rows, and wins those")


def test_the_rows_that_are_excluded_stand_in_the_readme(load: Load, data_folder: Find) -> None:
    keys = {
        task.key for task in tasks_of(load("code_env", dataset="mbpp", path=_mbpp(data_folder)))
    }
    readme = (Path(__file__).parents[2] / "environments/code_env/README.md").read_text()
    for number in range(1, 975):
        assert (str(number) not in keys) == (f"| `{number}` |" in readme)


def _mbpp(data_folder: Find) -> str:
    return str(data_folder("mbpp") / "mbpp.jsonl")
