"""Every generator of reasoning-gym that can be asked for, and the verifier it brings."""

import random
import re
import warnings
from collections import Counter
from itertools import islice, product
from typing import Any

import pytest
from logic_env import load_environment
from logic_env.facts import FACTS
from logic_env.gym import known_generators, make_gym, verify_gym

from strop import Task

WRONG = ("", " ", "I do not know.", "\x00", "\ud800", "9" * 5_000, "((((", "1e999999999", "None")
SLOW = frozenset(
    {"arc_agi", "bf", "group_anagrams", "knight_swap", "polynomial_multiplication", "word_ladder"}
)
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
    assert len(known) >= 99
    for table in ("levels", "examples", "forms", "judges", "like"):
        assert set(FACTS[table]) - {"others"} <= known


def test_a_task_does_not_depend_on_those_before_it() -> None:
    for name in FACTS["logic"]:
        later = make_gym(name, random.Random(1), 1)
        make_gym(name, random.Random(0), 1)
        assert make_gym(name, random.Random(1), 1) == later, name


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("countdown", "9**9**9**9"),
        ("countdown", "(\n9**9**9**9)"),
        ("countdown", "__import__('os')._exit(3)"),
        ("puzzle24", "(\n9**9**9**9)"),
        ("puzzle24", "__import__('os')._exit(3)"),
        ("simple_integration", "__import__('os')._exit(3)"),
        ("simple_integration", "x**9**9**9**9"),
        ("simple_integration", "(x + 1)**99999"),
        ("polynomial_multiplication", "__import__('os')._exit(3)"),
        ("polynomial_multiplication", "9**9**9**9"),
        ("rubiks_cube", "U999999999999"),
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


def test_a_sum_is_right_in_other_words_and_with_no_other_sign() -> None:
    for name in ("simple_integration", "polynomial_multiplication"):
        for seed in range(4):
            task = make_task(name, seed, 1)
            right = str(task.reference)
            assert credit(task, right.replace(" ", "")) == 1, right
            assert credit(task, right.replace("**", " ** ")) == 1, right
            assert credit(task, f"{right} + 2*x + 2*X") == 0, right
            assert credit(task, f"{right} + x/0") == 0, right


def test_twenty_four_is_made_of_the_puzzles_own_numbers() -> None:
    for seed in range(2):
        task = make_task("puzzle24", seed, 1)
        entry: Any = task.metadata["entry"]
        numbers, right = entry["metadata"]["numbers"], str(task.reference)
        assert credit(task, f"( {right} )") == 1
        made = {"5*5-1*1": [1, 1, 5, 5], "4*5+4*1": [1, 4, 4, 5], "3*4*2*1": [1, 2, 3, 4]}
        others = [text for text, used in made.items() if used != sorted(numbers)]
        assert len(others) >= 2
        for wrong in (*others, f"{right}*1", f"{right}+0", "24", "12+12", f"-({right})"):
            assert credit(task, wrong) < 1, (right, wrong)


def life_ends(board: list[list[int]], step_count: int) -> bool:
    """Whether no cell is left after some steps of the game of life on a torus."""
    height, width = len(board), len(board[0])
    alive = {(y, x) for y in range(height) for x in range(width) if board[y][x]}
    for _ in range(step_count):
        around = Counter(
            ((y + b) % height, (x + a) % width)
            for y, x in alive
            for b, a in product((-1, 0, 1), repeat=2)
            if b or a
        )
        alive = {at for at, n in around.items() if n == 3 or (n == 2 and at in alive)}
    return not alive


@pytest.mark.parametrize("level", [1, 2])
def test_what_a_game_of_life_comes_to_is_so(level: int) -> None:
    answers = set()
    for seed in range(8):
        task = make_task("game_of_life_halting", seed, level)
        entry: Any = task.metadata["entry"]
        rows = re.findall(r"\[([01 ]+)\]", task.prompt[-1].text)
        board = [[int(cell) for cell in row.split()] for row in rows]
        assert len(board) == entry["metadata"]["grid_size_x"]
        assert str(life_ends(board, entry["metadata"]["simulation_steps"])) == task.reference
        other = str(task.reference != "True")
        assert [credit(task, wrong) for wrong in (other, "Who knows?", "")] == [0, 0, 0]
        answers.add(task.reference)
    assert answers == {"True", "False"}


def test_nothing_is_printed(capsys: pytest.CaptureFixture[str]) -> None:
    make_task("bf", 0, 2)
    hanoi = make_task("tower_of_hanoi", 0, 2)
    assert credit(hanoi, "Move disk 1 from Peg 9 to Peg 8") == 0
    assert capsys.readouterr().out == ""


def test_where_a_seed_has_no_task_another_is_taken() -> None:
    tasks = [make_task("tsumego", seed, 3) for seed in range(40)]
    assert tasks == [make_task("tsumego", seed, 3) for seed in range(40)]
    assert all(credit(task, str(task.reference)) == 1 for task in tasks)


def test_sequences_are_dropped_that_would_be_dropped_later(monkeypatch: pytest.MonkeyPatch) -> None:
    early = [make_task("number_sequence", seed, 1) for seed in range(20)]
    monkeypatch.setattr("logic_env.gym._LARGEST", 10**40)
    assert early == [make_task("number_sequence", seed, 1) for seed in range(20)]


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
