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


def _is_packed(text: str) -> bool:
    try:
        return len(b64decode(text, validate=True)) % _ITEM_BYTES == 0
    except Base64Error:
        return False
