"""Remove blobs that no row names, by lease and grace; uploads may go on meanwhile."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from datetime import datetime, timedelta
from itertools import islice

from sqlalchemy import delete, select
from sqlalchemy.orm import Session

from strop_hub.db import now
from strop_hub.errors import ConflictError
from strop_hub.hub import Hub
from strop_hub.models import ALL_BLOBS, Lease
from strop_hub.releases.deletion import finish_purges
from strop_hub.storage import StoredBlob
from strop_hub.upkeep.references import named_among

_PIECE = 50
"""Blobs of one transaction, during which nobody else can write."""


class CollectionHeldError(ConflictError):
    """A backup reads blobs now."""

    code = "collection_held"
    title = "Collection is held off"


@dataclass(frozen=True, slots=True)
class Collected:
    """What a collection did."""

    removed_count: int = 0
    removed_bytes: int = 0
    kept_count: int = 0
    """Orphans that are leased or younger than the grace."""

    def plus(self, other: "Collected") -> "Collected":
        """Both together."""
        return Collected(
            self.removed_count + other.removed_count,
            self.removed_bytes + other.removed_bytes,
            self.kept_count + other.kept_count,
        )


def collect(hub: Hub, *, grace_s: float, is_trial: bool = False) -> Collected:
    """Remove orphans that were stored before the grace and that nobody has leased.

    What a purge left that was cut off goes first, without grace or leases, and is not counted.

    Args:
        hub: The hub's parts.
        grace_s: Age in seconds from which an orphan may go.
        is_trial: Only count.

    Raises:
        CollectionHeldError: A backup is under way.
    """
    if not is_trial:
        finish_purges(hub)
    before = now() - timedelta(seconds=grace_s)
    total = Collected()
    for piece in _pieces(hub.storage.blobs()):
        orphans = _orphans(hub, piece)
        old = [blob for blob in orphans if blob.stored_at <= before]
        total = total.plus(Collected(kept_count=len(orphans) - len(old)))
        if old:
            total = total.plus(_remove(hub, old, is_trial=is_trial))
    hub.database.write(lambda session: _forget_leases(session, now()))
    return total


def _pieces(blobs: Iterable[StoredBlob]) -> Iterator[list[StoredBlob]]:
    iterator = iter(blobs)
    while piece := list(islice(iterator, _PIECE)):
        yield piece


def _orphans(hub: Hub, piece: list[StoredBlob]) -> list[StoredBlob]:
    with hub.database.read() as session:
        named = named_among(session, [blob.sha256 for blob in piece])
    return [blob for blob in piece if blob.sha256 not in named]


def _remove(hub: Hub, orphans: list[StoredBlob], *, is_trial: bool) -> Collected:
    def remove(session: Session) -> Collected:
        # Looked at again where nobody else can write: a lease that comes later finds them gone.
        keys = [blob.sha256 for blob in orphans]
        spared = named_among(session, keys) | _leased(session, keys)
        condemned = [blob for blob in orphans if blob.sha256 not in spared]
        for blob in condemned:
            if not is_trial:
                # Fails when this writer has lost its turn, for whatever cause.
                session.execute(select(1))
                hub.storage.remove(blob.sha256)
        return Collected(
            len(condemned),
            sum(blob.size_bytes for blob in condemned),
            len(orphans) - len(condemned),
        )

    return hub.database.write(remove)


def _leased(session: Session, keys: list[str]) -> set[str]:
    statement = select(Lease.key).where(Lease.expires_at > now())
    leased = set(session.scalars(statement.where(Lease.key.in_([*keys, ALL_BLOBS]))))
    if ALL_BLOBS in leased:
        raise CollectionHeldError("a backup is under way. Collect again when it has ended.")
    return leased


def _forget_leases(session: Session, before: datetime) -> None:
    session.execute(delete(Lease).where(Lease.expires_at <= before))
