"""Step *write*: one transaction that makes a candidate a published version (step: publish)."""

import json
from dataclasses import dataclass, field
from typing import Any

from sqlalchemy import bindparam, insert, select, update
from sqlalchemy.orm import Session

from strop.hub.wire import FileKind, PushOutcome
from strop_hub.audit.feed import append_event
from strop_hub.audit.service import Act, note
from strop_hub.auth import Caller
from strop_hub.db import now
from strop_hub.errors import VersionExistsError
from strop_hub.models import (
    Environment,
    File,
    Owner,
    Version,
    VersionStatus,
    Visibility,
)
from strop_hub.publish import rules
from strop_hub.publish.failpoints import reach
from strop_hub.publish.latest import refresh_latest
from strop_hub.publish.order import sort_key
from strop_hub.publish.place import find_any_version, find_place, make_environment
from strop_hub.publish.provenance import Provenance
from strop_hub.publish.store import StoredParts
from strop_hub.publish.validate import Candidate
from strop_hub.settings import Settings

_OWNER = select(Owner).where(Owner.name == bindparam("owner"))
_ADD_VERSION = insert(Version).returning(Version.id)
_ADD_FILES = insert(File)


@dataclass(frozen=True, slots=True)
class Order:
    """Who wants what published, and how."""

    caller: Caller
    owner: str
    """In its normal form."""
    candidate: Candidate
    visibility: Visibility | None
    """Of an environment that is new; None for public."""
    act: Act
    provenance: Provenance | None = None
    """Of the wheel."""

    @property
    def name(self) -> str:
        """The environment's name."""
        return self.candidate.facts.name

    @property
    def full_name(self) -> str:
        """``owner/name``."""
        return f"{self.owner}/{self.name}"


@dataclass(frozen=True, slots=True)
class Receipt:
    """What came of an order."""

    outcome: PushOutcome
    version: str
    """As it is published: ``1.0`` when ``1.0.0`` was pushed again."""
    warnings: list[str] = field(default_factory=list)
    rows: tuple[Version, list[File]] | None = None
    """What was written, apart from any session; None when nothing was."""


def find_published(session: Session, order: Order) -> Receipt | None:
    """The receipt of an order that was carried out before; None when it is new.

    Raises:
        UnauthenticatedError: The token was revoked or has expired since the upload began.
        ForbiddenError: The caller may not publish this.
        VersionExistsError: The version is there with other contents.
    """
    place = _find_place(session, order)
    return _repeated(order, place.environment, place.version)


def record(session: Session, order: Order, parts: StoredParts, settings: Settings) -> Receipt:
    """Publish; the rows of version, files, name, feed and audit trail come together or not at all.

    Raises:
        HubError: As `find_published`, and what `strop_hub.publish.rules` refuses.
    """
    place = _find_place(session, order)
    published = _repeated(order, place.environment, place.version)
    if published is not None:
        return published
    owner = session.scalars(_OWNER, {"owner": order.owner}).one()
    _check(session, owner, order, parts, settings)
    environment = place.environment or make_environment(
        session, owner, order.name, order.visibility
    )
    reach("publish.write-version")
    version = _version_values(environment, order, parts)
    version_id = _put_version(session, place.version, version)
    reach("publish.write-files")
    files = _file_values(environment, version_id, order, parts)
    session.connection().execute(_ADD_FILES, files)
    warnings = _visibility_warnings(order, environment)
    if (warning := rules.claim_name(session, environment, settings)) is not None:
        warnings.append(warning)
    refresh_latest(session, environment, owner.name)
    append_event(session, environment, "publish", order.candidate.facts.version)
    note(session, order.caller, order.act)
    session.flush()
    reach("publish.commit")
    rows = Version(**version), [File(**values) for values in files]
    return Receipt(PushOutcome.PUBLISHED, order.candidate.facts.version, warnings, rows)


@dataclass(frozen=True, slots=True)
class _Place:
    environment: Environment | None
    version: Version | None


def _find_place(session: Session, order: Order) -> _Place:
    environment = find_place(session, order.caller, order.owner, order.name)
    if environment is None:
        return _Place(None, None)
    number = order.candidate.facts.version
    return _Place(environment, find_any_version(session, environment, number))


def _repeated(
    order: Order, environment: Environment | None, existing: Version | None
) -> Receipt | None:
    if environment is None or existing is None or existing.status is VersionStatus.INCOMPLETE:
        return None
    if not _is_same(existing, order.candidate):
        raise VersionExistsError(
            f"`{order.full_name}@{existing.version}` is already published with other contents, "
            "and a published version never changes. Raise `version` in pyproject.toml, "
            "then push again."
        )
    return Receipt(
        PushOutcome.ALREADY_PUBLISHED, existing.version, _visibility_warnings(order, environment)
    )


def _is_same(existing: Version, candidate: Candidate) -> bool:
    if existing.tree_digest is not None and candidate.tree_digest is not None:
        return existing.tree_digest == candidate.tree_digest
    return existing.digest == candidate.wheel.sha256


def _visibility_warnings(order: Order, environment: Environment) -> list[str]:
    if order.visibility in (None, environment.visibility):
        return []
    return [
        f"`{order.full_name}` stays {environment.visibility}: "
        "the visibility is set when an environment is new"
    ]


def _check(
    session: Session, owner: Owner, order: Order, parts: StoredParts, settings: Settings
) -> None:
    candidate = order.candidate
    rules.check_name(order.owner, order.name)
    rules.check_not_spent(session, owner, order.name, candidate.canonical_version)
    rules.check_dependencies(session, candidate.facts.manifest)
    size_bytes = candidate.size_bytes + _sidecar_bytes(order, parts)
    rules.take_space(session, owner, size_bytes, settings)


def _sidecar_bytes(order: Order, parts: StoredParts) -> int:
    """Of what is kept beside the wheel."""
    return parts.size_bytes + (order.provenance.size_bytes if order.provenance else 0)


def _put_version(session: Session, existing: Version | None, values: dict[str, Any]) -> int:
    """A new version, or the one of which only the source distribution has come."""
    if existing is not None:
        session.execute(update(Version).where(Version.id == existing.id).values(values))
        return existing.id
    version_id: int = session.connection().execute(_ADD_VERSION, values).scalar_one()
    return version_id


def _version_values(environment: Environment, order: Order, parts: StoredParts) -> dict[str, Any]:
    facts = order.candidate.facts
    number = order.candidate.version
    schema = facts.settings_schema
    return {
        "environment_id": environment.id,
        "version": facts.version,
        "canonical_version": order.candidate.canonical_version,
        "sort_key": sort_key(number),
        "is_prerelease": number.is_prerelease,
        "status": VersionStatus.VISIBLE,
        "kind": facts.kind,
        "digest": order.candidate.wheel.sha256,
        "tree_digest": order.candidate.tree_digest,
        "size_bytes": order.candidate.wheel.size_bytes,
        "manifest_json": _escaped(facts.manifest.document()),
        "settings_schema_json": None if schema is None else _escaped(schema),
        "readme_sha256": parts.readme_sha256,
        "requires_python": facts.requires_python,
        "published_at": now(),
        "published_by": order.caller.name,
    }


def _file_values(
    environment: Environment, version_id: int, order: Order, parts: StoredParts
) -> list[dict[str, Any]]:
    candidate = order.candidate
    shared = {
        "version_id": version_id,
        "environment_id": environment.id,
        "uploaded_at": now(),
        "uploaded_by": order.caller.name,
    }
    wheel = shared | {
        "filename": candidate.facts.filename,
        "kind": FileKind.WHEEL,
        "sha256": candidate.wheel.sha256,
        "size_bytes": candidate.wheel.size_bytes,
        "metadata_sha256": parts.metadata_sha256,
        "requires_python": candidate.facts.requires_python,
        "provenance_sha256": order.provenance and order.provenance.sha256,
        "sidecar_bytes": _sidecar_bytes(order, parts),
    }
    if candidate.source is None:
        return [wheel]
    source = shared | {
        "filename": candidate.source_filename,
        "kind": FileKind.SOURCE,
        "sha256": candidate.source.sha256,
        "size_bytes": candidate.source.size_bytes,
        "metadata_sha256": None,
        "requires_python": None,
        "provenance_sha256": None,
        "sidecar_bytes": 0,
    }
    return [wheel, source]


def _escaped(document: Any) -> str:
    return json.dumps(document, sort_keys=True, ensure_ascii=True)
