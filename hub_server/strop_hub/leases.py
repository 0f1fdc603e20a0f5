"""Take leases on blobs before they are put, so that collection never races an upload."""

import threading
import time
from collections.abc import Callable, Collection, Iterator
from datetime import timedelta
from pathlib import Path
from typing import BinaryIO, TypeVar

from sqlalchemy import bindparam, insert, select
from sqlalchemy.orm import Session

from strop_hub.db import Database, now
from strop_hub.errors import StorageUnavailableError
from strop_hub.models import Lease
from strop_hub.storage import Storage, StoredBlob

T = TypeVar("T")

LEASE_S = 6 * 3600
"""From the put of a blob to the row that names it, at the most."""

_ADD = insert(Lease)

_KNOWN_S = 600
"""How long this process relies on a lease without taking it again."""

_PUTS = 3
_STANDING = select(Lease.key).where(Lease.key.in_(bindparam("keys", expanding=True)))


class _LeaseLostError(Exception):
    """A blob may be gone since it was put."""


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

    def forget(self, keys: Collection[str]) -> None:
        """Lease keys anew when they are put next: their leases have ended early."""
        with self._lock:
            for key in keys:
                self._known.pop(key, None)

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


def write_named(
    database: Database,
    storage: LeasedStorage,
    keys: Collection[str],
    put: Callable[[], object],
    write: Callable[[Session], T],
) -> T:
    """Write rows that name blobs, while the leases on all of them stand.

    Args:
        database: Where the rows go.
        storage: Where the blobs were put.
        keys: Of the blobs.
        put: Puts them again, when a purge took them meanwhile or their leases have run out.
        write: Adds the rows; see `Database.write`.

    Raises:
        StorageUnavailableError: They were taken again and again.
    """

    def checked(session: Session) -> T:
        found = session.connection().execute(_STANDING, {"keys": list(keys)})
        if len(set(keys)) > len({key for (key,) in found}):
            raise _LeaseLostError
        return write(session)

    for _ in range(_PUTS):
        try:
            return database.write(checked)
        except _LeaseLostError:
            storage.forget(keys)
            put()
    raise StorageUnavailableError(
        "the hub's storage loses what is put into it. Repeat the request later."
    )


def add_leases(session: Session, keys: Collection[str], lasts_s: int) -> None:
    """Promise for a time that the blobs `keys` are not collected."""
    expires_at = now() + timedelta(seconds=lasts_s)
    leases = [{"key": key, "expires_at": expires_at} for key in keys]
    session.connection().execute(_ADD, leases)
