r"""Numbers as people and models write them, and their equality (step: reward).

Everything is exact: ``0.1``, ``1/10``, ``10%`` and ``\frac{1}{10}`` are one number.
"""

from __future__ import annotations

import re
from fractions import Fraction

from strop.errors import RewardError
from strop.reward_function import Reward
from strop.rewards.text import Extract, reference_texts
from strop.trajectory import Trajectory

_MAX_CHARS = 400
"""Of one number: longer ones are nonsense, and exact arithmetic on them is slow."""

_DECIMAL = r"(?:[0-9]{1,3}(?:(?:,|\{,\})[0-9]{3})+(?![0-9])|[0-9]+)(?:\.[0-9]+)?|\.[0-9]+"
_NUMBER = re.compile(
    rf"""
    (?<![\w.])
    (?P<sign>[-+]?)
    (?P<currency>\\?[$£€¥])?
    (?:
      \\[dt]?frac\{{(?P<upper>-?(?:{_DECIMAL}))\}}\{{(?P<lower>{_DECIMAL})\}}
    | (?P<decimal>{_DECIMAL})
      (?:[eE](?P<exponent>[-+]?[0-9]{{1,3}})(?!\w))?
      (?:[ ]?/[ ]?(?P<divisor>{_DECIMAL}))?
    )
    (?P<percent>[ ]?\\?%)?
    """,
    re.VERBOSE | re.ASCII,
)
# Minus signs, hyphens and dashes that stand for a minus; full-width digits stay what they are.
_SIGNS = str.maketrans({"\u2212": "-", "\u2010": "-", "\u2011": "-", "\u2013": "-", "\ufe63": "-"})
_SPACES = str.maketrans({"\u00a0": " ", "\u202f": " ", "\u2009": " "})


def numeric(
    *,
    absolute: float = 0.0,
    relative: float = 0.0,
    ignore_percent: bool = False,
    extract: Extract | None = None,
    name: str = "numeric",
    weight: float = 1.0,
) -> Reward:
    """1 when the last number of the last completion is the task's reference, else 0.

    Args:
        absolute: Largest difference allowed, ≥ 0.
        relative: Largest difference allowed as a share of the reference, ≥ 0; the wider of
            the two counts.
        ignore_percent: Whether ``25%`` is 25; by default it is a quarter.
        extract: Takes the answer out of the text; the last number of the answer counts.
        name: Of the reward function, where an environment has two of them.
        weight: Factor in the weighted sum.

    Raises:
        ValueError: A tolerance is negative or no number.
    """
    allowed = tuple(_tolerance(name, value) for name, value in _named(absolute, relative))

    def is_equal_number(trajectory: Trajectory) -> float:
        references = _references(trajectory, ignore_percent=ignore_percent)
        answer = trajectory.text if extract is None else extract(trajectory.text)
        number = None if answer is None else last_number(answer, ignore_percent=ignore_percent)
        if number is None:
            return 0.0
        return float(any(_is_close(number, reference, *allowed) for reference in references))

    return Reward(is_equal_number, name, weight, (0, 1), is_inline=True)


def parse_number(text: str, *, ignore_percent: bool = False) -> Fraction | None:
    """The number that `text` is, from end to end; None when it is none."""
    cleaned = _clean(text).strip().rstrip(".")
    match = _NUMBER.fullmatch(cleaned) if len(cleaned) <= _MAX_CHARS else None
    return None if match is None else _value(match, ignore_percent=ignore_percent)


def last_number(text: str, *, ignore_percent: bool = False) -> Fraction | None:
    """The last number that stands in `text`; None when there is none."""
    last = None
    for match in _NUMBER.finditer(_clean(text)):
        last = match
    return None if last is None else _value(last, ignore_percent=ignore_percent)


def _clean(text: str) -> str:
    return text.translate(_SIGNS).translate(_SPACES)


def _value(match: re.Match[str], *, ignore_percent: bool) -> Fraction | None:
    if match.end() - match.start() > _MAX_CHARS:
        return None
    part = match.groupdict()
    value = _fraction(part["upper"] or part["decimal"])
    divisor = _fraction(part["lower"] or part["divisor"] or "1")
    if divisor == 0:
        return None
    value *= Fraction(10) ** int(part["exponent"] or 0)
    value /= divisor
    if part["percent"] and not ignore_percent:
        value /= 100
    return -value if part["sign"] == "-" else value


def _fraction(text: str) -> Fraction:
    return Fraction(text.replace("{,}", "").replace(",", ""))


def _references(trajectory: Trajectory, *, ignore_percent: bool) -> list[Fraction]:
    numbers = []
    for text in reference_texts(trajectory.task):
        number = parse_number(text, ignore_percent=ignore_percent)
        if number is None:
            raise RewardError(
                f"The reference of task {trajectory.task.key!r} is {text!r:.80}, which is no "
                "number. Give one, or use another reward function."
            )
        numbers.append(number)
    return numbers


def _is_close(
    number: Fraction, reference: Fraction, absolute: Fraction, relative: Fraction
) -> bool:
    return abs(number - reference) <= max(absolute, relative * abs(reference))


def _named(absolute: float, relative: float) -> tuple[tuple[str, float], ...]:
    return ("absolute", absolute), ("relative", relative)


def _tolerance(name: str, value: float) -> Fraction:
    # By its written form: the tolerance 0.1 is a tenth, not the nearest binary number.
    tolerance = parse_number(repr(value))
    if tolerance is None or tolerance < 0:
        raise ValueError(f"{name} is {value!r}. A tolerance is a number that is at least 0.")
    return tolerance
