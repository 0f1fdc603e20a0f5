"""Delete versions, and purge what must not stay anywhere; their names are spent for ever."""

import json
from dataclasses import asdict, dataclass, fields
from pathlib import Path

from sqlalchemy import delete, func, or_, select, update
from sqlalchemy.orm import Session

from strop.errors import ConfigError
from strop.hub.wire import Scope
from strop_hub.audit.service import Act
from strop_hub.auth import Caller
from strop_hub.db import after_commit, now
from strop_hub.disk import append_whole
from strop_hub.hub import Hub
from strop_hub.models import (
    Environment,
    EnvironmentTag,
    File,
    Lease,
    Owner,
    Purge,
    StagedFile,
    TagMove,
    Tombstone,
    Version,
    VersionCheck,
    VersionTag,
)
from strop_hub.publish.failpoints import reach
from strop_hub.publish.latest import clean
from strop_hub.releases.subject import Request, Subject, find_subject, require_administrator
from strop_hub.search import write_terms

PURGE_LOG = "purges.jsonl"
"""In the data folder, beside the database: a restored database must hear of later purges."""

_PIECE = 50
"""Purges of one transaction, during which nobody else can write."""


@dataclass(frozen=True, slots=True)
class PurgeRecord:
    """One version that was purged."""

    owner: str
    name: str
    version: str
    sha256s: list[str]
    reason: str


_FIELDS = [field.name for field in fields(PurgeRecord)]


def delete_versions(hub: Hub, request: Request, number: str | None) -> list[str]:
    """Take a version, or with None all of them, away; gives which.

    Their blobs go with the next collection.

    Raises:
        NotFoundError: It is not there, or not for the caller.
        ForbiddenError: The caller is neither the owner nor an administrator.
    """

    def change(session: Session) -> list[str]:
        subject = find_subject(session, request, Scope.ADMIN, also_admins=True)
        gone = []
        for version in _versions(session, subject, number):
            _remove_rows(session, subject, version)
            gone.append(version.version)
        for text in gone:
            subject.note(session, request.act, text)
        return gone

    return hub.database.write(change)


def purge(hub: Hub, request: Request, number: str | None, reason: str) -> list[PurgeRecord]:
    """Erase a version, or with None all of them: rows, blobs, metadata and pages.

    Blobs that another version needs as well stay.

    Raises:
        NotFoundError: It is not there.
        ForbiddenError: The caller is no administrator.
    """

    def change(session: Session) -> list[PurgeRecord]:
        subject = find_subject(session, request, Scope.ADMIN, also_admins=True)
        require_administrator(subject.caller)
        records = []
        for version in _versions(session, subject, number):
            named = _blobs_of(session, version)
            _remove_rows(session, subject, version)
            record = PurgeRecord(
                subject.owner.name, subject.environment.name, version.version, named, clean(reason)
            )
            by = subject.caller.name or ""
            session.add(Purge(**asdict(record), purged_by=by))
            records.append(record)
        _forget_extracts(session, subject)
        for record in records:
            subject.note(session, request.act, record.version, reason=record.reason)
        after_commit(session, lambda: erase(hub, records))
        return records

    return hub.database.write(change)


def erase(hub: Hub, records: list[PurgeRecord]) -> None:
    """Remove the blobs that purged versions named and no row names any more; it can be repeated.

    Leases end with the blobs: an upload of the same bytes that is under way puts them again.

    Raises:
        HubError: Database or storage does not answer; `finish_purges` does it later.
    """
    named = {sha256 for record in records for sha256 in record.sha256s}

    def remove(session: Session) -> None:
        # Where nobody else can write: no row can begin to name what goes, nor two cut their lines.
        reach("purge.log")
        keep_log(hub.settings.data, records)
        reach("purge.erase")
        gone = sorted(named - _still_needed(session, named))
        session.execute(delete(Lease).where(Lease.key.in_(gone)))
        for sha256 in gone:
            hub.storage.remove(sha256)
        reach("purge.finish")
        lines = set(map(_line, records))
        for row in _unfinished(session):
            if _line(_record(row)) in lines:
                row.erased_at = now()

    if records:
        hub.database.write(remove)


def finish_purges(hub: Hub) -> list[PurgeRecord]:
    """Erase what purges left that were cut off after their commit; gives which these were.

    Any number of processes may do it at once, also while a purge is under way.

    Raises:
        HubError: Database or storage does not answer.
    """
    with hub.database.read() as session:
        records = unfinished_purges(session)
    for start in range(0, len(records), _PIECE):
        erase(hub, records[start : start + _PIECE])
    return records


def keep_log(data: Path, records: list[PurgeRecord]) -> None:
    """Note purges where no restored database can forget them; each line is whole, or not there.

    Raises:
        ConfigError: The log cannot be read.
        OSError: The disk is full.
    """
    known = set(map(_line, read_purges(data)))
    lines = [line for record in records if (line := _line(record)) not in known]
    append_whole(data / PURGE_LOG, "".join(f"{line}\n" for line in lines).encode())


def read_purges(data: Path) -> list[PurgeRecord]:
    """Everything that was ever purged from the hub of a data folder, whatever its database knows.

    Raises:
        ConfigError: The log cannot be read: nobody can tell what must not come back.
    """
    log = data / PURGE_LOG
    lines = log.read_text().splitlines() if log.is_file() else []
    try:
        return [PurgeRecord(**json.loads(line)) for line in lines]
    except (ValueError, TypeError) as error:
        raise ConfigError(
            f"{log} is damaged: {error}. Mend the line, so that what was purged stays away."
        ) from error


def repeat_purges(hub: Hub) -> list[PurgeRecord]:
    """Purge again whatever a restored database has back; gives what that was."""
    records = read_purges(hub.settings.data)
    if not records:
        return []
    returned = hub.database.write(lambda session: purge_again(session, records))
    erase(hub, returned)
    return returned


def purge_again(session: Session, records: list[PurgeRecord]) -> list[PurgeRecord]:
    """Take the rows of purged versions away that are back; gives which were."""
    return [record for record in records if _purge_again(session, record)]


def unfinished_purges(session: Session) -> list[PurgeRecord]:
    """Purges whose bytes may still be there."""
    return [_record(row) for row in _unfinished(session)]


def _unfinished(session: Session) -> list[Purge]:
    statement = select(Purge).where(Purge.erased_at.is_(None)).order_by(Purge.id)
    return list(session.scalars(statement))


def _record(row: Purge) -> PurgeRecord:
    return PurgeRecord(**{name: getattr(row, name) for name in _FIELDS})


def _line(record: PurgeRecord) -> str:
    return json.dumps(asdict(record))


def _purge_again(session: Session, record: PurgeRecord) -> bool:
    row = session.execute(
        select(Owner, Environment, Version)
        .join(Environment, Environment.owner_id == Owner.id)
        .join(Version, Version.environment_id == Environment.id)
        .where(Owner.name == record.owner, Environment.name == record.name)
        .where(Version.version == record.version)
    ).one_or_none()
    if row is None:
        return False
    subject = Subject(row[0], row[1], Caller.anonymous())
    _remove_rows(session, subject, row[2])
    session.add(Purge(**asdict(record), purged_by=""))
    _forget_extracts(session, subject)
    act = Act("purge", subject.full_name, address="operator")
    subject.note(session, act, record.version, reason=record.reason)
    return True


def _versions(session: Session, subject: Subject, number: str | None) -> list[Version]:
    if number is not None:
        return [subject.version(session, number)]
    statement = select(Version).where(Version.environment_id == subject.environment.id)
    return list(session.scalars(statement.order_by(Version.sort_key)))


def _remove_rows(session: Session, subject: Subject, version: Version) -> None:
    size_bytes = session.scalar(
        select(func.coalesce(func.sum(File.stored_bytes), 0)).where(File.version_id == version.id)
    )
    tags = session.scalars(select(VersionTag).where(VersionTag.version_id == version.id)).all()
    for tag in tags:
        session.add(
            TagMove(
                environment_id=tag.environment_id, tag=tag.tag, moved_by=subject.caller.name or ""
            )
        )
        session.delete(tag)
    session.flush()
    session.execute(delete(VersionCheck).where(VersionCheck.version_id == version.id))
    session.execute(delete(File).where(File.version_id == version.id))
    session.execute(delete(Version).where(Version.id == version.id))
    session.add(
        Tombstone(
            owner_id=subject.owner.id,
            name=subject.environment.name,
            canonical_version=version.canonical_version,
        )
    )
    session.execute(
        update(Owner)
        .where(Owner.id == subject.owner.id)
        .values(stored_bytes=Owner.stored_bytes - size_bytes)
    )


def _blobs_of(session: Session, version: Version) -> list[str]:
    files = session.scalars(select(File).where(File.version_id == version.id)).all()
    keys = {version.readme_sha256}
    for file in files:
        keys |= {file.sha256, file.metadata_sha256, file.provenance_sha256}
    return sorted(key for key in keys if key is not None)


def _still_needed(session: Session, keys: set[str]) -> set[str]:
    files = select(File).where(
        or_(File.sha256.in_(keys), File.metadata_sha256.in_(keys), File.provenance_sha256.in_(keys))
    )
    needed = set(
        session.scalars(select(Version.readme_sha256).where(Version.readme_sha256.in_(keys)))
    )
    staged = select(StagedFile.sha256).where(StagedFile.sha256.in_(keys))
    needed |= set(session.scalars(staged))
    for file in session.scalars(files):
        needed |= {file.sha256, file.metadata_sha256, file.provenance_sha256}
    return {key for key in needed if key is not None}


def _forget_extracts(session: Session, subject: Subject) -> None:
    """What was shown of a purged version; what is left fills it in again."""
    environment = subject.environment
    environment.summary = environment.category = environment.search_text = ""
    environment.tags = []
    write_terms(session, environment, [])
    session.execute(delete(EnvironmentTag).where(EnvironmentTag.environment_id == environment.id))
