"""Which trajectory files a path means, and how single lines of them are found again."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from strop.errors import TrajectoryFileError
from strop.evaluation import TRAJECTORIES_NAME
from strop.trajectory import Trajectory
from strop.trajectory_file import TornLine
from strop.trajectory_json import decode_line


@dataclass(frozen=True, slots=True)
class Place:
    """Where a trajectory stands."""

    path: Path
    offset_bytes: int

    def read(self) -> Trajectory:
        """The trajectory."""
        with self.path.open("rb") as lines:
            lines.seek(self.offset_bytes)
            return decode_line(lines.readline())


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
    """Every trajectory of a file with its place; a torn last line comes as such.

    Raises:
        TrajectoryFileError: A line is whole but no trajectory.
    """
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
            yield Place(path, offset_bytes), trajectory
            offset_bytes += len(line)
