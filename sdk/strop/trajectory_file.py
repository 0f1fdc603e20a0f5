"""Files of trajectories, one JSON line each, that survive `kill -9` (step: rollout)."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Self

from strop.blob_folder import BlobFolder
from strop.errors import TrajectoryFileError
from strop.line_file import LineFile, TornLine
from strop.trajectory import Trajectory
from strop.trajectory_json import decode_line, encode_line


@dataclass(slots=True)
class TrajectoryReader:
    """Reads a file line by line; what it cannot read it says.

    Iteration raises `TrajectoryFileError` at a line that is whole but no trajectory. A torn last
    line ends it and is found in `torn` afterwards.
    """

    path: Path
    blobs: BlobFolder | None = None
    """Where large images and sounds are; None means the folder beside."""
    has_blobs: bool = field(default=True, kw_only=True)
    """Whether they are read; without, such parts are known by their digest alone."""
    torn: TornLine | None = field(default=None, init=False)

    def __iter__(self) -> Iterator[Trajectory]:
        self.torn = None
        blobs = (self.blobs or BlobFolder.beside(self.path)) if self.has_blobs else None
        # Binary lines end at "\n" only; text mode would also cut at U+2028 and its like.
        with self.path.open("rb") as lines:
            for number, line in enumerate(lines, start=1):
                if not line.endswith(b"\n"):
                    self.torn = TornLine(self.path, number, len(line))
                    return
                try:
                    yield decode_line(line, blobs)
                except TrajectoryFileError as error:
                    raise TrajectoryFileError(f"{self.path}, line {number}: {error}") from error


def read_trajectories(path: Path) -> list[Trajectory]:
    """All trajectories of a file.

    Raises:
        TrajectoryFileError: A line is no trajectory, the last one is torn, or a blob is missing.
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
    time: a second one is refused. Large images and sounds are kept in the folder ``blobs``
    beside, each once, and the line has their digests.
    """

    def __init__(
        self,
        path: Path,
        *,
        has_fsync: bool = False,
        has_reference: bool = True,
        blobs: BlobFolder | None = None,
    ) -> None:
        self.path = path
        self._has_reference = has_reference
        self._blobs = blobs or BlobFolder.beside(path, has_fsync=has_fsync)
        self._lines = LineFile(path, has_fsync=has_fsync)

    def write(self, trajectory: Trajectory) -> None:
        """Append one line.

        Raises:
            OSError: The disk is full or the file is gone; nothing of the line stays.
        """
        # Blobs are kept first: one that no line names harms nobody.
        line = encode_line(trajectory, has_reference=self._has_reference, blobs=self._blobs)
        self._lines.append(line)

    def close(self) -> None:
        """Close the file; a second call does nothing."""
        self._lines.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
