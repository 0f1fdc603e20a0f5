"""Our own puzzles: each has exactly one solution, which these tests find in their own way."""

import random
import re
from itertools import permutations, product

import pytest
from logic_env.facts import FACTS
from logic_env.houses import make_houses
from logic_env.islanders import make_islanders

SEEDS = range(25)
LEVELS = (1, 2, 3)


def is_true(claim: str, is_knight: dict[str, bool]) -> bool:
    """Whether an islander's sentence holds."""
    if match := re.fullmatch(r"(\w+) and (\w+) are of the same kind", claim):
        return is_knight[match[1]] == is_knight[match[2]]
    facts = [is_knight[name] == (role == "knight") for name, role in roles_in(claim)]
    if claim.startswith("if "):
        return not facts[0] or facts[1]
    return any(facts) if claim.endswith("or both") else all(facts)


def roles_in(text: str) -> list[tuple[str, str]]:
    return re.findall(r"(\w+)(?: is a|:) (knight|knave)", text)


@pytest.mark.parametrize("level", LEVELS)
def test_exactly_one_reading_of_the_islanders_is_possible(level: int) -> None:
    for seed in SEEDS:
        question, answer, _ = make_islanders(random.Random(seed), level)
        claims = re.findall(r'(\w+) says: "(.+?)\."', question)
        names = [name for name, _ in claims]
        worlds = [
            dict(zip(names, world, strict=True))
            for world in product((True, False), repeat=len(names))
        ]
        possible = [
            world
            for world in worlds
            if all(world[name] == is_true(claim, world) for name, claim in claims)
        ]
        given = {name: role == "knight" for name, role in roles_in(answer)}
        assert len(names) == level + 2
        assert possible == [given], question


def worlds_of(people: str, clues: list[str]) -> list[dict[str, int]]:
    """Every placing of everybody that the clues allow."""
    worlds: list[dict[str, int]] = [{}]
    for category in people.split("; "):
        orders = list(permutations(category.split(", ")))
        placed = [
            {**world, **{item: place for place, item in enumerate(order)}}
            for world in worlds
            for order in orders
        ]
        worlds = [world for world in placed if all(holds(clue, world) for clue in clues)]
    return worlds


def parts_of(question: str) -> tuple[str, list[str]]:
    """The people, and the clues about them."""
    people, rest = question.split("They are: ")[1].split(". ", 1)
    return people, rest.split(". Who lives where?")[0].split(". ")


def holds(clue: str, world: dict[str, int]) -> bool:
    """Whether a clue holds; one about people who have no place yet may still hold."""
    text = clue.replace("The ", "the ")
    for words in ("lives next to", "lives somewhere left of", "is"):
        first, separator, second = text.partition(f" {words} ")
        if separator:
            break
    if first not in world or second not in world:
        return True
    distance = world[first] - world[second]
    return {"is": distance == 0, "lives next to": abs(distance) == 1}.get(words, distance < 0)


@pytest.mark.parametrize("level", LEVELS)
def test_the_clues_about_houses_leave_exactly_one_order(level: int) -> None:
    for seed in SEEDS if level < 3 else range(4):
        question, answer, _ = make_houses(random.Random(seed), level)
        people, clues = parts_of(question)
        [world] = worlds_of(people, clues)
        names = people.split("; ")[0].split(", ")
        assert ", ".join(sorted(names, key=world.__getitem__)) == answer


@pytest.mark.parametrize("level", [1, 2])
def test_no_clue_about_houses_can_be_left_out(level: int) -> None:
    for seed in SEEDS:
        people, clues = parts_of(make_houses(random.Random(seed), level)[0])
        for index in range(len(clues)):
            assert len(worlds_of(people, clues[:index] + clues[index + 1 :])) > 1


def test_nobody_has_two_names() -> None:
    items = [item for category in FACTS["houses"] for item in category]
    assert len(items) == len(set(items))
    assert len(FACTS["islanders"]) == len(set(FACTS["islanders"]))
