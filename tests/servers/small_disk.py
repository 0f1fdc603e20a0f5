"""A file system of a few megabytes, seen by one thread and its processes: none is left behind."""

import ctypes
import os
import shutil
import subprocess
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

_CLONE_NEWNS = 0x20000
_FILLER = "filler"
_FILLERS = "fillers"
_PIECE = bytes(4096)
_MOST_ENTRIES = 2000


def can_mount() -> bool:
    """Whether this user may mount file systems out of sight of everybody else."""
    unshare = shutil.which("unshare")
    return unshare is not None and not subprocess.run([unshare, "-m", "true"]).returncode


def on_small_disk(folder: Path, size_bytes: int, use: Callable[[], None]) -> None:
    """Run `use` in a thread for which a new folder is a file system of its own.

    The kernel takes it away with the thread and what that has started, however they end.

    Raises:
        OSError: This user may not.
        Exception: Whatever `use` raises.
    """
    folder.mkdir()
    with ThreadPoolExecutor(1) as thread:
        thread.submit(_mount, folder, size_bytes).result()
        thread.submit(use).result()


def fill(folder: Path) -> None:
    """Leave no space on the file system of `folder`, until `make_space`."""
    descriptor = os.open(folder / _FILLER, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    try:
        while True:
            os.write(descriptor, _PIECE)
    except OSError:
        return
    finally:
        os.close(descriptor)


def fill_entries(folder: Path) -> None:
    """Leave room for no further file or folder, though for bytes, until `make_space`."""
    fillers = folder / _FILLERS
    fillers.mkdir()
    try:
        for number in range(_MOST_ENTRIES):
            (fillers / str(number)).touch()
    except OSError:
        return
    raise AssertionError(f"{folder} takes more than {_MOST_ENTRIES} entries")


def make_space(folder: Path) -> None:
    """Take away what `fill` and `fill_entries` have put there."""
    (folder / _FILLER).unlink(missing_ok=True)
    shutil.rmtree(folder / _FILLERS, ignore_errors=True)


def _mount(folder: Path, size_bytes: int) -> None:
    if ctypes.CDLL(None, use_errno=True).unshare(_CLONE_NEWNS):
        raise OSError(ctypes.get_errno(), "no mount namespace of one's own")
    for command in (
        ["--make-rprivate", "/"],
        [
            "-t",
            "tmpfs",
            "-o",
            f"size={size_bytes},mode=777,nr_inodes={_MOST_ENTRIES}",
            "small",
            str(folder),
        ],
    ):
        subprocess.run(["mount", *command], check=True)
