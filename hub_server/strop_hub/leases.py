"""Take leases on blobs before they are put, so that collection never races an upload."""

import threading
import time
from collections.abc import Collection, Iterator
from datetime import timedelta
from pathlib import Path
from typing import BinaryIO

from sqlalchemy import insert
from sqlalchemy.orm import Session

from strop_hub.db import Database, now
from strop_hub.models import Lease
from strop_hub.storage import Storage, StoredBlob

LEASE_S = 6 * 3600
"""From the put of a blob to the row that names it, at the most."""

_ADD = insert(Lease)

_KNOWN_S = 600
"""How long this process relies on a lease without taking it again."""


class LeasedStorage:
    """A store whose puts take a lease first: what collection condemned before is written again.

    Collection removes blobs only inside a writing transaction that sees no lease. So either it
    sees this one, or the put comes after it and finds the blob gone.
    """

    def __init__(self, inner: Storage, database: Database) -> None:
        self.inner = inner
        self._database = database
        self._known: dict[str, float] = {}
        self._lock = threading.Lock()

    def lease(self, keys: Collection[str]) -> None:
        """Lease all keys in one transaction; see `Storage.lease`."""
        at = time.monotonic()
        with self._lock:
            wanted = [key for key in keys if self._known.get(key, 0) < at]
        if not wanted:
            return
        self._database.write(lambda session: add_leases(session, wanted, LEASE_S))
        with self._lock:
            self._known = {key: until for key, until in self._known.items() if until > at}
            self._known.update(dict.fromkeys(wanted, at + _KNOWN_S))

    def put_file(self, sha256: str, path: Path) -> None:
        """Keep the bytes of a file; see `Storage.put_file`."""
        self.lease([sha256])
        self.inner.put_file(sha256, path)

    def put_bytes(self, sha256: str, content: bytes) -> None:
        """Keep `content`; see `Storage.put_bytes`."""
        self.lease([sha256])
        self.inner.put_bytes(sha256, content)

    def has(self, sha256: str) -> bool:
        """Whether the blob is there."""
        return self.inner.has(sha256)

    def size_bytes(self, sha256: str) -> int:
        """How large the blob is."""
        return self.inner.size_bytes(sha256)

    def read(self, sha256: str) -> bytes:
        """The whole blob."""
        return self.inner.read(sha256)

    def open(self, sha256: str) -> BinaryIO:
        """The blob as a file."""
        return self.inner.open(sha256)

    def path(self, sha256: str) -> Path | None:
        """Where the blob lies on this machine."""
        return self.inner.path(sha256)

    def url(
        self, sha256: str, *, filename: str | None, media_type: str, lasts_s: int
    ) -> str | None:
        """A signed address of the blob."""
        return self.inner.url(sha256, filename=filename, media_type=media_type, lasts_s=lasts_s)

    def blobs(self) -> Iterator[StoredBlob]:
        """Every blob."""
        return self.inner.blobs()

    def remove(self, sha256: str) -> None:
        """Forget a blob."""
        self.inner.remove(sha256)

    def check(self) -> None:
        """Ask whether blobs can be kept."""
        self.inner.check()


def add_leases(session: Session, keys: Collection[str], lasts_s: int) -> None:
    """Promise for a time that the blobs `keys` are not collected."""
    expires_at = now() + timedelta(seconds=lasts_s)
    leases = [{"key": key, "expires_at": expires_at} for key in keys]
    session.connection().execute(_ADD, leases)
