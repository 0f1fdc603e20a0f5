"""Every generator of reasoning-gym that can be asked for, and the verifier it brings."""

import random
import warnings
from itertools import islice
from typing import Any

import pytest
from logic_env import load_environment
from logic_env.facts import FACTS
from logic_env.gym import known_generators, make_gym, verify_gym

from strop import Task

WRONG = ("", " ", "I do not know.", "\x00", "\ud800", "9" * 5_000, "((((", "1e999999999", "None")
SLOW = frozenset({"arc_agi", "group_anagrams", "word_ladder"})
"""More than 50 ms a task."""


def make_task(name: str, seed: int, level: int) -> Task:
    """A task as it comes back from a file."""
    question, answer, details = make_gym(name, random.Random(seed), level)
    return Task.from_json(Task("1", question, answer, {"generator": name, **details}).to_json())


def credit(task: Task, answer: str) -> float:
    with warnings.catch_warnings():
        # Numeric libraries warn of what is no matrix.
        warnings.simplefilter("ignore")
        return verify_gym(task, answer)


# A library that one generator reads its puzzles with leaves the file open.
@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
@pytest.mark.parametrize("level", [1, 2, 3])
def test_every_reference_answer_gets_the_maximum_and_no_other_does(level: int) -> None:
    names = [name for name in known_generators() if level == 1 or name not in SLOW]
    for name in names:
        for seed in range(3 if level == 1 else 1):
            task = make_task(name, seed, level)
            assert credit(task, str(task.reference)) == 1, name
            assert [wrong for wrong in WRONG if credit(task, wrong) == 1] == [], name


def test_every_generator_is_offered_or_excluded_with_a_reason() -> None:
    from reasoning_gym.factory import DATASETS

    known = set(known_generators())
    assert known | set(FACTS["excluded"]) == set(DATASETS)
    assert known.isdisjoint(FACTS["excluded"])
    assert set(FACTS["logic"]) <= known
    assert len(known) >= 85
    for table in ("levels", "examples", "evaluated"):
        assert set(FACTS[table]) <= known


def test_a_task_does_not_depend_on_those_before_it() -> None:
    for name in FACTS["logic"]:
        later = make_gym(name, random.Random(1), 1)
        make_gym(name, random.Random(0), 1)
        assert make_gym(name, random.Random(1), 1) == later, name


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("countdown", "9**9**9**9"),
        ("countdown", "__import__('os')._exit(3)"),
        ("n_queens", '[["Q"]] or __import__("os")._exit(3)'),
        ("n_queens", "__import__('os')._exit(3)"),
        ("spiral_matrix", "[__import__('os')._exit(3)]"),
        ("binary_matrix", "[exit()]"),
        ("string_insertion", "[exit()]"),
        ("coin_flip", "1e99999999999"),
        ("complex_arithmetic", "1" * 30_000),
    ],
)
def test_an_answer_is_never_run_nor_worked_out_for_ever(name: str, text: str) -> None:
    assert credit(make_task(name, 0, 1), text) == 0


def test_a_part_of_the_answer_is_paid_only_where_it_is_asked_for() -> None:
    task = make_task("chain_sum", 0, 1)
    assert 0 < credit(task, f"{task.reference} or so") < 1


def levels_of(tasks: Any, count: int) -> list[int]:
    return [int(task.metadata["level"]) for task in islice(tasks, count)]


def test_the_curriculum_rises_in_train_and_stops_at_the_last_level() -> None:
    environment = load_environment(generators=("islanders",), curriculum_every=3)
    assert levels_of(environment.tasks["train"], 11) == [1] * 3 + [2] * 3 + [3] * 5
    assert set(levels_of(environment.tasks["eval"], 11)) == {1}
    assert levels_of(load_environment(level=2, generators=("own",)).tasks["train"], 4) == [2] * 4


def test_a_generator_without_a_level_takes_the_nearest() -> None:
    environment = load_environment(generators=("modulo_grid",), level=3)
    assert set(levels_of(environment.tasks["train"], 3)) == {1}


def test_the_generators_take_turns() -> None:
    names = ("islanders", "maze", "houses")
    tasks = islice(load_environment(generators=names).tasks["train"], 6)
    assert tuple(task.metadata["generator"] for task in tasks) == names * 2


@pytest.mark.parametrize(
    ("settings", "problem"),
    [
        ({"generators": ("sokoban",)}, "'sokoban' cannot be played: a task may take minutes"),
        ({"generators": ("houses", "chess")}, "'chess' cannot be played: there is no such"),
        ({"level": 0}, "level 0"),
        ({"format_weight": 1.5}, "format_weight 1.5"),
        ({"curriculum_every": -1}, "curriculum_every -1"),
        ({"path": "somewhere"}, "do not go together"),
        ({"dataset": "rows"}, "do not go together"),
    ],
)
def test_settings_that_make_no_sense_are_refused(settings: dict[str, Any], problem: str) -> None:
    with pytest.raises(ValueError, match=problem):
        load_environment(**settings)
