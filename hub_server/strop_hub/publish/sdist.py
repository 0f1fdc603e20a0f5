"""Source distributions: a further file of a version, or the first of an incomplete one."""

import json
from dataclasses import dataclass

from packaging.utils import canonicalize_version
from packaging.version import Version as Number
from sqlalchemy import insert, select
from sqlalchemy.orm import Session

from strop.hub.sdist import SdistFacts
from strop.hub.wire import FileKind, PushOutcome, VersionKind
from strop_hub.audit.feed import append_event
from strop_hub.audit.service import Act, note
from strop_hub.auth import Caller
from strop_hub.db import now
from strop_hub.errors import FileExistsOnHubError
from strop_hub.models import Environment, File, Owner, Version, VersionStatus
from strop_hub.publish import rules
from strop_hub.publish.form import ReceivedFile
from strop_hub.publish.order import sort_key
from strop_hub.publish.place import check_open, find_any_version, find_place, make_environment
from strop_hub.publish.provenance import Provenance
from strop_hub.settings import Settings


@dataclass(frozen=True, slots=True)
class SdistCandidate:
    """A source distribution that could be published, and what it says."""

    file: ReceivedFile
    facts: SdistFacts

    @property
    def canonical_version(self) -> str:
        """Its number without trailing zeros, by which versions are told apart."""
        return canonicalize_version(self.facts.version, strip_trailing_zero=True)


@dataclass(frozen=True, slots=True)
class SdistOrder:
    """Who wants which source distribution published."""

    caller: Caller
    owner: str
    """In its normal form."""
    candidate: SdistCandidate
    act: Act
    provenance: Provenance | None = None

    @property
    def full_name(self) -> str:
        """``owner/name``."""
        return f"{self.owner}/{self.candidate.facts.name}"

    @property
    def sidecar_bytes(self) -> int:
        """Of what is kept beside the file."""
        return self.provenance.size_bytes if self.provenance else 0


def record_sdist(session: Session, order: SdistOrder, settings: Settings) -> PushOutcome:
    """Publish a source distribution; without its wheel the version stays incomplete.

    Raises:
        FileExistsOnHubError: The version has another one.
        VersionClosedError: The version takes no further file.
        HubError: As for a wheel.
    """
    facts = order.candidate.facts
    place = find_place(session, order.caller, order.owner, facts.name)
    version = None if place is None else find_any_version(session, place, facts.version)
    if version is not None and _is_there(session, version, order):
        return PushOutcome.ALREADY_PUBLISHED
    owner = session.scalars(select(Owner).where(Owner.name == order.owner)).one()
    rules.check_name(order.owner, facts.name)
    rules.check_not_spent(session, owner, facts.name, order.candidate.canonical_version)
    if version is not None:
        check_open(version, order.full_name, settings)
    size_bytes = order.candidate.file.size_bytes + order.sidecar_bytes
    rules.take_space(session, owner, size_bytes, settings)
    environment = place or make_environment(session, owner, facts.name, None)
    version_id = _begin_version(session, environment, order) if version is None else version.id
    _insert_file(session, environment, version_id, order)
    if version is not None and version.status is VersionStatus.VISIBLE:
        append_event(session, environment, "add-file", version.version)
    note(session, order.caller, order.act)
    session.flush()
    return PushOutcome.PUBLISHED


def _is_there(session: Session, version: Version, order: SdistOrder) -> bool:
    published = session.scalar(
        select(File).where(File.version_id == version.id, File.kind == FileKind.SDIST)
    )
    if published is None:
        return False
    if published.sha256 == order.candidate.file.sha256:
        return True
    raise already_exists(published.filename, published.sha256)


def already_exists(filename: str, sha256: str) -> FileExistsOnHubError:
    """The refusal in words by which packaging clients know it."""
    return FileExistsOnHubError(
        f"File already exists ({filename!a}, with sha256 {sha256}), with other contents; "
        "a published file never changes. Raise the version, then build and upload again."
    )


def _begin_version(session: Session, environment: Environment, order: SdistOrder) -> int:
    """A version that nobody sees until its wheel comes, which fixes all that is not known yet."""
    facts = order.candidate.facts
    number = Number(facts.version)
    values = {
        "environment_id": environment.id,
        "version": facts.version,
        "canonical_version": order.candidate.canonical_version,
        "sort_key": sort_key(number),
        "is_prerelease": number.is_prerelease,
        "status": VersionStatus.INCOMPLETE,
        "kind": VersionKind.FOREIGN,
        "size_bytes": 0,
        "manifest_json": json.dumps({"name": facts.name, "version": facts.version}),
        "published_at": now(),
        "published_by": order.caller.name,
    }
    version_id: int | None = session.scalar(insert(Version).values(values).returning(Version.id))
    assert version_id is not None
    return version_id


def _insert_file(
    session: Session, environment: Environment, version_id: int, order: SdistOrder
) -> None:
    file = order.candidate.file
    values = {
        "version_id": version_id,
        "environment_id": environment.id,
        "filename": order.candidate.facts.filename,
        "kind": FileKind.SDIST,
        "sha256": file.sha256,
        "size_bytes": file.size_bytes,
        "requires_python": order.candidate.facts.requires_python,
        "provenance_sha256": order.provenance and order.provenance.sha256,
        "sidecar_bytes": order.sidecar_bytes,
        "uploaded_at": now(),
        "uploaded_by": order.caller.name,
    }
    session.execute(insert(File).values(values))
