"""Files of trajectories, one JSON line each, that survive `kill -9` (step: rollout)."""

from __future__ import annotations

import fcntl
import os
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Self

from strop.errors import TrajectoryFileError
from strop.trajectory import Trajectory
from strop.trajectory_json import decode_line, encode_line


@dataclass(frozen=True, slots=True)
class TornLine:
    """A last line whose end is missing: its writer was killed."""

    path: Path
    line_number: int
    """From 1."""
    size_bytes: int


@dataclass(slots=True)
class TrajectoryReader:
    """Reads a file line by line; what it cannot read it says.

    Iteration raises `TrajectoryFileError` at a line that is whole but no trajectory. A torn last
    line ends it and is found in `torn` afterwards.
    """

    path: Path
    torn: TornLine | None = field(default=None, init=False)

    def __iter__(self) -> Iterator[Trajectory]:
        self.torn = None
        # Binary lines end at "\n" only; text mode would also cut at U+2028 and its like.
        with self.path.open("rb") as lines:
            for number, line in enumerate(lines, start=1):
                if not line.endswith(b"\n"):
                    self.torn = TornLine(self.path, number, len(line))
                    return
                try:
                    yield decode_line(line)
                except TrajectoryFileError as error:
                    raise TrajectoryFileError(f"{self.path}, line {number}: {error}") from error


def read_trajectories(path: Path) -> list[Trajectory]:
    """All trajectories of a file.

    Raises:
        TrajectoryFileError: A line is no trajectory, or the last one is torn.
    """
    reader = TrajectoryReader(path)
    trajectories = list(reader)
    if reader.torn is not None:
        raise TrajectoryFileError(
            f"{path}, line {reader.torn.line_number} is torn: its writer was killed. "
            "Resume the run, which writes that attempt again."
        )
    return trajectories


class TrajectoryWriter:
    """Appends trajectories, each with one `write`; finished lines are never touched again.

    A torn last line of an earlier writer is cut off when the file is opened. One writer at a
    time: a second one is refused.
    """

    def __init__(self, path: Path, *, has_fsync: bool = False, has_reference: bool = True) -> None:
        self.path = path
        self._has_fsync = has_fsync
        self._has_reference = has_reference
        self._file = os.open(path, os.O_RDWR | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o644)
        try:
            self._lock()
            self._cut_torn_line()
        except BaseException:
            os.close(self._file)
            raise

    def write(self, trajectory: Trajectory) -> None:
        """Append one line.

        Raises:
            OSError: The disk is full or the file is gone; nothing of the line stays.
        """
        line = encode_line(trajectory, has_reference=self._has_reference)
        start = os.lseek(self._file, 0, os.SEEK_END)
        try:
            written = os.write(self._file, line)
            while written < len(line):
                written += os.write(self._file, line[written:])
        except BaseException:
            # An interrupt between two parts must not leave half a line before the next one.
            os.ftruncate(self._file, start)
            raise
        if self._has_fsync:
            os.fsync(self._file)

    def close(self) -> None:
        """Close the file; a second call does nothing."""
        if self._file >= 0:
            os.close(self._file)
            self._file = -1

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _lock(self) -> None:
        try:
            fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            raise TrajectoryFileError(
                f"{self.path} is being written by another run. "
                "Wait for it, or choose another folder."
            ) from error

    def _cut_torn_line(self) -> None:
        size = os.fstat(self._file).st_size
        end = size
        while end > 0:
            start = max(0, end - 65536)
            newline = os.pread(self._file, end - start, start).rfind(b"\n")
            if newline >= 0:
                end = start + newline + 1
                break
            end = start
        if end < size:
            os.ftruncate(self._file, end)
