"""Folders for uploads under way; whoever dies leaves one that the next start removes."""

import fcntl
import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from strop_hub.disk import named_faults
from strop_hub.publish.form import UPLOAD


@contextmanager
def staging_folder(uploads: Path) -> Iterator[Path]:
    """A folder of one upload, removed at the end whatever happens.

    It is locked while it is in use, by which `sweep` tells it from what a crash left behind.

    Raises:
        StorageFullError: No space is left for it.
        StorageUnavailableError: It cannot be made.
    """
    folder, lock = _make_locked(uploads)
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)
        os.close(lock)


def sweep(uploads: Path) -> int:
    """Remove what crashed processes left; gives how many folders that were."""
    removed = 0
    for folder in uploads.iterdir():
        lock = _lock(folder)
        if lock is None:
            continue
        shutil.rmtree(folder, ignore_errors=True)
        os.close(lock)
        removed += 1
    return removed


def _make_locked(uploads: Path) -> tuple[Path, int]:
    while True:
        with named_faults(UPLOAD):
            folder = Path(tempfile.mkdtemp(dir=uploads))
        lock = _lock(folder)
        # Another process that starts right now may have taken it for a remnant.
        if lock is not None and folder.is_dir():
            return folder, lock
        if lock is not None:
            os.close(lock)


def _lock(folder: Path) -> int | None:
    try:
        descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    except OSError:
        return None
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        os.close(descriptor)
        return None
    return descriptor
