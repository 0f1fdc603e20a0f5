"""Members of compared groups on the disk until their group is whole (step: rollout)."""

from __future__ import annotations

import contextlib
from collections.abc import Container
from pathlib import Path

from strop.attempt import Attempt
from strop.blob_folder import BlobFolder
from strop.trajectory import Trajectory
from strop.trajectory_file import TrajectoryReader, TrajectoryWriter


class WaitingMembers:
    """A folder with one file for each group that still misses a member.

    A trajectory's line is written once, after its group was compared. Until then its members
    stand here, so that a run that is killed makes none of them again.
    """

    def __init__(
        self, folder: Path, *, has_fsync: bool = False, has_reference: bool = True
    ) -> None:
        """Use a folder, which is made when the first member comes."""
        self._folder = folder
        self._has_fsync = has_fsync
        self._has_reference = has_reference
        self._blobs = BlobFolder.beside(folder, has_fsync=has_fsync)

    def __bool__(self) -> bool:
        """Whether any group waits."""
        return self._folder.is_dir() and any(self._folder.iterdir())

    def read(self, finished: Container[Attempt]) -> dict[Attempt, Trajectory]:
        """The members of earlier runs that are in no file of results.

        Args:
            finished: Attempts whose lines are written already.
        """
        waiting: dict[Attempt, Trajectory] = {}
        for path in sorted(self._folder.glob("*.jsonl")):
            members = [t for t in TrajectoryReader(path, self._blobs) if t.attempt not in finished]
            if not members:
                # The run was killed after the last line, or within the first.
                path.unlink()
            waiting.update((member.attempt, member) for member in members)
        return waiting

    def keep(self, member: Trajectory) -> None:
        """Write a member that is scored on its own."""
        self._folder.mkdir(exist_ok=True)
        path = self._path(member.attempt)
        with TrajectoryWriter(
            path,
            has_fsync=self._has_fsync,
            has_reference=self._has_reference,
            blobs=self._blobs,
        ) as writer:
            writer.write(member)

    def drop(self, group: Attempt) -> None:
        """Forget a group whose lines are written."""
        self._path(group).unlink(missing_ok=True)

    def close(self) -> None:
        """Remove the folder when nothing waits any more."""
        with contextlib.suppress(OSError):
            self._folder.rmdir()

    def _path(self, attempt: Attempt) -> Path:
        # What a group shares is what its environment seed is made of.
        return self._folder / f"{attempt.environment_seed:016x}.jsonl"
