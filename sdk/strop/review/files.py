"""Which trajectory files a path means."""

from __future__ import annotations

from pathlib import Path

from strop.errors import TrajectoryFileError
from strop.evaluation import TRAJECTORIES_NAME


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
