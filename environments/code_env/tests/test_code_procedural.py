"""Problems that are made up, each with cases that its solutions pass in every language."""

import asyncio
import shutil
from collections import Counter
from itertools import islice
from typing import Any, get_args

import pytest
from code_env import load_environment
from code_env.judging import Language
from code_env.procedural import CASE_COUNT, Topic

from strop import ScriptedModel, Task, Trajectory

TOPICS = [topic for topic in get_args(Topic) if topic != "mixed"]
TOOLS = {"bash": "bash", "c": "gcc", "cpp": "g++", "javascript": "node"}


def tasks_of(count: int, **settings: Any) -> list[Task]:
    splits = load_environment(**settings).tasks.values()
    return [task for tasks in splits for task in islice(tasks, count)]


def cases_of(task: Task) -> list[list[str]]:
    reference: Any = task.reference
    return list(reference["cases"])


@pytest.mark.parametrize("language", get_args(Language))
async def test_the_solution_in_every_language_passes_every_case(language: Language) -> None:
    if shutil.which(TOOLS.get(language, "sh")) is None:
        pytest.skip(f"{TOOLS[language]} is not installed")
    environment = load_environment(language=language)
    assert environment.oracle is not None
    async with environment:
        tasks = list(islice(environment.tasks["train"], 2 * len(TOPICS)))
        answers = [ScriptedModel.constant(environment.oracle(task)) for task in tasks]
        played = await asyncio.gather(*map(environment.rollout, tasks, answers))
    assert {task.metadata["topic"] for task in tasks} == set(TOPICS)
    assert [each.failure for each in played if each.failure] == []
    assert [each.reward for each in played] == [1.0] * len(tasks)


def _first_numbers(task: Task) -> list[int]:
    return [int(word) for word in cases_of(task)[-1][0].split()[1:]]


def test_cases_are_what_the_problem_says() -> None:
    """A few problems, solved here by hand."""
    for task in tasks_of(12, topic="recurrence"):
        words = task.prompt[0].text.replace(",", " ").replace(".", " ").split()
        a, b = int(words[3]), int(words[6])
        p, q, r, m = (int(words[words.index(word) + n]) for word, n in _PLACES)
        values = [a, b]
        while len(values) < 1000:
            values.append((p * values[-1] + q * values[-2] + r) % m)
        expected = "".join(f"{values[n]}\n" for n in _first_numbers(task))
        assert cases_of(task)[-1][1] == expected


_PLACES = (("remainder", 2), ("f(n-1)", 2), ("f(n-2)", 2), ("divided", 2))


def test_a_problem_shows_its_first_two_cases_and_no_other() -> None:
    for task in tasks_of(24):
        text = task.prompt[0].text
        cases = cases_of(task)
        assert len(cases) == CASE_COUNT
        assert all(f"Input:\n{i}Output:\n{o}" in text for i, o in cases[:2])
        assert not any(i in text for i, _ in cases[2:])
        assert "@" not in text


def test_no_program_that_prints_one_thing_passes_a_problem() -> None:
    for task in tasks_of(60):
        assert len({output for _, output in cases_of(task)}) > 1, task.prompt[0].text


async def test_a_program_that_prints_one_thing_gets_that_outputs_share_of_the_cases() -> None:
    environment = load_environment(grading="fraction")
    tasks = list(environment.tasks["eval"])
    outputs = Counter(output for task in tasks for _, output in cases_of(task))
    [(commonest, _)] = outputs.most_common(1)
    hits = [[out == commonest for _, out in cases_of(task)] for task in tasks]
    # Of all cases or, if less, of those that the problem does not show.
    shares = [min(sum(hit) / CASE_COUNT, sum(hit[2:]) / (CASE_COUNT - 2)) for hit in hits]
    assert (commonest, round(sum(shares) / len(tasks), 3)) == ("1\n", 0.054)
    async with environment:
        model = ScriptedModel.constant(f"```python\nprint({commonest})\n```")
        trajectory = await environment.rollout(tasks[shares.index(max(shares))], model)
    assert trajectory.reward == max(shares) > 0


async def test_a_table_of_the_cases_that_a_problem_shows_earns_nothing() -> None:
    environment = load_environment(grading="fraction")
    async with environment:
        for task in islice(environment.tasks["eval"], 6):
            table = dict(map(tuple, cases_of(task)[:2]))
            code = f"import sys\nprint({table!r}.get(sys.stdin.read()), end='')"
            model = ScriptedModel.constant(f"```python\n{code}\n```")
            trajectory = await environment.rollout(task, model)
            assert (trajectory.reward, trajectory.outcome["passed"]) == (0.0, 2)


@pytest.mark.parametrize("topic", TOPICS)
def test_the_splits_never_share_a_problem(topic: Topic) -> None:
    splits = load_environment(topic=topic).tasks
    texts = [
        {task.prompt[0].text.partition("Input:")[0] for task in islice(tasks, 100)}
        for tasks in splits.values()
    ]
    assert texts[0].isdisjoint(texts[1])
    assert min(map(len, texts)) > 90


def test_another_seed_gives_other_problems_and_a_topic_only_its_own() -> None:
    assert tasks_of(6) == tasks_of(6)
    assert tasks_of(6) != tasks_of(6, seed=1)
    assert {task.metadata["topic"] for task in tasks_of(6, topic="walk")} == {"walk"}


def test_procedural_problems_are_read_from_no_file() -> None:
    with pytest.raises(ValueError, match="read from no file"):
        load_environment(path="problems.jsonl")


async def test_the_record_says_where_the_program_ran() -> None:
    environment = load_environment()
    task = environment.tasks["train"][0]
    async with environment:
        trajectory: Trajectory = await environment.rollout(task, ScriptedModel.constant("?"))
    assert trajectory.isolation
    assert trajectory.outcome["verdict"] == "error"
    assert trajectory.outcome["passed"] == 0
