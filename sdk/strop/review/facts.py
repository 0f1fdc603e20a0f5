"""What is told of an attempt in a line, in the terminal and on the page alike."""

from __future__ import annotations

import math
from typing import TypeGuard

from strop.models.outcome import USUAL, outcome_of
from strop.review.escaping import shorten
from strop.trajectory import Segment, Trajectory
from strop.types import Sampling

_LINE_CHARS = 400


def sampled_with(sampling: Sampling | None) -> str:
    """What a completion was drawn with; empty where nothing is known or was set."""
    if sampling is None:
        return ""
    facts: list[tuple[str, object]] = [
        ("temperature", sampling.temperature),
        ("top_p", sampling.top_p),
        ("max_tokens", sampling.max_tokens),
        ("stop", list(sampling.stop) or None),
        *sampling.extra.items(),
    ]
    told = (f"{name} {value}" for name, value in facts if value is not None)
    return shorten(", ".join(told), _LINE_CHARS)


def odd_outcome(segment: Segment) -> str:
    """Of a completion, what kind of reply it is; empty where that is nothing to be told."""
    outcome = outcome_of(segment)
    return "" if outcome in USUAL else outcome


def advantage_of(trajectory: Trajectory) -> float | None:
    """What a trainer stamped it with, on average over its samples; None where that is no number."""
    given = trajectory.stamps.get("advantages")
    if not isinstance(given, list) or not given:
        return None
    numbers = [each for each in given if _is_number(each)]
    return math.fsum(numbers) / len(numbers) if len(numbers) == len(given) else None


def turn_facts(trajectory: Trajectory) -> list[tuple[str, str]]:
    """Each function that rewards turns, with its values, how it counts and why it failed."""
    return [
        (
            f"turns: {name}",
            part.error or ""
            if part.values is None
            else f"{', '.join(f'{value:.4g}' for value in part.values)} (weight {part.weight:.4g})",
        )
        for name, part in trajectory.turn_values.items()
    ]


def _is_number(value: object) -> TypeGuard[int | float]:
    return isinstance(value, int | float) and not isinstance(value, bool)
