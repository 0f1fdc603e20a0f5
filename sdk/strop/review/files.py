"""Which trajectory files a path means, and how single lines of them are found again."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from strop.blob_folder import BlobFolder
from strop.errors import TrajectoryFileError
from strop.evaluation import TRAJECTORIES_NAME
from strop.line_file import TornLine
from strop.stamp_file import Stamps
from strop.trajectory import Trajectory
from strop.trajectory_json import decode_line


@dataclass(frozen=True, slots=True)
class Place:
    """Where a trajectory stands."""

    path: Path
    offset_bytes: int
    stamps: Stamps = field(repr=False, compare=False)
    """Those of its file."""

    def read(self, *, has_blobs: bool = False) -> Trajectory:
        """The trajectory, with what it was stamped with later.

        Args:
            has_blobs: Whether its large images and sounds are read.

        Raises:
            TrajectoryFileError: One of them is missing or damaged.
        """
        blobs = BlobFolder.beside(self.path) if has_blobs else None
        with self.path.open("rb") as lines:
            lines.seek(self.offset_bytes)
            return self.stamps.joined(decode_line(lines.readline(), blobs))


def has_blobs(trajectory: Trajectory) -> bool:
    """Whether parts of it were left beside its file."""
    messages = [*trajectory.task.prompt, *(m for s in trajectory.segments for m in s.messages)]
    return any(
        part.url is None and part.digest is not None
        for message in messages
        if not isinstance(message.content, str)
        for part in message.content
    )


def find_files(path: Path) -> list[Path]:
    """The file itself; of a folder its ``trajectories.jsonl``, or else those of its subfolders.

    Raises:
        TrajectoryFileError: There is none.
    """
    if not path.exists():
        raise TrajectoryFileError(f"{path} does not exist. Name a file of trajectories, or a run.")
    if not path.is_dir():
        return [path]
    own = path / TRAJECTORIES_NAME
    found = [own] if own.is_file() else sorted(path.glob(f"**/{TRAJECTORIES_NAME}"))
    if not found:
        raise TrajectoryFileError(
            f"{path} holds no {TRAJECTORIES_NAME}. Name a file, or the folder given to --out."
        )
    return found


def read_places(path: Path) -> Iterator[tuple[Place, Trajectory] | TornLine]:
    """Every trajectory of a file with its place and later stamps; a torn last line comes as such.

    Large images and sounds are known by their digest alone: `Place.read` reads them.

    Raises:
        TrajectoryFileError: A line is whole, and neither trajectory nor stamps.
    """
    stamps = Stamps(path)
    if stamps.torn is not None:
        yield stamps.torn
    offset_bytes = 0
    with path.open("rb") as lines:
        for number, line in enumerate(lines, start=1):
            if not line.endswith(b"\n"):
                yield TornLine(path, number, len(line))
                return
            try:
                trajectory = decode_line(line)
            except TrajectoryFileError as error:
                raise TrajectoryFileError(
                    f"{path}, line {number}: {error} See `strop trajectory validate`."
                ) from error
            yield Place(path, offset_bytes, stamps), stamps.joined(trajectory)
            offset_bytes += len(line)
