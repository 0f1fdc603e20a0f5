"""Numbers with units as people and models write them, and their equality (step: reward).

The text is never evaluated: a grammar of its own takes numbers and powers of units apart, and
`pint` only says what each unit is. So the time is bounded, whatever a model wrote.
"""

from __future__ import annotations

import importlib.util
import math
import re
from dataclasses import dataclass
from functools import cache, lru_cache
from typing import TYPE_CHECKING

from strop.errors import EnvironmentLoadError, RewardError
from strop.reward_function import Reward
from strop.rewards.boxed import boxed_answer
from strop.rewards.number import parse_number
from strop.rewards.text import Extract, reference_texts
from strop.trajectory import Trajectory

if TYPE_CHECKING:
    from pint import UnitRegistry

_MAX_CHARS = 160
_MAX_FACTORS = 8

_SUPERSCRIPTS = str.maketrans("⁰¹²³⁴⁵⁶⁷⁸⁹⁻⁺", "0123456789-+")
_RAISED = re.compile("[⁰¹²³⁴⁵⁶⁷⁸⁹⁻⁺]+")
_LATEX = (
    (re.compile(r"\\(?:text|mathrm|mathit|rm|operatorname)(?![A-Za-z])\s*"), ""),
    (re.compile(r"\\(?:left|right|displaystyle)(?![A-Za-z])|\\?\$"), ""),
    (re.compile(r"\\[,;:! ]|~|\\(?:quad|qquad)(?![A-Za-z])"), " "),
    (re.compile(r"\\[dt]?frac\s*\{([^{}]*|\{[^{}]*\})\}\s*\{([^{}]*|\{[^{}]*\})\}"), r"(\1)/(\2)"),
    (re.compile(r"\\(?:times|cdot)(?![A-Za-z])|[\u00d7\u22c5]"), "·"),
    (re.compile(r"\^?\s*\{?\\(?:circ|degree)(?![A-Za-z])\s*\}?"), "°"),
    (re.compile(r"\\mu(?![A-Za-z])\s*"), "µ"),
    (re.compile(r"\\(?:Omega|ohm)(?![A-Za-z])|\u2126"), "Ω"),
    (re.compile(r"\\%"), "%"),
    (re.compile(r"[\u2212\u2013]"), "-"),
    (re.compile(r"[\u00a0\u2009\u202f]"), " "),
    (re.compile(r"[{}]"), ""),
    (re.compile(r"(?:deg(?:ree)?s?|°) *(?=[CF](?![A-Za-z]))"), "°"),
    (re.compile("\u2103"), "°C"),
    (re.compile(r"degrees? +(?=[Cc]elsius|[Ff]ahrenheit)"), ""),
    (re.compile(r"\(([0-9]+)\)/\(([0-9]+)\)"), r"\1/\2"),
)
_POWER_OF_TEN = re.compile(
    r"(?<=[0-9])\s*[·*x]\s*10\s*(?:\^|\*\*)\s*\(?([-+]?[0-9]{1,3})\)?(?![0-9])"
)
_BARE_POWER_OF_TEN = re.compile(r"^([-+]?)10\s*(?:\^|\*\*)\s*\(?([-+]?[0-9]{1,3})\)?(?![0-9])")
_LABEL = re.compile(r"^[^=≈0-9]{1,30}[=≈]\s*|^[≈~]\s*")
_VALUE = re.compile(
    r"([-+]?(?:[0-9][0-9,]*(?:\.[0-9]+)?|\.[0-9]+)(?:[eE][-+]?[0-9]{1,3}|/[0-9]+)?)\s*(.*)"
)
_TOKEN = re.compile(
    r"""\s*(?:
      (?P<mark>[()/·*.]|-(?=[A-Za-zµμΩÅ°])|per(?![A-Za-z]))
    | (?P<one>1)(?=\s*/)
    | (?P<name>[A-Za-zµμΩÅ°%]{1,24})
      (?:(?:\^|\*\*)?\(?(?P<power>[-+]?[1-9])\)?(?![0-9]))?
    )\s*""",
    re.VERBOSE,
)
_NAMES = {
    "°C": "degC",
    "°F": "degF",
    "°": "degree",
    "%": "percent",
    "celsius": "degC",
    "amp": "ampere",
    "amps": "ampere",
    "Ohm": "ohm",
}
_PRODUCT = re.compile(
    r"""(?: (?:[kmM]?N|kg|Ω)(?=m)
          | (?:[kmM]?(?:N|Pa)|[VAWJ])(?=s)
          | (?:k?g|mol)(?=[K°]) )(?P<last>m|s|K|°[CF])""",
    re.VERBOSE,
)
"""Two units without anything between them; ``Nm`` is no yarn's number of metres, as in `pint`."""
_TEMPERATURES = ("K", "°C", "°F")
_OFFSET = {"degC": "delta_degC", "degF": "delta_degF", "celsius": "delta_degC"}

Factors = tuple[tuple[str, int], ...]


@dataclass(frozen=True, slots=True)
class Unit:
    """A unit as a scale: ``base value = factor * value + offset``."""

    base: str
    """Its base units; an angle has radians, and is no plain number."""
    factor: float
    offset: float = 0.0


@dataclass(frozen=True, slots=True)
class Quantity:
    """A number and its unit."""

    value: float
    unit: Unit

    @property
    def base_value(self) -> float:
        """In base units, such as kelvins for degrees Celsius."""
        return self.value * self.unit.factor + self.unit.offset

    def value_in(self, unit: Unit) -> float:
        """In another unit of the same base."""
        return (self.base_value - unit.offset) / unit.factor

    def is_close(self, reference: Quantity, tolerance: float) -> bool:
        """Whether it is of the reference's kind, and as close as the share of it allows."""
        if self.unit.base != reference.unit.base:
            return False
        allowed = tolerance * abs(reference.value)
        return math.isclose(
            self.value_in(reference.unit), reference.value, rel_tol=1e-12, abs_tol=allowed
        )


def quantity(
    *,
    tolerance: float = 0.01,
    extract: Extract | None = None,
    name: str = "quantity",
    weight: float = 1.0,
) -> Reward:
    r"""1 when the answer is the task's reference as a quantity, in whatever unit, else 0.

    ``54 km/h`` is ``15 m/s``; without its unit, or with one of another kind, it is wrong. Needs
    the extra ``units``.

    Args:
        tolerance: Largest difference as a share of the reference, in the reference's unit; ≥ 0.
        extract: Takes the answer out of the text; by default `boxed_answer`. None gets 0.
        name: Of the reward function, where an environment has two of them.
        weight: Factor in the weighted sum.

    Raises:
        EnvironmentLoadError: The extra ``units`` is not installed.
        ValueError: The tolerance is negative or no number.
    """
    if importlib.util.find_spec("pint") is None:
        raise EnvironmentLoadError(
            "quantity needs pint, which is not installed: pip install 'strop[units]'"
        )
    if not tolerance >= 0:
        raise ValueError(f"tolerance is {tolerance!r}. A tolerance is a number that is at least 0.")
    find = extract or boxed_answer

    def is_same_quantity(trajectory: Trajectory) -> float:
        references = [_reference(trajectory, text) for text in reference_texts(trajectory.task)]
        given = parse_quantity(find(trajectory.text) or "")
        return float(given is not None and any(given.is_close(r, tolerance) for r in references))

    return Reward(is_same_quantity, name, weight, (0, 1), is_inline=True)


def parse_quantity(text: str) -> Quantity | None:
    r"""The quantity that a text is, from end to end, such as ``1.2 \times 10^3 m/s``; else None."""
    cleaned = _LABEL.sub("", plain_text(text)) if len(text) <= _MAX_CHARS else ""
    cleaned = _POWER_OF_TEN.sub(r"e\1", _BARE_POWER_OF_TEN.sub(r"\g<1>1e\2", cleaned.strip()))
    match = _VALUE.fullmatch(cleaned)
    number = None if match is None else parse_number(match[1])
    unit = None if match is None else parse_unit(match[2].rstrip(". "))
    if number is None or unit is None or abs(number) > 10**300:
        return None
    return Quantity(float(number), unit)


def plain_text(text: str) -> str:
    """A text without the LaTeX around its numbers, units and words."""
    text = _RAISED.sub(lambda match: "^" + match[0].translate(_SUPERSCRIPTS), text)
    for pattern, replacement in _LATEX:
        text = pattern.sub(replacement, text)
    return text.strip()


def parse_unit(text: str) -> Unit | None:
    """The unit that a text is, such as ``m/s^2`` or ``J/(kg K)``; nothing is the unit 1."""
    factors = _factors(text)
    return None if factors is None else _unit(factors)


def _reference(trajectory: Trajectory, text: str) -> Quantity:
    reference = parse_quantity(text)
    if reference is None:
        raise RewardError(
            f"The reference of task {trajectory.task.key!r} is {text!r:.80}, which is no quantity. "
            "Give a number and its unit, such as `9.81 m/s^2`."
        )
    return reference


def _factors(text: str) -> Factors | None:
    found: list[tuple[str, int]] = []
    place, sign, group, last_sign = 0, 1, 0, 1
    while place < len(text):
        token = _TOKEN.match(text, place)
        if token is None or len(found) == _MAX_FACTORS:
            return None
        place = token.end()
        if token["name"]:
            *others, last = _names(token["name"])
            # `J/g·K` means J/(g·K): nobody multiplies by a temperature there.
            if sign == 1 and last in _TEMPERATURES and not token["power"]:
                sign = last_sign
            found += [(name, sign * (group or 1)) for name in others]
            found.append((last, int(token["power"] or 1) * sign * (group or 1)))
            last_sign, sign = sign, 1
        elif token["mark"] == "(" and not group:
            sign, group, last_sign = 1, sign, 1
        elif token["mark"] == ")" and group:
            group, last_sign = 0, 1
        elif token["mark"] in ("/", "per") and sign == 1:
            sign = -1
        elif token["mark"] in ("(", ")", "/", "per"):
            return None
    return tuple(found) if sign == 1 and not group else None


def _names(name: str) -> list[str]:
    product = _PRODUCT.fullmatch(name)
    return [name] if product is None else [name.removesuffix(product["last"]), product["last"]]


@lru_cache(maxsize=4096)
def _unit(factors: Factors) -> Unit | None:
    from pint.errors import PintError

    registry = _registry()
    product = registry.Unit("")
    try:
        for name, power in factors:
            known = _known_name(name)
            # Alone it is a temperature, in a product a difference of temperatures.
            if factors != ((name, 1),):
                known = _OFFSET.get(known, known)
            product *= registry.parse_units(known) ** power
        zero, one = (registry.Quantity(value, product).to_base_units() for value in (0.0, 1.0))
        factor = float(one.magnitude - zero.magnitude)
    except (PintError, ArithmeticError, AttributeError, TypeError, ValueError):
        return None
    # Levels, such as decibels, are not proportional to anything.
    is_level = zero.magnitude != 0 and str(product) not in ("degree_Celsius", "degree_Fahrenheit")
    is_finite = math.isfinite(factor) and factor > 0
    return (
        Unit(str(one.units), factor, float(zero.magnitude)) if is_finite and not is_level else None
    )


def _known_name(name: str) -> str:
    registry = _registry()
    for spelling in (name, name.lower()) if len(name) > 3 else (name,):
        spelling = _NAMES.get(spelling, spelling)
        if spelling in registry:
            return spelling
    return name


@cache
def _registry() -> UnitRegistry[float]:
    from pint import UnitRegistry

    return UnitRegistry(cache_folder=None)
