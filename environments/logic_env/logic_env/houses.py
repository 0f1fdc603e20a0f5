"""Who lives where in a row of houses: as few clues as leave exactly one order."""

import operator
import random
from collections.abc import Callable, Sequence
from itertools import combinations, permutations
from typing import Any

from logic_env.facts import FACTS

Places = Sequence[Sequence[int]]
"""By category and item: the house, from 0."""
Clue = tuple[str, tuple[int, int], tuple[int, int]]
"""What relates two items, each a category and a place in it; the second one's category is last."""

_SIZES = {1: (3, 2), 2: (3, 3), 3: (4, 4)}
"""Houses and categories by level."""
_RELATIONS: dict[str, Callable[[int, int], bool]] = {
    "is": operator.eq,
    "lives next to": lambda a, b: abs(a - b) == 1,
    "lives somewhere left of": operator.lt,
}


def make_houses(rng: random.Random, level: int) -> tuple[str, str, dict[str, Any]]:
    """A question about who lives where, and the names from left to right."""
    count, category_count = _SIZES[level]
    truth = [rng.sample(range(count), count) for _ in range(category_count)]
    items = [(category, item) for category in range(category_count) for item in range(count)]
    pairs = list(combinations(items, 2))
    clues = [(words, a, b) for words in _RELATIONS for a, b in pairs if _is_so(words, a, b, truth)]
    said = [f"{_name(a)} {words} {_name(b)}." for words, a, b in _needed(rng, clues, truth)]
    people = "; ".join(", ".join(each[:count]) for each in FACTS["houses"][:category_count])
    question = (
        f"{count} people live in a row of {count} houses. They are: {people}. "
        f"{' '.join(text[0].upper() + text[1:] for text in said)} "
        "Who lives where? Answer with the names from left to right, separated by commas."
    )
    order = sorted(range(count), key=truth[0].__getitem__)
    return question, ", ".join(_name((0, person)) for person in order), {"verifier": "text"}


def _name(item: tuple[int, int]) -> str:
    return str(FACTS["houses"][item[0]][item[1]])


def _is_so(words: str, a: tuple[int, int], b: tuple[int, int], places: Places) -> bool:
    return _RELATIONS[words](places[a[0]][a[1]], places[b[0]][b[1]])


def _needed(rng: random.Random, clues: list[Clue], truth: Places) -> list[Clue]:
    """As many as leave one order, none of which can be left out."""
    rng.shuffle(clues)
    kept = list(clues)
    for clue in clues:
        fewer = [each for each in kept if each != clue]
        if len(_orders(fewer, len(truth[0]), len(truth))) == 1:
            kept = fewer
    return kept


def _orders(clues: Sequence[Clue], count: int, category_count: int) -> list[Places]:
    found: list[Places] = [()]
    for category in range(category_count):
        due = [clue for clue in clues if clue[2][0] == category]
        longer = [(*places, order) for places in found for order in permutations(range(count))]
        found = [places for places in longer if all(_is_so(*clue, places) for clue in due)]
    return found
