"""Blobs in a folder: written beside, forced to disk, renamed into place (step: store)."""

import os
import re
import shutil
import tempfile
from collections.abc import Callable, Collection, Iterator
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import BinaryIO

from strop_hub.disk import FULL, named_faults
from strop_hub.storage.base import StoredBlob, place_of

_SHA256 = re.compile(r"[0-9a-f]{64}")


class FileStorage:
    """Blobs under ``ab/<rest of the sha256>`` of one folder."""

    def __init__(self, root: Path) -> None:
        self.root = root

    def lease(self, keys: Collection[str]) -> None:
        """Without effect."""

    def put_file(self, sha256: str, path: Path) -> None:
        """Keep the bytes of the file at `path`; see `Storage.put_file`.

        In the same file system the blob is another name of the file, which costs no copy.
        """

        def copy(target: BinaryIO) -> None:
            with path.open("rb") as source:
                shutil.copyfileobj(source, target, 1024 * 1024)

        self._put(sha256, copy, linked=path)

    def put_bytes(self, sha256: str, content: bytes) -> None:
        """Keep `content`; see `Storage.put_file`."""
        self._put(sha256, lambda target: _write_all(target, content))

    def has(self, sha256: str) -> bool:
        """Whether the blob is there."""
        return self._place(sha256).is_file()

    def size_bytes(self, sha256: str) -> int:
        """How large the blob is; KeyError when it is not there."""
        try:
            return self._place(sha256).stat().st_size
        except FileNotFoundError:
            raise KeyError(sha256) from None

    def read(self, sha256: str) -> bytes:
        """The whole blob; KeyError when it is not there."""
        with self.open(sha256) as file:
            return file.read()

    def open(self, sha256: str) -> BinaryIO:
        """The blob as a file; KeyError when it is not there."""
        try:
            return self._place(sha256).open("rb")
        except FileNotFoundError:
            raise KeyError(sha256) from None

    def path(self, sha256: str) -> Path | None:
        """Where the blob lies."""
        return self._place(sha256)

    def url(
        self, sha256: str, *, filename: str | None, media_type: str, lasts_s: int
    ) -> str | None:
        """None: the hub sends its own files."""
        return None

    def blobs(self) -> Iterator[StoredBlob]:
        """Every blob, folder by folder."""
        for path in self.root.glob("??/*"):
            sha256 = "".join(path.relative_to(self.root).parts)
            if _SHA256.fullmatch(sha256):
                with suppress(FileNotFoundError):
                    facts = path.stat()
                    stored_at = datetime.fromtimestamp(facts.st_mtime, UTC)
                    yield StoredBlob(sha256, facts.st_size, stored_at)

    def remove(self, sha256: str) -> None:
        """Forget a blob."""
        with named_faults(f"blob {sha256}"):
            self._place(sha256).unlink(missing_ok=True)

    def check(self) -> None:
        """Write and remove a file."""
        with named_faults("the folder of blobs"), tempfile.TemporaryFile(dir=self.root) as file:
            file.write(b"ready")

    def _place(self, sha256: str) -> Path:
        if _SHA256.fullmatch(sha256) is None:
            raise KeyError(sha256)
        return self.root / place_of(sha256)

    def _put(
        self, sha256: str, write: Callable[[BinaryIO], None], *, linked: Path | None = None
    ) -> None:
        place = self._place(sha256)
        with named_faults(f"blob {sha256}"):
            if not place.is_file():
                _make_folders(place.parent, self.root)
                if linked is None or not _link(linked, place):
                    _write_beside(place, write)
            # Also when another upload of the same bytes put it there a moment ago.
            sync_folder(place.parent)


def _link(path: Path, place: Path) -> bool:
    sync_file(path)
    try:
        os.link(path, place)
    except FileExistsError:
        return True
    except OSError as error:
        if error.errno in FULL:
            raise
        return False  # another file system, or one without links
    return True


def _write_beside(place: Path, write: Callable[[BinaryIO], None]) -> None:
    descriptor, name = tempfile.mkstemp(prefix=".new-", dir=place.parent)
    try:
        with os.fdopen(descriptor, "wb") as file:
            write(file)
            file.flush()
            os.fsync(file.fileno())
        os.replace(name, place)
    except BaseException:
        Path(name).unlink(missing_ok=True)
        raise


def sync_file(path: Path) -> None:
    """Force a file's bytes to disk."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def sync_folder(folder: Path) -> None:
    """Force a folder's entries to disk, without which a crash can forget a rename."""
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _make_folders(folder: Path, root: Path) -> None:
    if folder.is_dir():
        return
    if folder != root:
        _make_folders(folder.parent, root)
    folder.mkdir(exist_ok=True, parents=folder == root)
    sync_folder(folder.parent)


def _write_all(target: BinaryIO, content: bytes) -> None:
    target.write(content)
