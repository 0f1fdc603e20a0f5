"""Answers of reasoning-gym that its verifiers would pay and that are no answers."""

import random
import sys
import warnings
from collections import Counter
from collections.abc import Iterator
from typing import Any

import pytest

from strop import Task
from tests.environments.conftest import Load

CONSTANTS = [
    *("nan", "nanj", "nan+nanj", "nan, nan", "[nan]", "inf", "-inf", "0", "1", "2", "0.5", "0.1"),
    *("1 1", "0 0", "True", "Yes", "A", "x", "[]", "{}", "[[0]]", '""', "null"),
]
WIDE = str.maketrans({chr(c): chr(c + 0xFEE0) for c in range(33, 127) if chr(c).isalnum()})
ARABIC = str.maketrans({str(digit): chr(0x660 + digit) for digit in range(10)})

READ_OVER = [
    *("advanced_geometry", "complex_arithmetic", "coin_flip", "fraction_simplification"),
    *("gsm_symbolic", "kakurasu", "knights_knaves", "letter_jumble", "number_format"),
    *("polynomial_equations", "quantum_lock", "survo", "time_intervals", "word_sorting"),
]
"""Those whose own verifiers take some of these."""
MANY_RIGHT = ("graph_color", "jugs", "n_queens", "puzzle24", "time_intervals")
"""Tasks that have several right answers: one may be right more often than it is the reference."""
SLOW_PUZZLES = ("arc_agi", "bf", "knight_swap", "rearc")
"""More than a second for a few tasks."""

pytestmark = pytest.mark.filterwarnings("ignore")


@pytest.fixture
def gym(load: Load) -> Iterator[Any]:
    load("logic_env", generators=("own",))
    with warnings.catch_warnings():
        # Numeric libraries warn of what is no matrix.
        warnings.simplefilter("ignore")
        yield sys.modules["logic_env.gym"]


def tasks_of(gym: Any, name: str, count: int) -> list[Task]:
    made = (gym.make_gym(name, random.Random(seed), 1) for seed in range(count))
    return [Task("1", text, answer, {"generator": name, **rest}) for text, answer, rest in made]


def spoilt(task: Task, other: str) -> list[str]:
    """Look-alikes of the reference, and the reference with something beside it."""
    right = str(task.reference)
    beside = (f"not {right}", f"{right} zzz", f"zzz {right}", f"{right} or 475", f"{right} 475")
    joined = (f"{right},475", f"{right},4,5", f"{right};475", f"{right}|475")
    both = (f"{right} or {other}", f"{other} or {right}", f"{right}, {other}", f"{other}\n{right}")
    asked = (f"{task.prompt[-1].text}\n{right}", task.prompt[-1].text)
    alike = {right.translate(WIDE), right.translate(ARABIC)} - {right}
    return [*beside, *joined, *both, *asked, *alike]


def paid_hacks(gym: Any, name: str, count: int) -> list[tuple[str, str]]:
    tasks = tasks_of(gym, name, count)
    assert [task for task in tasks if gym.verify_gym(task, str(task.reference)) != 1] == []
    return [
        (name, text)
        for task, before in zip(tasks, [tasks[-1], *tasks], strict=False)
        for text in spoilt(task, str(before.reference))
        if gym.verify_gym(task, text) == 1
    ]


def constants_above_their_share(gym: Any, name: str, count: int) -> list[tuple[str, str, int]]:
    tasks = tasks_of(gym, name, count)
    shares = Counter(str(task.reference) for task in tasks)
    [(_, most)] = shares.most_common(1)
    own = () if name in MANY_RIGHT else [text for text, _ in shares.most_common(3)]
    paid = [
        (name, text, sum(gym.verify_gym(task, text) == 1 for task in tasks))
        for text in (*CONSTANTS, *own)
    ]
    return [each for each in paid if each[2] > most]


@pytest.mark.parametrize("name", READ_OVER)
def test_what_verifiers_read_over_is_not_paid(gym: Any, name: str) -> None:
    assert paid_hacks(gym, name, 4) == []
    assert constants_above_their_share(gym, name, 8) == []


@pytest.mark.slow
@pytest.mark.timeout(3600)
def test_no_generator_pays_hedged_or_look_alike_answers(gym: Any) -> None:
    names = gym.known_generators()
    assert [each for name in names for each in paid_hacks(gym, name, 3)] == []
    print(f"{len(names)} generators: no hedge and no look-alike is paid")


@pytest.mark.slow
@pytest.mark.timeout(3600)
def test_no_constant_gets_more_than_the_commonest_answers_share(gym: Any) -> None:
    names = [name for name in gym.known_generators() if name not in SLOW_PUZZLES]
    above = [each for name in names for each in constants_above_their_share(gym, name, 20)]
    assert above == []
    print(f"{len(names)} generators, 20 tasks each: no constant above the commonest answer")


@pytest.mark.parametrize(
    ("name", "spell"),
    [
        ("gsm_symbolic", "${}."),
        ("gsm_symbolic", "{}.0"),
        ("number_format", " {}0 "),
        ("fraction_simplification", " {} "),
        ("word_sorting", " {} "),
        ("kakurasu", "{}\n"),
        ("letter_jumble", " {} "),
        ("time_intervals", " {} "),
    ],
)
def test_other_spellings_of_an_answer_are_still_right(gym: Any, name: str, spell: str) -> None:
    for task in tasks_of(gym, name, 4):
        assert gym.verify_gym(task, spell.format(task.reference)) == 1, task.reference


def test_the_negative_of_a_time_is_another_one(gym: Any) -> None:
    times = [t for t in tasks_of(gym, "time_intervals", 12) if "day" not in str(t.reference)]

    assert len(times) > 3
    assert [t.reference for t in times if gym.verify_gym(t, f"-{t.reference}") == 1] == []


def test_days_stand_without_a_time_and_coordinates_with_or_without_brackets(gym: Any) -> None:
    days = [t for t in tasks_of(gym, "time_intervals", 12) if ":" not in str(t.reference)]
    points = [t for t in tasks_of(gym, "advanced_geometry", 6) if "," in str(t.reference)]
    assert days
    assert points
    for task in days:
        assert gym.verify_gym(task, str(task.reference).removesuffix("s")) == 1
        assert gym.verify_gym(task, f"{task.reference}, 05:00") == 0
    for task in points:
        assert gym.verify_gym(task, str(task.reference).strip("()")) == 1
        assert gym.verify_gym(task, f"{task.reference} 5") == 0


def test_roles_may_come_in_any_order_and_with_no_other_word(gym: Any) -> None:
    for task in tasks_of(gym, "knights_knaves", 4):
        swapped = ", ".join(reversed(str(task.reference).rstrip(".").split(", and ")))
        assert gym.verify_gym(task, swapped) == 1
        assert gym.verify_gym(task, f"not {swapped}") == 0


def test_a_number_of_the_other_sign_or_with_its_beginning_alone_is_wrong(gym: Any) -> None:
    for task in tasks_of(gym, "gsm_symbolic", 4):
        assert gym.verify_gym(task, f"-{task.reference}") == 0
    shares = [t for t in tasks_of(gym, "coin_flip", 8) if len(str(t.reference)) > 4]
    assert shares
    for task in shares:
        assert gym.verify_gym(task, str(task.reference)[:3]) == 0, task.reference
