"""Every row of the public data sets, judged as it should be."""

import json
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from strop import Environment, Task
from strop.rewards.boxed import decide_cheaply
from tests.environments.answers import misjudged, reward_of, solution_of
from tests.environments.conftest import Load

Find = Callable[[str], Path]

SPLITS = [
    ("gsm8k", "train", "train", "answer", 7473),
    ("gsm8k", "eval", "test", "answer", 1319),
    ("math500", "eval", "test", "solution", 500),
]

WRONG = r"\boxed{-77777}"
"""The answer of no row."""


def rows_of(folder: Path, name: str) -> list[dict[str, Any]]:
    """The rows of a file, read apart from the environment."""
    lines = (folder / f"{name}.jsonl").read_text(encoding="utf-8").split("\n")
    return [json.loads(line) for line in lines if line]


Split = tuple[str, str, str, str, int]


@pytest.mark.parametrize(
    ("chosen", "step"),
    [
        pytest.param(SPLITS[0], 5, id="every fifth of gsm8k-train"),
        pytest.param(SPLITS[0], 1, id="gsm8k-train", marks=pytest.mark.slow),
        pytest.param(SPLITS[1], 1, id="gsm8k-eval"),
        pytest.param(SPLITS[2], 1, id="math500-eval"),
    ],
)
async def test_every_reference_solution_scores_1_and_the_empty_answer_0(
    load: Load, data_folder: Find, chosen: Split, step: int
) -> None:
    dataset, split, file, column, row_count = chosen
    folder = data_folder(dataset)
    environment = load("math_env", dataset=dataset, path=str(folder))
    rows = rows_of(folder, file)
    tasks = list(environment.tasks[split])
    assert len(tasks) == len(rows) == row_count
    assert len({task.key for task in tasks}) == row_count
    async with environment:
        solutions = [(task, row[column]) for task, row in zip(tasks, rows, strict=True)][::step]
        tasks = tasks[::step]
        oracle = [(task, solution_of(environment, task)) for task in tasks]
        assert await misjudged(environment, solutions, 1) == []
        assert await misjudged(environment, oracle, 1) == []
        assert await misjudged(environment, [(task, "") for task in tasks], 0) == []
        assert await misjudged(environment, [(task, WRONG) for task in tasks], 0) == []
    print(f"{dataset} {split}: {len(tasks)} rows, each solution 1, each empty and wrong answer 0")


@pytest.mark.parametrize(("dataset", "split"), [(row[0], row[1]) for row in SPLITS])
async def test_a_wrong_answer_scores_0(
    load: Load, data_folder: Find, dataset: str, split: str
) -> None:
    environment = load("math_env", dataset=dataset, path=str(data_folder(dataset)))
    async with environment:
        tasks = list(environment.tasks[split])[::25]
        wrong = [(task, rf"\boxed{{{task.reference} + 1}}") for task in tasks]
        # One more than a word or a pair is no answer at all, and wrong as well.
        assert await misjudged(environment, wrong, 0) == []
        hedged = [(task, rf"\boxed{{{task.reference}}} or \boxed{{-777}}") for task in tasks]
        assert await misjudged(environment, hedged, 0) == []
        both = [(task, rf"\boxed{{{task.reference} \text{{ or }} -777}}") for task in tasks]
        assert await misjudged(environment, both, 0) == []
    print(f"{dataset} {split}: {len(tasks)} wrong answers, each 0")


@pytest.mark.parametrize(("dataset", "split"), [(row[0], row[1]) for row in SPLITS])
async def test_a_constant_policy_gets_no_more_than_the_commonest_answers_share(
    load: Load, data_folder: Find, dataset: str, split: str
) -> None:
    environment = load("math_env", dataset=dataset, path=str(data_folder(dataset)))
    async with environment:
        tasks = list(environment.tasks[split])
        constant, _ = Counter(str(task.reference) for task in tasks).most_common(1)[0]
        share = sum(_is_same(constant, task) for task in tasks) / len(tasks)
        mean = await _mean(environment, tasks, rf"\boxed{{{constant}}}")
    assert mean <= share
    print(f"{dataset} {split}: always {constant}: {mean:.4f}, its share {share:.4f}")


def _is_same(constant: str, task: Task) -> bool:
    return decide_cheaply(constant, str(task.reference)) is True


async def _mean(environment: Environment, tasks: list[Task], text: str) -> float:
    rewards = [await reward_of(environment, task, text) for task in tasks]
    return sum(rewards) / len(rewards)
