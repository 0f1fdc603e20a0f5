"""What a disk refuses, told as it is: no space, a quota or a limit of size; or a fault."""

import errno
import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from strop_hub.errors import StorageFullError, StorageUnavailableError

FULL = {errno.ENOSPC, errno.EDQUOT, errno.EFBIG}
"""Space can be made for it: on the disk, within a quota, below a limit of a file's size."""

_PIECE_BYTES = 64 * 1024


@contextmanager
def named_faults(what: str) -> Iterator[None]:
    """Let the disk's refusals in the block name what was to be kept, and the cause.

    Raises:
        StorageFullError: There is no space for it.
        StorageUnavailableError: Whatever else the disk refuses.
    """
    try:
        yield
    except OSError as error:
        if error.errno in FULL:
            raise StorageFullError(
                f"no space is left on the hub's disk for {what} ({error.strerror}); nothing was "
                "kept. Ask the hub's operator for space, then repeat the request."
            ) from error
        raise StorageUnavailableError(f"the hub cannot keep {what}: {error.strerror}") from error


def takes_no_more(*files: Path) -> bool:
    """Whether the largest of some files of one folder could not grow now for want of space."""
    sizes = [file.stat().st_size for file in files if file.is_file()]
    try:
        with tempfile.TemporaryFile(dir=files[0].parent) as probe:
            probe.write(bytes(_PIECE_BYTES))
            probe.flush()
            os.fsync(probe.fileno())
            # A hole, which takes no space, and yet counts against limits of a file's size.
            os.ftruncate(probe.fileno(), max(sizes, default=0) + _PIECE_BYTES)
    except OSError as error:
        return error.errno in FULL
    return False


def append_whole(path: Path, content: bytes) -> None:
    """Add to a file, which is made where there is none, and see that it is on the disk.

    Raises:
        OSError: The disk is full, or the like; nothing of `content` stays.
    """
    with path.open("ab", buffering=0) as file:
        start = file.tell()
        try:
            while content:
                content = content[file.write(content) :]
            os.fsync(file.fileno())
        except BaseException:
            file.truncate(start)
            raise
