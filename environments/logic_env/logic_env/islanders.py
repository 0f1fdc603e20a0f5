"""Knights, who only tell the truth, and knaves, who only lie: exactly one reading is possible."""

import random
from collections.abc import Callable, Sequence
from itertools import product
from typing import Any

from logic_env.facts import FACTS

World = Sequence[bool]
Claim = tuple[str, Callable[[World], bool]]

_ROLES = ("knave", "knight")
FORM = "Who is what? Answer like this: Max: knight, Zoe: knave"


def make_islanders(rng: random.Random, level: int) -> tuple[str, str, dict[str, Any]]:
    """A question about 2 + `level` people, and its answer."""
    names, people = rng.sample(FACTS["islanders"], level + 2), range(level + 2)
    readings: list[World] = []
    while len(readings) != 1:
        claims = [_claim(rng, names, speaker, level) for speaker in people]
        worlds = product((True, False), repeat=len(people))
        readings = [w for w in worlds if all(w[each] == claims[each][1](w) for each in people)]
    said = " ".join(f'{names[each]} says: "{claims[each][0]}."' for each in people)
    rules = f"Knights only tell the truth, knaves only lie. You meet {', '.join(names)}."
    return f"{rules} {said} {FORM}", describe_roles(names, readings[0]), {"verifier": "roles"}


def describe_roles(names: Sequence[str], world: World) -> str:
    """The answer's form, such as ``Ann: knight, Bob: knave``."""
    return ", ".join(map("{}: {}".format, names, map(_ROLES.__getitem__, world)))


def _claim(rng: random.Random, names: Sequence[str], speaker: int, level: int) -> Claim:
    a, b = rng.sample([index for index in range(len(names)) if index != speaker], 2)
    is_knight, is_other = rng.choice((True, False)), rng.choice((True, False))
    first, second = f"{names[a]} is a {_ROLES[is_knight]}", f"{names[b]} is a {_ROLES[is_other]}"
    claims: list[Claim] = [
        (first, lambda w: w[a] == is_knight),
        (f"{names[a]} and {names[b]} are of the same kind", lambda w: w[a] == w[b]),
        (f"{first} and {second}", lambda w: w[a] == is_knight and w[b] == is_other),
        (f"{first} or {second}, or both", lambda w: w[a] == is_knight or w[b] == is_other),
        (f"if {first}, then {second}", lambda w: w[a] != is_knight or w[b] == is_other),
    ]
    return rng.choice(claims[: level + 2])
