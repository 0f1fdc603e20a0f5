"""Holds stamps against their schema and what it cannot say, line by line and against a file."""

from __future__ import annotations

import json
import math
from base64 import b64decode
from binascii import Error as Base64Error
from collections.abc import Iterator
from functools import cache
from importlib.resources import files
from typing import Any

from strop.review.schema import Problem, schema_problems
from strop.trajectory import Trajectory

_ITEM_BYTES = 4


@cache
def stamps_schema() -> dict[str, Any]:
    """The schema of one line, as in ``strop/stamps.schema.json``; not to be changed."""
    text = files("strop").joinpath("stamps.schema.json").read_text(encoding="ascii")
    schema: dict[str, Any] = json.loads(text)
    return schema


def stamp_problems(value: Any) -> Iterator[Problem]:
    """Everything that keeps a JSON value from being a line of stamps."""
    problems = schema_problems(value, stamps_schema())
    yield from problems
    if problems:
        return
    stamps = value["stamps"]
    for name, weight in stamps.get("loss_weights", {}).items():
        if not math.isfinite(weight):
            yield f"stamps.loss_weights.{name}", f"is {weight}, which is not finite"
    for index, advantage in enumerate(stamps.get("advantages", ())):
        where = f"stamps.advantages[{index}]"
        if isinstance(advantage, str):
            if not _is_packed(advantage):
                yield where, "is no base64 of 4-byte numbers"
        elif not math.isfinite(advantage):
            yield where, f"is {advantage}, which is not finite"


def count_problems(stamps: dict[str, Any], trajectory: Trajectory) -> Iterator[Problem]:
    """Where advantages are not as many as a trajectory's samples, or as the tokens of one.

    Args:
        stamps: Without other problems; fields are named from there.
        trajectory: What they stamp.
    """
    if "advantages" not in stamps:
        return
    advantages, samples = stamps["advantages"], trajectory.to_samples()
    if len(advantages) != len(samples):
        yield (
            "advantages",
            f"are {len(advantages)}, but `to_samples()` gives {len(samples)}. Give one for each "
            "sample, in that order",
        )
        return
    for index, (each, sample) in enumerate(zip(advantages, samples, strict=True)):
        token_count = len(sample.token_ids)
        count = len(b64decode(each)) // _ITEM_BYTES if isinstance(each, str) else token_count
        if count != token_count:
            yield (
                f"advantages[{index}]",
                f"holds {count} numbers, but the sample has {token_count} tokens. Give one for "
                "each of its `token_ids`, or a single number for all",
            )


def _is_packed(text: str) -> bool:
    try:
        return len(b64decode(text, validate=True)) % _ITEM_BYTES == 0
    except Base64Error:
        return False
