"""What the open index shows: public, complete, and only wheels and source distributions."""

import re
from collections.abc import Iterable
from dataclasses import dataclass

from sqlalchemy import ColumnElement, Connection, bindparam, exists, func, select
from sqlalchemy.orm import Session

from strop.hub.wire import EnvironmentStatus, FileKind
from strop_hub.auth import Caller, visible_to
from strop_hub.index.pages import IndexFile, Standing
from strop_hub.models import (
    Claim,
    Environment,
    Event,
    File,
    Owner,
    Version,
    VersionStatus,
    Visibility,
)

_IN_PIECES = {"yield_per": 1000}
"""Rows come as they are read: a list of all names would be megabytes."""

_KINDS = (FileKind.WHEEL, FileKind.SDIST)
_CONTROL = re.compile(r"[\x00-\x1f\x7f\ud800-\udfff]")
METADATA_SUFFIX = ".metadata"
PROVENANCE_SUFFIX = ".provenance"
OPEN = Caller.anonymous()
"""Whoever comes through an open door, with or without a token."""


def last_serial(session: Session) -> int:
    """The serial of the newest event; 0 before the first."""
    return session.scalar(select(func.max(Event.serial))) or 0


def changed_environments(session: Session, after: int, limit: int) -> set[int] | None:
    """The environments that events since `after` are about; None for more events than `limit`."""
    statement = select(Event.environment_id).where(Event.serial > after).limit(limit + 1)
    changed = session.scalars(statement).all()
    return set(changed) if len(changed) <= limit else None


def claimed_names(session: Session) -> Iterable[str]:
    """The names on the shared index, in order."""
    statement = select(Claim.name).join(Environment, Environment.id == Claim.environment_id)
    statement = statement.where(_is_shown()).order_by(Claim.name)
    return session.scalars(statement, execution_options=_IN_PIECES)


def names_of(session: Session, owner: str, caller: Caller = OPEN) -> Iterable[str]:
    """The names of an owner's environments that `caller` may see, in order."""
    statement = select(Environment.name).join(Environment.owner).where(Owner.name == owner)
    statement = statement.where(_is_shown(caller)).order_by(Environment.name)
    return session.scalars(statement, execution_options=_IN_PIECES)


@dataclass(frozen=True, slots=True)
class Project(Standing):
    """The environment behind a page."""

    environment_id: int = 0

    @property
    def is_quarantined(self) -> bool:
        """Whether its files are not offered."""
        return self.status == EnvironmentStatus.QUARANTINED


def find_project(
    session: Session, owner: str | None, name: str, caller: Caller = OPEN
) -> Project | None:
    """The environment behind a page: an owner's, or with None the one that claims the name."""
    statement = select(Environment.status, Environment.status_reason, Environment.id)
    statement = statement.where(_is_shown(caller))
    if owner is None:
        statement = statement.join(Claim, Claim.environment_id == Environment.id)
        statement = statement.where(Claim.name == name)
    else:
        statement = statement.join(Environment.owner)
        statement = statement.where(Owner.name == owner, Environment.name == name)
    row = session.execute(statement).one_or_none()
    return None if row is None else Project(row[0], _line(row[1]), row[2])


def files_of(session: Session, project: Project) -> list[IndexFile]:
    """Every file of an environment's page, oldest version first; none under quarantine."""
    if project.is_quarantined:
        return []
    statement = (
        select(File, Version.version, Version.yanked_at, Version.yank_reason, Owner.name)
        .join(Version, Version.id == File.version_id)
        .join(Environment, Environment.id == File.environment_id)
        .join(Environment.owner)
        .where(File.environment_id == project.environment_id, File.kind.in_(_KINDS))
        .where(Version.status == VersionStatus.VISIBLE)
        .order_by(Version.sort_key, File.filename)
    )
    return [
        IndexFile(
            filename=file.filename,
            version=version,
            owner=owner,
            sha256=file.sha256,
            size_bytes=file.size_bytes,
            uploaded_at=file.uploaded_at,
            requires_python=file.requires_python,
            metadata_sha256=file.metadata_sha256 if file.kind is FileKind.WHEEL else None,
            has_provenance=file.provenance_sha256 is not None,
            yanked=_yank_mark(reason) if yanked_at is not None else False,
        )
        for file, version, yanked_at, reason, owner in session.execute(statement)
    ]


@dataclass(frozen=True, slots=True)
class FoundFile:
    """Which bytes a file's address leads to."""

    sha256: str
    size_bytes: int | None
    """None for METADATA, whose size the storage knows."""
    filename: str | None
    """None for METADATA, which browsers show in place."""
    media_type: str = "text/plain; charset=utf-8"
    """Of what is shown in place."""
    environment_id: int | None = None
    """Whose download it is; None for what is no file of its own."""


# Made once: making a statement costs as much as running it, and installers read many files.
_FIND_FILE = (
    select(
        File.sha256,
        File.size_bytes,
        File.metadata_sha256,
        File.provenance_sha256,
        File.environment_id,
    )
    .join(Version, Version.id == File.version_id)
    .join(Environment, Environment.id == File.environment_id)
    .join(Environment.owner)
    .where(Owner.name == bindparam("owner"), Environment.name == bindparam("name"))
    .where(File.filename == bindparam("filename"), File.kind.in_(_KINDS))
    .where(Version.status == VersionStatus.VISIBLE)
    .where(Environment.status != EnvironmentStatus.QUARANTINED)
)
_FIND_OPEN_FILE = _FIND_FILE.where(Environment.visibility == Visibility.PUBLIC)


def find_file(
    connection: Connection, owner: str, name: str, filename: str, caller: Caller = OPEN
) -> FoundFile | None:
    """The file, or what a suffix behind its name says: METADATA, provenance; one row is read.

    The row decides at once, whatever open pages still say.
    """
    beside = (METADATA_SUFFIX, PROVENANCE_SUFFIX)
    suffix = next((one for one in beside if filename.endswith(one)), "")
    wanted = filename.removesuffix(suffix)
    parameters = {"owner": owner, "name": name, "filename": wanted}
    statement = _FIND_OPEN_FILE if caller is OPEN else _FIND_FILE.where(visible_to(caller))
    row = connection.execute(statement, parameters).one_or_none()
    if row is None:
        return None
    sha256, size_bytes, metadata_sha256, provenance_sha256, environment_id = row
    if suffix == PROVENANCE_SUFFIX:
        if provenance_sha256 is None:
            return None
        return FoundFile(provenance_sha256, None, None, "application/vnd.pypi.integrity.v1+json")
    if wanted == filename:
        return FoundFile(sha256, size_bytes, filename, environment_id=environment_id)
    return None if metadata_sha256 is None else FoundFile(metadata_sha256, None, None)


def _is_shown(caller: Caller = OPEN) -> ColumnElement[bool]:
    has_file = exists().where(
        File.environment_id == Environment.id,
        File.kind.in_(_KINDS),
        Version.id == File.version_id,
        Version.status == VersionStatus.VISIBLE,
    )
    # A latest version has a wheel; only where there is none is it worth a look at the files.
    return visible_to(caller) & (Environment.latest_version_id.is_not(None) | has_file)


def _yank_mark(reason: str | None) -> bool | str:
    """PEP 592: the reason when there is one; control characters would break a client's line."""
    return _line(reason) or True


def _line(text: str | None) -> str:
    return _CONTROL.sub(" ", text or "").strip()
