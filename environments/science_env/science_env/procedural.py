"""Problems that are made up: physics and chemistry with units, of the kinds in `problems.toml`."""

import math
import random
import re
import tomllib
from collections import Counter
from functools import cache, partial
from hashlib import sha256
from importlib import resources
from typing import Any, Literal, cast

from strop import Task, TaskSet
from strop.rewards import parse_quantity
from strop.rewards.unit import Quantity, Unit

Topic = Literal["mixed", "mechanics", "circuits", "optics", "thermodynamics", "gases", "chemistry"]

LEVELS = range(1, 4)
EVAL_COUNT = 240
_EVAL_SHARE = 5
"""One problem of so many belongs to ``eval``."""
_GROUP = re.compile(r"\(([A-Za-z0-9]+)\)([0-9]+)")
_ELEMENT = re.compile(r"([A-Z][a-z]?)([0-9]*)")
_POWER_OF_TEN = re.compile(r"(?<=[0-9])e\+?(-?)0*(?=[0-9])")

Kind = dict[str, Any]


def procedural_tasks(level: int, topic: Topic, seed: int) -> dict[str, TaskSet]:
    """An infinite ``train`` and a finite ``eval``; no problem is in both.

    Raises:
        ValueError: The level does not exist.
    """
    if level not in LEVELS:
        raise ValueError(f"level is {level}. Choose {LEVELS[0]} to {LEVELS[-1]}.")
    kinds = [
        kind
        for kind in document()["kinds"]
        if kind["level"] <= level and topic in ("mixed", kind["topic"])
    ]

    def make(index: int, rng: random.Random, *, is_eval: bool) -> Task:
        kind = kinds[index % len(kinds)]
        while True:
            text, reference = make_problem(kind, rng, is_mixed=level > 1)
            # The text itself decides, so that both splits can be drawn without end and never meet.
            if (sha256(text.encode()).digest()[0] % _EVAL_SHARE == 0) == is_eval:
                return Task(str(index), text, reference, {"form": "quantity", "kind": kind["name"]})

    return {
        "train": TaskSet.generate(partial(make, is_eval=False), seed=seed),
        "eval": TaskSet.generate(partial(make, is_eval=True), EVAL_COUNT, seed=seed),
    }


def make_problem(kind: Kind, rng: random.Random, *, is_mixed: bool) -> tuple[str, str]:
    """Text and reference of a fresh problem.

    Args:
        kind: One of `problems.toml`.
        rng: Where its values come from.
        is_mixed: Whether values are shown in any of the units that the kind names for them.
    """
    shown: dict[str, object] = {}
    values = dict(_constants())
    for name, given in kind["given"].items():
        if isinstance(given, list):
            chosen = rng.choice(given)
            chosen = chosen if isinstance(chosen, dict) else {name: chosen}
            shown |= chosen
            values |= chosen
        else:
            quantity, shown[name] = _draw(given, rng, is_mixed=is_mixed)
            values[name] = quantity.base_value
    unit = _known(f"1 {kind['unit']}").unit
    base_value = answer_of(kind["answer"], values)
    value = Quantity(base_value, Unit(unit.base, 1.0)).value_in(unit)
    text: str = kind["text"].format(**document()["constants"], **shown)
    return text, f"{value:.6g} {kind['unit']}".strip()


def answer_of(formula: str, values: dict[str, Any]) -> Any:
    """The value of a formula of this package's own, in base units."""
    functions = vars(math) | {"molar_mass": molar_mass, "composition": composition, "min": min}
    # Formulas come from a file of this package; nothing that anybody else wrote gets here.
    return eval(formula, {"__builtins__": {}}, functions | values)  # noqa: S307


def composition(formula: str) -> Counter[str]:
    """How many atoms of each element a formula has, such as ``Ca(OH)2``."""
    flat = _GROUP.sub(lambda match: match[1] * int(match[2]), formula)
    counts: Counter[str] = Counter()
    for element, count in _ELEMENT.findall(flat):
        counts[element] += int(count or 1)
    return counts


def molar_mass(formula: str) -> float:
    """Of a formula, in kg/mol."""
    weights: dict[str, float] = document()["atomic_weights"]
    return sum(weights[element] * count for element, count in composition(formula).items()) / 1000


def _draw(given: str, rng: random.Random, *, is_mixed: bool) -> tuple[Quantity, str]:
    bounds, _, names = given.partition(" ")
    low, high = map(float, bounds.split(".."))
    units = [name.strip() for name in names.split(",")]
    first = Quantity(rng.uniform(low, high), _known(f"1 {units[0]}").unit)
    name = rng.choice(units) if is_mixed else units[0]
    unit = _known(f"1 {name}").unit
    # The reference is computed from what is shown, and not from what was drawn.
    text = f"{float(f'{first.value_in(unit):.3g}'):g}"
    told = _POWER_OF_TEN.sub(r" * 10^\1", f"{text} {name}".strip())
    return Quantity(float(text), unit), told


def _known(text: str) -> Quantity:
    return cast("Quantity", parse_quantity(text))


@cache
def _constants() -> dict[str, float]:
    return {name: _known(text).base_value for name, text in document()["constants"].items()}


@cache
def document() -> dict[str, Any]:
    """All of `problems.toml`."""
    text = resources.files("science_env").joinpath("problems.toml").read_text(encoding="utf-8")
    return tomllib.loads(text)
