"""The generators of reasoning-gym, each with its own verifier, as a function of a seed."""

import json
import random
import re
import sys
from functools import cache, partial, partialmethod
from types import ModuleType
from typing import Any

from logic_env.facts import FACTS
from strop import Task

_HUGE = re.compile(r"(?<!\w)[\d._]+[eE][-+]?[\d_]{4}")
"""An exponent on which exact arithmetic would not end."""
_LARGEST = 1000
"""Of a sequence of numbers: its generator drops those that hold a larger one."""
_SHARED = random.Random()  # noqa: S311 - seeded for each task
"""What a generator draws from that would draw from the process's own source of chance."""


def known_generators() -> list[str]:
    """Names of all that can be asked for."""
    return sorted(set(_registries()[0]) - set(FACTS["excluded"]))


def make_gym(name: str, rng: random.Random, level: int) -> tuple[str, str, dict[str, Any]]:
    """The question, a right answer, and what its verification needs."""
    level, seed = sorted((level, *FACTS["levels"].get(name, (1, 3))))[1], rng.getrandbits(31)
    is_numbered = name in FACTS["numbered"]
    _SHARED.seed(seed)
    try:
        item = _fresh(name, level, seed)[0] if is_numbered else _generator(name, level)[seed]
    except RuntimeError:
        # It found none for this seed.
        return make_gym(name, rng, level)
    entry = json.loads(json.dumps(item, default=str))
    answer = entry["metadata"].get(FACTS["examples"].get(name), entry["answer"])
    text = answer if isinstance(answer, str) else json.dumps(answer)
    return entry.pop("question"), text, {"level": level, "verifier": "gym", "entry": entry}


def verify_gym(task: Task, answer: str) -> float:
    """What the generator's own verifier gives, 0 to 1; an answer that it cannot read gets 0."""
    details: dict[str, Any] = task.metadata
    name, entry = details["generator"], {**details["entry"], "question": task.prompt[-1].text}
    form = FACTS["forms"].get(FACTS["like"].get(name, name), FACTS["forms"]["others"])
    counts = [len(re.findall(r"\w+", text)) for text in (str(task.reference), answer)]
    is_more = name in FACTS["no_more_words"] and counts[0] < counts[1]
    if not re.fullmatch(form, answer) or is_more or len(answer) > 20_000 or _HUGE.search(answer):
        return 0.0
    entry = _as_tuples(entry) if name in FACTS["with_tuples"] else entry
    entry["metadata"] = {"target": 24, **entry["metadata"]}
    try:
        judge = _generator(FACTS["judges"].get(name, name), details["level"])
        return min(max(float(judge.score_answer(answer, entry)), 0.0), 1.0)
    except Exception:  # noqa: BLE001 - verifiers raise on what they cannot read
        return 0.0


@cache
def _generator(name: str, level: int) -> Any:
    return _fresh(name, level, 0)


def _fresh(name: str, level: int, seed: int) -> Any:
    generators, curricula = _registries()
    make, make_config = generators[name]
    if name in curricula and name not in FACTS["flat"]:
        curriculum = curricula[name]()
        curriculum.set_global_level(level - 1)
        return make(curriculum.generate_configuration({"seed": seed, "size": 1}))
    return make(make_config(seed=seed, size=1))


@cache
def _registries() -> tuple[dict[str, Any], dict[str, Any]]:
    # What one game alone needs would import a plotting library, which leaves a cache of fonts.
    cells: Any = sys.modules.setdefault("cellpylib", ModuleType("absent"))
    # The library takes long to import: only who plays it waits for it.
    import numpy as np
    import reasoning_gym as gym
    import reasoning_gym.induction.list_functions.generators

    if cells.__name__ == "absent":
        cells.init_simple2d = lambda *size: np.zeros((1, *size), int)
        cells.evolve2d, cells.game_of_life_rule = _evolved, None
        sys.modules.pop("cellpylib", None)
    _mend(gym)
    return gym.factory.DATASETS, gym.factory.CURRICULA


def _mend(gym: Any) -> None:
    """Replace names in its modules, which leaves every task as it is in some process.

    Sets are gone through in order, chance comes from the task's seed, nothing is printed, and
    sequences of numbers that would be dropped after minutes of arithmetic are dropped at once.
    """
    in_order = partial(sorted, key=str)
    gym.algebra.polynomial_multiplication.list = in_order
    gym.algorithmic.isomorphic_strings.list = gym.algorithmic.ransom_note.list = in_order
    gym.games.knight_swap.frozenset = lambda squares: tuple(sorted(squares))
    gym.algorithmic.word_ladder.set = type("InOrder", (dict,), {"add": dict.setdefault})
    gym.induction.list_functions.generators.random = _SHARED
    gym.games.tower_of_hanoi.print = gym.code.contrib.bfit.Compiler.Optimizer.print = "".format
    rule = gym.cognition.number_sequences.PatternRule
    rule.apply = partialmethod(_bounded, rule.apply)


def _bounded(rule: Any, apply: Any, *given: Any) -> Any:
    if abs(result := apply(rule, *given)) > _LARGEST:
        raise OverflowError
    return result


def _evolved(board: Any, timesteps: int, **_: Any) -> Any:
    """The game of life, as in the library that is not imported."""
    import numpy as np

    boards, near = [board[0]], (-1, 0, 1)
    while len(boards) < timesteps:
        around = sum(np.roll(boards[-1], (y, x), (0, 1)) for y in near for x in near)
        boards.append(1 * ((around == 3) | (boards[-1] * around == 4)))
    return boards


def _as_tuples(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _as_tuples(each) for key, each in value.items()}
    return tuple(map(_as_tuples, value)) if isinstance(value, list) else value
