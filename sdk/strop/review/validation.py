"""Checks trajectory files line by line: the schema, then what the fields mean together."""

from __future__ import annotations

import hashlib
import json
from array import array
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO

from strop.review.meaning import meaning_problems
from strop.review.schema import schema_problems

MAX_LINE_BYTES = 256 * 2**20
"""Longer lines are told and passed over, so that memory stays bounded whatever the file."""

_PART_COUNT = 16


@dataclass(frozen=True, slots=True)
class Finding:
    """Something that is wrong in a file."""

    path: Path
    line_number: int
    """From 1."""
    field: str
    """Such as ``segments[2].parent``; empty for the line as a whole."""
    message: str

    def __str__(self) -> str:
        what = f"`{self.field}` {self.message}" if self.field else self.message
        return f"{self.path}, line {self.line_number}: {what}"


class Validator:
    """Checks one file; iteration gives findings as they come.

    Memory is bounded by the longest line, and grows by 8 bytes a line to find attempts that
    were made twice.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self.line_count = 0
        """Lines read so far."""
        self._attempts = array("Q")

    def __iter__(self) -> Iterator[Finding]:
        with self.path.open("rb") as lines:
            for line in _read_lines(lines):
                self.line_count += 1
                for field, message in self._check(line):
                    yield Finding(self.path, self.line_count, field, message)
        yield from self._doubled()

    def _check(self, line: bytes | None) -> list[tuple[str, str]]:
        self._attempts.append(0)
        if line is None:
            return [("", f"the line is longer than {MAX_LINE_BYTES} bytes")]
        if not line.endswith(b"\n"):
            return [("", "the line is torn: its writer was killed. Resume the run")]
        try:
            value = json.loads(line)
        except (ValueError, RecursionError) as error:
            return [("", f"the line is no JSON: {error}")]
        problems = schema_problems(value)
        if problems:
            return problems
        self._attempts[-1] = _identity(value["attempt"])
        return list(meaning_problems(value))

    def _doubled(self) -> Iterator[Finding]:
        # In parts, so that no more than a part of the attempts is in a dict at once.
        for part in range(_PART_COUNT):
            first: dict[int, int] = {}
            for number, identity in enumerate(self._attempts, start=1):
                if identity and identity % _PART_COUNT == part:
                    before = first.setdefault(identity, number)
                    if before != number:
                        message = f"is that of line {before}: the attempt stands there twice"
                        yield Finding(self.path, number, "attempt", message)


def _read_lines(lines: BinaryIO) -> Iterator[bytes | None]:
    while line := lines.readline(MAX_LINE_BYTES):
        if len(line) == MAX_LINE_BYTES and not line.endswith(b"\n"):
            while line and not line.endswith(b"\n"):
                line = lines.readline(2**20)
            yield None
        else:
            yield line


def _identity(attempt: dict[str, Any]) -> int:
    known = ("run_seed", "environment", "split", "task_key", "visit", "member")
    text = json.dumps([attempt[name] for name in known])
    return int.from_bytes(hashlib.sha256(text.encode("ascii")).digest()[:8], "big")
