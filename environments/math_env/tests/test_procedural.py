"""Problems that are made up, each with the answer that it has."""

import re
from fractions import Fraction
from itertools import islice
from typing import get_args

import pytest
from math_env import load_environment
from math_env.procedural import LEVELS, Topic

from strop import ScriptedModel, Task

TOPICS = [topic for topic in get_args(Topic) if topic != "mixed"]


def tasks_of(topic: Topic, level: int, count: int = 100) -> list[Task]:
    splits = load_environment(topic=topic, level=level).tasks.values()
    return [task for tasks in splits for task in islice(tasks, count)]


def computed(expression: str) -> Fraction:
    """The value of plain arithmetic that this test wrote itself."""
    exact = re.sub(r"[0-9]+", r"Fraction(\g<0>)", expression)
    return Fraction(eval(exact, {"Fraction": Fraction}))


@pytest.mark.parametrize("level", LEVELS[1:])
def test_sums_and_fractions_have_the_value_that_python_gives(level: int) -> None:
    for topic in ("arithmetic", "fractions"):
        for task in tasks_of(topic, level):
            [expression] = re.findall(r"(?:What is|Compute) (.+?)[?.]", task.prompt[0].text)
            assert Fraction(str(task.reference)) == computed(expression)


@pytest.mark.parametrize("level", LEVELS[1:])
def test_the_root_of_an_equation_solves_it(level: int) -> None:
    for task in tasks_of("linear", level):
        left, right = task.prompt[0].text.removeprefix("Solve for x: ").split(" = ")
        root = f"({task.reference})"
        sides = [re.sub(r"([0-9]+)x", rf"\1*{root}", side) for side in (left, right)]
        assert computed(sides[0]) == computed(sides[1])


@pytest.mark.parametrize("level", LEVELS[1:])
def test_remainders_percents_and_sequences_are_right(level: int) -> None:
    for task in tasks_of("modular", level):
        value, modulus = re.findall(r"when (\S+) is divided by (\d+)", task.prompt[0].text)[0]
        base, _, exponent = value.partition("^")
        assert int(base) ** int(exponent or 1) % int(modulus) == Fraction(str(task.reference))
    for task in tasks_of("percent", level):
        first, second = map(int, re.findall(r"\d+", task.prompt[0].text))
        base = first if "price" in task.prompt[0].text else 0
        assert Fraction(str(task.reference)) == base + Fraction(first * second, 100)
    for task in tasks_of("sequences", level):
        start, following, *_, place = map(int, re.findall(r"-?\d+", task.prompt[0].text))
        terms = [start + i * (following - start) for i in range(place)]
        expected = sum(terms) if "sum" in task.prompt[0].text else terms[-1]
        assert int(str(task.reference)) == expected


@pytest.mark.parametrize("topic", TOPICS)
def test_a_topic_is_the_only_one_of_its_tasks(topic: Topic) -> None:
    assert {task.metadata["topic"] for task in tasks_of(topic, 1, 20)} == {topic}


def test_the_mixture_takes_the_topics_in_turn() -> None:
    tasks = islice(load_environment().tasks["train"], 12)
    assert [task.metadata["topic"] for task in tasks] == TOPICS * 2


@pytest.mark.parametrize("topic", TOPICS)
def test_the_splits_never_share_a_problem(topic: Topic) -> None:
    splits = load_environment(topic=topic).tasks
    train = {task.prompt for task in islice(splits["train"], 1000)}
    assert train.isdisjoint({task.prompt for task in splits["eval"]})


@pytest.mark.parametrize("level", [0, 5, -1])
def test_a_level_that_does_not_exist_is_refused(level: int) -> None:
    with pytest.raises(ValueError, match="Choose 1 to 4 of mixed"):
        load_environment(level=level)


def test_arithmetic_begins_with_sums_of_single_digits() -> None:
    for task in tasks_of("arithmetic", 0):
        first, second = re.findall(r"[0-9]+", task.prompt[0].text)
        assert len(first) == len(second) == 1
        assert task.reference == str(int(first) + int(second))


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("To add them, you get {answer}.", 1),
        (r"\boxed{{{answer}}}", 1),
        ("{answer} or -7", 0),
        ("{copied}", 0),
        ("", 0),
    ],
)
async def test_the_last_number_counts_where_no_box_is_asked_for(text: str, expected: float) -> None:
    environment = load_environment(topic="arithmetic", level=2, answer_form="last_number")
    async with environment:
        for task in islice(environment.tasks["train"], 10):
            assert len(environment.opening(task)) == 1
            copied = task.prompt[0].text.removeprefix("What is ").rstrip("?")
            answer = text.format(answer=task.reference, copied=copied)
            trajectory = await environment.rollout(task, ScriptedModel.constant(answer))
            assert trajectory.reward == expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (r"\boxed{{{answer}}}", 1),
        ("I think:\n#### {answer}", 1),
        ("#### {answer}\nor not", 0),
        ("{answer}", 0),
        (r"\boxed{{{copied}}}", 0),
        (r"\boxed{{{answer}}} or \boxed{{-999}}", 0),
        (r"\boxed{{x = {answer}}}", 1),
        (r"\boxed{{{copied} = {answer}}}", 1),
        (r"\boxed{{{answer}.0 = {answer}}}", 1),
        (r"\boxed{{-999 = {answer}}}", 0),
        (r"\boxed{{x = -999 = {answer}}}", 0),
        ("", 0),
    ],
)
async def test_the_value_is_wanted_and_not_the_question(text: str, expected: float) -> None:
    environment = load_environment(topic="arithmetic")
    async with environment:
        for task in islice(environment.tasks["train"], 50):
            copied = task.prompt[0].text.removeprefix("What is ").rstrip("?")
            answer = text.format(answer=task.reference, copied=copied)
            trajectory = await environment.rollout(task, ScriptedModel.constant(answer))
            assert trajectory.reward == expected
