"""Read every blob again, compare every row with its blob, and name each difference."""

import hashlib
from dataclasses import dataclass, field

from sqlalchemy import case, func, select
from sqlalchemy.orm import Session

from strop.hub.wire import FileKind
from strop_hub.errors import HubError
from strop_hub.hub import Hub
from strop_hub.models import Environment, Event, File, Owner, Version, VersionStatus
from strop_hub.releases.deletion import unfinished_purges
from strop_hub.upkeep.references import named_blobs, reference_columns

_PIECE_BYTES = 1024 * 1024
_CHUNK = 500


@dataclass(frozen=True, slots=True)
class Difference:
    """One thing that is not as it must be."""

    subject: str
    """Such as ``ada/maze@1.0``, or ``blob <sha256>``."""
    detail: str


@dataclass(slots=True)
class Report:
    """What a verification looked at, and found."""

    version_count: int = 0
    blob_count: int = 0
    read_bytes: int = 0
    orphan_count: int = 0
    """Blobs that no row names; harmless, collection removes them."""
    differences: list[Difference] = field(default_factory=list)

    def add(self, subject: str, detail: str) -> None:
        """Note a difference."""
        self.differences.append(Difference(subject, detail))


def verify(hub: Hub) -> Report:
    """Look at everything; the hub may serve and be pushed to meanwhile."""
    report = Report()
    with hub.database.read() as session:
        sizes = _read_blobs(hub, set(named_blobs(session)), report)
        _check_versions(session, report)
        _check_files(session, sizes, report)
        _check_references(session, sizes, report)
        _check_owners(session, report)
        _check_latest(session, report)
        _check_feed(session, report)
        _check_purges(session, report)
    return report


def _read_blobs(hub: Hub, named: set[str], report: Report) -> dict[str, int | None]:
    """The size of each blob that a row names; None for those that are missing or others."""
    listed = {blob.sha256 for blob in hub.storage.blobs()}
    report.orphan_count = len(listed - named)
    sizes: dict[str, int | None] = {}
    for sha256 in sorted(named):
        report.blob_count += 1
        sizes[sha256] = _read_blob(hub, sha256, report)
    return sizes


def _read_blob(hub: Hub, sha256: str, report: Report) -> int | None:
    digest, size_bytes = hashlib.sha256(), 0
    try:
        with hub.storage.open(sha256) as file:
            while piece := file.read(_PIECE_BYTES):
                digest.update(piece)
                size_bytes += len(piece)
    except KeyError:
        report.add(f"blob {sha256}", "is missing from storage")
        return None
    except (HubError, OSError) as error:
        report.add(f"blob {sha256}", f"cannot be read: {error}")
        return None
    report.read_bytes += size_bytes
    if digest.hexdigest() != sha256:
        report.add(f"blob {sha256}", f"has other bytes: their sha256 is {digest.hexdigest()}")
        return None
    return size_bytes


def _check_versions(session: Session, report: Report) -> None:
    wheels: dict[int, list[str]] = {}
    statement = select(File.version_id, File.sha256).where(File.kind == FileKind.WHEEL)
    for version_id, sha256 in session.execute(statement):
        wheels.setdefault(version_id, []).append(sha256)
    full_name = Owner.name + "/" + Environment.name + "@" + Version.version
    versions = (
        select(full_name, Version.id, Version.digest, Version.status)
        .join(Environment, Environment.id == Version.environment_id)
        .join(Environment.owner)
        .execution_options(yield_per=_CHUNK)
    )
    for name, version_id, digest, status in session.execute(versions):
        report.version_count += 1
        found = wheels.get(version_id, [])
        wanted = [] if status is VersionStatus.INCOMPLETE else [digest]
        if found != wanted:
            report.add(name, f"has the wheels {found}, its row says {wanted}")


def _check_files(session: Session, sizes: dict[str, int | None], report: Report) -> None:
    _check_sidecars(session, sizes, report)
    statement = select(File.filename, File.sha256, File.size_bytes)
    for filename, sha256, size_bytes in session.execute(statement):
        actual = sizes.get(sha256)
        if actual is None:
            report.add(filename, f"its bytes are not there: blob {sha256}")
        elif actual != size_bytes:
            report.add(filename, f"has {actual} bytes, its row says {size_bytes}")


def _check_sidecars(session: Session, sizes: dict[str, int | None], report: Report) -> None:
    readme = case((File.kind == FileKind.WHEEL, Version.readme_sha256))
    statement = (
        select(
            File.filename, File.sidecar_bytes, File.metadata_sha256, File.provenance_sha256, readme
        )
        .join(Version, Version.id == File.version_id)
        .where(File.sidecar_bytes.is_not(None))
    )
    for filename, counted, *keys in session.execute(statement):
        found = [sizes.get(key) for key in keys if key is not None]
        # What is missing is named where it is looked for.
        actual = sum(size_bytes for size_bytes in found if size_bytes is not None)
        if None not in found and actual != counted:
            report.add(filename, f"keeps {actual} bytes beside it, its row says {counted}")


def _check_references(session: Session, sizes: dict[str, int | None], report: Report) -> None:
    for column in reference_columns():
        if column.table.name == File.__tablename__ and column.name == "sha256":
            continue
        key = next(iter(column.table.primary_key.columns))
        for row_id, sha256 in session.execute(select(key, column).where(column.is_not(None))):
            if sizes.get(sha256) is None:
                where = f"{column.table.name} {row_id}"
                report.add(where, f"its {column.name} is not there: blob {sha256}")


def _check_owners(session: Session, report: Report) -> None:
    statement = (
        select(Owner.name, Owner.stored_bytes, func.coalesce(func.sum(File.stored_bytes), 0))
        .outerjoin(Environment, Environment.owner_id == Owner.id)
        .outerjoin(File, File.environment_id == Environment.id)
        .group_by(Owner.id, Owner.name, Owner.stored_bytes)
    )
    for name, counted, actual in session.execute(statement):
        if counted != actual:
            report.add(name, f"its files have {actual} bytes, its row says {counted}")


def _check_latest(session: Session, report: Report) -> None:
    statement = (
        select(Owner.name + "/" + Environment.name)
        .join(Environment.owner)
        .outerjoin(Version, Version.id == Environment.latest_version_id)
        .where(Environment.latest_version_id.is_not(None))
        .where(
            Version.id.is_(None)
            | (Version.environment_id != Environment.id)
            | Version.yanked_at.is_not(None)
            | (Version.status != VersionStatus.VISIBLE)
        )
    )
    for name in session.scalars(statement):
        report.add(name, "its latest version is none that can be chosen")


def _check_feed(session: Session, report: Report) -> None:
    for column in (Event.serial, Event.public_serial):
        count, highest = session.execute(select(func.count(column), func.max(column))).one()
        if count != (highest or 0):
            report.add("the change feed", f"has {count} of {highest} values of {column.key}")


def _check_purges(session: Session, report: Report) -> None:
    for record in unfinished_purges(session):
        report.add(
            f"{record.owner}/{record.name}@{record.version}",
            "was purged, and its bytes may still be there: run `strop hub gc`",
        )
