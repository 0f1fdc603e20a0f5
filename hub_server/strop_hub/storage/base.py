"""What the hub asks of a store of blobs (step: store)."""

from collections.abc import Collection, Iterator
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import BinaryIO, Protocol


@dataclass(frozen=True, slots=True)
class StoredBlob:
    """A blob as the store lists it; nobody has read its bytes."""

    sha256: str
    size_bytes: int
    stored_at: datetime
    """In UTC; of the last put that wrote it."""


def place_of(sha256: str) -> str:
    """Where a blob lies below the root of a store: in one of 256 folders, which soon are there.

    More levels would mean a new folder, forced to disk, for most blobs of a small hub; a million
    versions have some ten thousand blobs in each of these.
    """
    return f"{sha256[:2]}/{sha256[2:]}"


class Storage(Protocol):
    """Bytes under their sha256 in lower-case hex. A blob is there whole or not at all.

    Methods block; routes call them in threads, under the limit for blobs.
    """

    def lease(self, keys: Collection[str]) -> None:
        """Keep collection away from blobs that are put soon; before anybody looks for them.

        Without effect on a bare store, which collects nothing.

        Raises:
            StorageUnavailableError: Nobody can promise it now.
        """
        ...

    def put_file(self, sha256: str, path: Path) -> None:
        """Keep the bytes of the file at `path`, which nobody may write to any more.

        Without effect when the blob is there.

        Raises:
            StorageFullError: No space is left; nothing was kept.
            StorageUnavailableError: The store does not answer.
        """
        ...

    def put_bytes(self, sha256: str, content: bytes) -> None:
        """Keep `content`; as `put_file`."""
        ...

    def has(self, sha256: str) -> bool:
        """Whether the blob is there."""
        ...

    def size_bytes(self, sha256: str) -> int:
        """How large the blob is.

        Raises:
            KeyError: The blob is not there.
        """
        ...

    def read(self, sha256: str) -> bytes:
        """The whole blob; for small ones.

        Raises:
            KeyError: The blob is not there.
        """
        ...

    def open(self, sha256: str) -> BinaryIO:
        """The blob as a seekable binary file that the caller closes.

        Raises:
            KeyError: The blob is not there.
        """
        ...

    def path(self, sha256: str) -> Path | None:
        """Where the blob lies on this machine, for a server's own way to send files; else None."""
        ...

    def url(
        self, sha256: str, *, filename: str | None, media_type: str, lasts_s: int
    ) -> str | None:
        """A signed address that gives the blob to whoever holds it; None: the hub sends it itself.

        Args:
            sha256: Which blob; whether it is there is not asked.
            filename: Offered to browsers as the name to save under.
            media_type: What the answer says that it is.
            lasts_s: How long the address is worth anything.
        """
        ...

    def blobs(self) -> Iterator[StoredBlob]:
        """Every blob that was there before the call and still is, in no order."""
        ...

    def remove(self, sha256: str) -> None:
        """Forget a blob; without effect when it is not there."""
        ...

    def check(self) -> None:
        """Ask whether blobs can be kept, for readiness.

        Raises:
            StorageUnavailableError: They cannot.
        """
        ...
