"""Puzzles that are made up, the generators taking turns."""

import random
from collections.abc import Sequence
from functools import partial
from hashlib import sha256

from logic_env.facts import FACTS
from logic_env.gym import known_generators, make_gym
from logic_env.houses import make_houses
from logic_env.islanders import make_islanders
from strop import Task, TaskSet

EVAL_COUNT = 240
_TRY_COUNT = 500
"""Questions that are drawn until one belongs to the split."""

_OWN = {"houses": make_houses, "islanders": make_islanders}
"""Our own puzzles."""


def procedural_tasks(
    generators: Sequence[str], level: int, curriculum_every: int, seed: int
) -> dict[str, TaskSet]:
    """An infinite ``train`` and a finite ``eval``; no question is in both.

    Raises:
        ValueError: There is no such generator.
    """
    names = _names(generators)

    def make(index: int, rng: random.Random, *, is_eval: bool) -> Task:
        risen = 0 if is_eval or not curriculum_every else index // curriculum_every
        name, wanted = names[index % len(names)], min(level + risen, 3)
        draw = _OWN[name] if name in _OWN else partial(make_gym, name)
        for _ in range(_TRY_COUNT):
            question, answer, details = draw(rng, wanted)
            # The question itself decides, so that the splits go on without end and never meet.
            if answer and is_eval == (sha256(question.encode()).digest()[0] % 3 == 0):
                return Task("", question, answer, {"generator": name, "level": wanted, **details})
        raise ValueError(f"{name} has too few questions at level {wanted}. Choose another level.")

    return {
        "train": TaskSet.generate(partial(make, is_eval=False), seed=seed),
        "eval": TaskSet.generate(partial(make, is_eval=True), EVAL_COUNT, seed=seed),
    }


def _names(generators: Sequence[str]) -> list[str]:
    groups = {"own": [*_OWN], "logic": [*_OWN, *FACTS["logic"]]}
    if not set(generators) <= {*groups, *groups["logic"]}:
        groups["all"] = [*_OWN, *known_generators()]
    names = [each for name in generators for each in groups.get(name, [name])]
    for name in names:
        if name not in groups.get("all", groups["logic"]):
            reason = FACTS["excluded"].get(name, "there is no such generator")
            raise ValueError(f"{name!r} cannot be played: {reason}. Take own, logic, all or names.")
    return list(dict.fromkeys(names))
