"""Checks trajectory files line by line: the schema, then what the fields mean together."""

from __future__ import annotations

import hashlib
import json
from array import array
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO

from strop.blob_folder import BlobFolder
from strop.errors import TrajectoryFileError
from strop.review.meaning import meaning_problems
from strop.review.schema import Problem, schema_problems
from strop.review.stamps import count_problems, stamp_problems
from strop.stamp_file import stamps_path
from strop.trajectory_json import decode_line

MAX_LINE_BYTES = 256 * 2**20
"""Longer lines are told and passed over, so that memory stays bounded whatever the file."""

_PART_COUNT = 16
_UNREADABLE = -1
"""In place of where a line begins that has findings of its own."""


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

    Memory is bounded by the longest line or blob, and grows by 16 bytes a line to find attempts
    that were made twice, and the lines of those that were stamped; by more where stamps stand
    beside, and with each blob.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self.line_count = 0
        """Lines read so far."""
        self._attempts = array("Q")
        self._places = array("q")
        self._blobs = BlobFolder.beside(path)
        self._whole_blobs: set[tuple[str, int]] = set()

    def __iter__(self) -> Iterator[Finding]:
        place = 0
        with self.path.open("rb") as lines:
            for line in _read_lines(lines):
                self.line_count += 1
                problems = self._check(line)
                self._places.append(_UNREADABLE if problems else place)
                place = lines.tell()
                for field, message in problems:
                    yield Finding(self.path, self.line_count, field, message)
        yield from self._doubled()

    @property
    def stamps(self) -> StampValidator | None:
        """Checks the stamps beside, once the file itself was read; None where there are none."""
        path = stamps_path(self.path)
        if not path.exists():
            return None
        places = dict(zip(self._attempts, self._places, strict=True))
        return StampValidator(path, places, self.path)

    def _check(self, line: bytes | None) -> list[Problem]:
        self._attempts.append(0)
        value, problems = _parsed(line, "Resume the run")
        if problems:
            return problems
        problems = schema_problems(value)
        if problems:
            return problems
        self._attempts[-1] = _identity(value["attempt"])
        return [*meaning_problems(value), *self._blob_problems(value)]

    def _blob_problems(self, value: Any) -> Iterator[Problem]:
        for where, blob in _blobs(value):
            known = blob["digest"], blob["size_bytes"]
            if known in self._whole_blobs:
                continue
            try:
                self._blobs.read(blob)
            except TrajectoryFileError as error:
                yield where, f"is lost. {error}"
            else:
                self._whole_blobs.add(known)

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


class StampValidator:
    """Checks the stamps beside a file of trajectories; iteration gives findings as they come."""

    def __init__(self, path: Path, places: Mapping[int, int], trajectories: Path) -> None:
        """Prepare; `places` says by attempt where in `trajectories` its line begins."""
        self.path = path
        self.line_count = 0
        """Lines read so far."""
        self._places = places
        self._trajectories = trajectories

    def __iter__(self) -> Iterator[Finding]:
        with self.path.open("rb") as lines:
            for line in _read_lines(lines):
                self.line_count += 1
                for field, message in self._check(line):
                    yield Finding(self.path, self.line_count, field, message)

    def _check(self, line: bytes | None) -> list[Problem]:
        value, problems = _parsed(line, "The next writer cuts it off")
        problems = problems or list(stamp_problems(value))
        if problems:
            return problems
        place = self._places.get(_identity(value["attempt"]))
        if place is None:
            return [("attempt", "is that of no trajectory in the file beside")]
        return list(self._count_problems(value["stamps"], place))

    def _count_problems(self, stamps: dict[str, Any], place: int) -> Iterator[Problem]:
        if place == _UNREADABLE or "advantages" not in stamps:
            return
        with self._trajectories.open("rb") as lines:
            lines.seek(place)
            trajectory = decode_line(lines.readline(MAX_LINE_BYTES))
        for field, message in count_problems(stamps, trajectory):
            yield f"stamps.{field}", message


def _blobs(value: dict[str, Any]) -> Iterator[tuple[str, dict[str, Any]]]:
    """The blobs that a trajectory's parts name, and where."""
    places = [("task.prompt", value["task"]["prompt"])]
    places += [(f"segments[{n}].messages", s["messages"]) for n, s in enumerate(value["segments"])]
    for where, messages in places:
        for number, message in enumerate(messages):
            parts = message["content"] if isinstance(message["content"], list) else ()
            for place, part in enumerate(parts):
                if "blob" in part:
                    yield f"{where}[{number}].content[{place}].blob", part["blob"]


def _parsed(line: bytes | None, remedy: str) -> tuple[Any, list[Problem]]:
    if line is None:
        return None, [("", f"the line is longer than {MAX_LINE_BYTES} bytes")]
    if not line.endswith(b"\n"):
        return None, [("", f"the line is torn: its writer was killed. {remedy}")]
    try:
        return json.loads(line), []
    except (ValueError, RecursionError) as error:
        return None, [("", f"the line is no JSON: {error}")]


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
