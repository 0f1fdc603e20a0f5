"""The generators of reasoning-gym, each with its own verifier, as a function of a seed."""

import json
import random
import re
import sys
from functools import cache
from types import ModuleType
from typing import Any

from logic_env.facts import FACTS
from strop import Task

_HUGE = re.compile(r"(?<!\w)[\d._]+[eE][-+]?[\d_]{4}")
"""An exponent on which exact arithmetic would not end."""


def known_generators() -> list[str]:
    """Names of all that can be asked for."""
    return sorted(set(_registries()[0]) - set(FACTS["excluded"]))


def make_gym(name: str, rng: random.Random, level: int) -> tuple[str, str, dict[str, Any]]:
    """The question, a right answer, and what its verification needs."""
    low, high = FACTS["levels"].get(name, (1, 3))
    level, seed = min(max(level, low), high), rng.getrandbits(31)
    is_numbered = name in FACTS["numbered"]
    item = _fresh(name, level, seed)[0] if is_numbered else _generator(name, level)[seed]
    entry = json.loads(json.dumps(item, default=str))
    question, answer = entry.pop("question"), entry["answer"]
    if answer is None:
        answer = entry["metadata"][FACTS["examples"][name]]
    text = answer if isinstance(answer, str) else json.dumps(answer)
    return question, text, {"level": level, "verifier": "gym", "entry": entry}


def verify_gym(task: Task, answer: str) -> float:
    """What the generator's own verifier gives, 0 to 1; an answer that it cannot read gets 0."""
    details: dict[str, Any] = task.metadata
    name, entry = details["generator"], {**details["entry"], "question": task.prompt[-1].text}
    allowed = re.fullmatch(FACTS["evaluated"].get(name, "(?s:.*)"), answer)
    if allowed is None or len(answer) > 20_000 or _HUGE.search(answer):
        return 0.0
    if name in FACTS["with_tuples"]:
        entry = _as_tuples(entry)
    try:
        verdict = _generator(name, details["level"]).score_answer(answer, entry)
    except Exception:  # noqa: BLE001 - verifiers raise on what they cannot read
        return 0.0
    return min(max(float(verdict), 0.0), 1.0)


@cache
def _generator(name: str, level: int) -> Any:
    return _fresh(name, level, 0)


def _fresh(name: str, level: int, seed: int) -> Any:
    generators, curricula = _registries()
    make, make_config = generators[name]
    if name in curricula:
        curriculum = curricula[name]()
        curriculum.set_global_level(level - 1)
        return make(curriculum.generate_configuration({"seed": seed, "size": 1}))
    return make(make_config(seed=seed, size=1))


def _registries() -> tuple[dict[str, Any], dict[str, Any]]:
    # What one game alone needs would import a plotting library, which leaves a cache of fonts.
    absent = sys.modules.setdefault("cellpylib", ModuleType("absent"))
    # The library takes long to import: only who plays it waits for it.
    from reasoning_gym.factory import CURRICULA, DATASETS

    if absent.__name__ == "absent":
        sys.modules.pop("cellpylib", None)
    return DATASETS, CURRICULA


def _as_tuples(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _as_tuples(each) for key, each in value.items()}
    return tuple(map(_as_tuples, value)) if isinstance(value, list) else value
