"""Files that grow by whole lines and survive `kill -9` (step: rollout)."""

from __future__ import annotations

import fcntl
import os
from dataclasses import dataclass
from pathlib import Path

from strop.errors import TrajectoryFileError


@dataclass(frozen=True, slots=True)
class TornLine:
    """A last line whose end is missing: its writer was killed."""

    path: Path
    line_number: int
    """From 1."""
    size_bytes: int


class LineFile:
    """Appends lines, each with one `write`; finished ones are never touched again.

    A torn last line of an earlier writer is cut off when the file is opened. One writer at a
    time: a second one is refused.
    """

    def __init__(self, path: Path, *, has_fsync: bool = False) -> None:
        """Open a file, or make it.

        Args:
            path: Of the file.
            has_fsync: Whether each line is on the disk before the next one.

        Raises:
            TrajectoryFileError: Another writer has it.
        """
        self.path = path
        self._has_fsync = has_fsync
        self._file = os.open(path, os.O_RDWR | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o644)
        try:
            self._lock()
            self._cut_torn_line()
        except BaseException:
            os.close(self._file)
            raise

    def append(self, line: bytes) -> None:
        """Append one line, its end included.

        Raises:
            OSError: The disk is full or the file is gone; nothing of the line stays.
        """
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
