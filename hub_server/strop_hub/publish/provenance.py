"""Attestations that come after their file, while its version is open (step: publish)."""

from collections.abc import Callable
from dataclasses import dataclass

from sqlalchemy import select
from sqlalchemy.orm import Session

from strop_hub.audit.feed import append_event
from strop_hub.audit.service import Act, note
from strop_hub.auth import Caller
from strop_hub.hub import Hub
from strop_hub.leases import write_named
from strop_hub.models import File, Owner, Version, VersionStatus
from strop_hub.publish import rules
from strop_hub.publish.place import check_open, find_place
from strop_hub.settings import Settings


@dataclass(frozen=True, slots=True)
class Provenance:
    """The blob of a file's verified attestations."""

    sha256: str
    size_bytes: int


@dataclass(frozen=True, slots=True)
class ProvenanceOrder:
    """Who wants the attestations of which published file kept."""

    caller: Caller
    owner: str
    """In its normal form."""
    name: str
    """Of the environment."""
    sha256: str
    """Of the file."""
    provenance: Provenance
    act: Act


def add_provenance(hub: Hub, order: ProvenanceOrder, put: Callable[[], object]) -> bool:
    """Keep the attestations of a file that has none; whether anything changed.

    Args:
        hub: The hub's parts.
        order: What is wanted.
        put: Puts the blob again, when it was taken meanwhile.

    Raises:
        VersionClosedError: The version takes nothing further.
        QuotaExceededError: The owner would keep too much.
        HubError: As for a further file.
    """
    return write_named(
        hub.database,
        hub.storage,
        [order.provenance.sha256],
        put,
        lambda session: _record(session, order, hub.settings),
    )


def _record(session: Session, order: ProvenanceOrder, settings: Settings) -> bool:
    place = find_place(session, order.caller, order.owner, order.name)
    if place is None:
        return False
    file = session.scalar(
        select(File).where(File.environment_id == place.id, File.sha256 == order.sha256)
    )
    if file is None or file.provenance_sha256 is not None:
        return False
    version = session.get_one(Version, file.version_id)
    check_open(version, f"{order.owner}/{order.name}", settings)
    if file.sidecar_bytes is not None:
        owner = session.get_one(Owner, place.owner_id)
        rules.take_space(session, owner, order.provenance.size_bytes, settings)
        file.sidecar_bytes += order.provenance.size_bytes
    file.provenance_sha256 = order.provenance.sha256
    if version.status is VersionStatus.VISIBLE:
        append_event(session, place, "add-file", version.version)
    note(session, order.caller, order.act)
    session.flush()
    return True
