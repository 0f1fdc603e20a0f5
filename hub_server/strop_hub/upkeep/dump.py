"""Back a hub up into a folder, and make a hub of one; the same on every database and store.

The folder holds ``backup.json``, ``tables/<table>.jsonl`` and ``blobs/``. A repeated backup into
the same folder copies only blobs that are new, and forgets those that no row names any more.
"""

import hashlib
import json
import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from datetime import datetime
from enum import Enum
from pathlib import Path
from typing import Any, BinaryIO

from sqlalchemy import Column, Table, delete, insert, select, text, update
from sqlalchemy import Enum as EnumType
from sqlalchemy.orm import Session

from strop.errors import ConfigError
from strop_hub import migration, postgres
from strop_hub.db import Base, UtcDateTime, now
from strop_hub.errors import StorageUnavailableError
from strop_hub.hub import Hub
from strop_hub.leases import add_leases
from strop_hub.models import ALL_BLOBS, Environment, Lease, Purge, User
from strop_hub.releases import deletion
from strop_hub.releases.deletion import PurgeRecord
from strop_hub.storage import FileStorage, Storage
from strop_hub.upkeep.references import named_blobs

SUMMARY = "backup.json"
_HOLD_S = 24 * 3600
_ROWS = 1000
_PIECE_BYTES = 1024 * 1024
_LEFT_OUT = {Lease.__tablename__}


@dataclass(frozen=True, slots=True)
class Backup:
    """What a folder holds."""

    revision: str
    """Of the schema."""
    made_at: str
    row_counts: dict[str, int]
    blob_count: int
    copied_count: int
    """Blobs that were not in the folder before."""


def back_up(hub: Hub, folder: Path) -> Backup:
    """Copy the hub as it is at one moment; it may serve and be pushed to meanwhile.

    The database first, then its blobs, with collection held off: so no row is without its blob.

    Raises:
        HubError: A blob that a row names cannot be read.
    """
    revision = migration.current_revision(hub.database)
    for part in (folder, folder / "tables", folder / "blobs"):
        part.mkdir(parents=True, exist_ok=True)
    target = FileStorage(folder / "blobs")
    with _collection_held(hub), hub.database.read() as session:
        counts = {table.name: _write_table(session, table, folder) for table in _tables()}
        keys = set(named_blobs(session))
        copied = sum(_copy(hub.storage, target, key) for key in keys)
        backup = Backup(revision or "", now().isoformat(), counts, len(keys), copied)
    _write(folder / SUMMARY, json.dumps(asdict(backup), indent=2))
    for blob in list(target.blobs()):
        # What was purged since the last backup must not stay in this one either.
        if blob.sha256 not in keys:
            target.remove(blob.sha256)
    return backup


@dataclass(frozen=True, slots=True)
class Restored:
    """What came of a backup."""

    backup: Backup
    purged: list[PurgeRecord]
    """What was purged after the backup was made, and so did not come back."""


def restore(hub: Hub, folder: Path, *, purged_from: Path | None = None) -> Restored:
    """Fill an empty hub from a backup, with blobs before rows.

    Args:
        hub: The empty one.
        folder: The backup's.
        purged_from: The data folder that the hub had before, whose later purges must hold here;
            this hub's own is asked anyway.

    Raises:
        ConfigError: The folder is no whole backup, is of another schema, or the hub has contents.
        HubError: A blob of the backup has other bytes than its name says.
    """
    backup = read_summary(folder)
    current = migration.current_revision(hub.database)
    if backup.revision != current:
        raise ConfigError(
            f"the backup has the schema {backup.revision}, this hub has {current}. "
            "Restore with the version of strop that made it, then migrate."
        )
    with hub.database.read() as session:
        for model in (User, Environment):
            if session.scalar(select(model.id).limit(1)) is not None:
                raise ConfigError(
                    "this hub has contents. Fill an empty one: name another --data or database."
                )
    if purged_from is not None:
        deletion.keep_log(hub.settings.data, deletion.read_purges(purged_from))
    records = deletion.read_purges(hub.settings.data)
    source = FileStorage(folder / "blobs")
    for blob in source.blobs():
        _copy(source, hub.storage, blob.sha256)

    def fill(session: Session) -> list[PurgeRecord]:
        _fill(session, folder)
        # What the hub of the backup had erased may be in the folder, and is not in this hub's log.
        session.execute(update(Purge).values(erased_at=None))
        # In the same transaction: nobody ever sees what was purged.
        return deletion.purge_again(session, records)

    returned = hub.database.write(fill)
    deletion.finish_purges(hub)
    return Restored(backup, returned)


def read_summary(folder: Path) -> Backup:
    """What a folder says that it holds.

    Raises:
        ConfigError: It is no backup, or was never finished.
    """
    try:
        return Backup(**json.loads((folder / SUMMARY).read_text()))
    except (OSError, ValueError, TypeError) as error:
        raise ConfigError(
            f"{folder} is no whole backup: {SUMMARY} cannot be read. "
            "Name a folder that `strop hub backup` has finished."
        ) from error


@contextmanager
def _collection_held(hub: Hub) -> Iterator[None]:
    hub.database.write(lambda session: add_leases(session, [ALL_BLOBS], _HOLD_S))
    try:
        yield
    finally:
        hub.database.write(
            lambda session: session.execute(delete(Lease).where(Lease.key == ALL_BLOBS))
        )


def _tables() -> list[Table]:
    return [table for table in Base.metadata.sorted_tables if table.name not in _LEFT_OUT]


def _place(folder: Path, table: Table) -> Path:
    return folder / "tables" / f"{table.name}.jsonl"


def _write_table(session: Session, table: Table, folder: Path) -> int:
    place = _place(folder, table)
    beside = place.with_suffix(".new")
    count = 0
    with beside.open("w", encoding="ascii") as file:
        rows = session.execute(
            select(table).order_by(*table.primary_key).execution_options(yield_per=_ROWS)
        )
        for row in rows.mappings():
            values = {name: _encoded(value) for name, value in row.items()}
            file.write(json.dumps(values, separators=(",", ":")) + "\n")
            count += 1
        file.flush()
        os.fsync(file.fileno())
    beside.replace(place)
    return count


def _fill(session: Session, folder: Path) -> None:
    for table in _tables():
        session.execute(delete(table))
        rows: list[dict[str, Any]] = []
        with _place(folder, table).open(encoding="ascii") as file:
            for line in file:
                document = json.loads(line)
                rows.append({c.name: _decoded(c, document.get(c.name)) for c in table.columns})
                if len(rows) == _ROWS:
                    session.execute(insert(table), rows)
                    rows = []
        if rows:
            session.execute(insert(table), rows)
        _raise_sequence(session, table)


def _raise_sequence(session: Session, table: Table) -> None:
    """Let the next row get an id of its own: rows came with theirs."""
    if not postgres.is_postgres(session.connection()) or "id" not in table.columns:
        return
    session.execute(
        text(
            f"SELECT setval(pg_get_serial_sequence('{table.name}', 'id'), "  # noqa: S608
            f"(SELECT coalesce(max(id), 0) + 1 FROM {table.name}), false)"
        )
    )


def _encoded(value: Any) -> Any:
    if isinstance(value, datetime):
        return value.isoformat()
    return value.value if isinstance(value, Enum) else value


def _decoded(column: Column[Any], value: Any) -> Any:
    if value is None:
        return None
    if isinstance(column.type, UtcDateTime):
        return datetime.fromisoformat(value)
    if isinstance(column.type, EnumType) and column.type.enum_class is not None:
        return column.type.enum_class(value)
    return value


def _copy(source: Storage, target: Storage, sha256: str) -> bool:
    """Copy a blob, whose bytes are checked on the way; False when it is there already."""
    if target.has(sha256):
        return False
    digest = hashlib.sha256()
    # Not the file itself: in the same file system it would only get another name.
    with tempfile.NamedTemporaryFile(prefix="strop-blob-") as copied:
        with _opened(source, sha256) as file:
            while piece := file.read(_PIECE_BYTES):
                digest.update(piece)
                copied.write(piece)
        copied.flush()
        if digest.hexdigest() != sha256:
            raise StorageUnavailableError(
                f"blob {sha256} has other bytes than its name says. "
                "Run `strop hub verify`, and mend it from another copy."
            )
        target.put_file(sha256, Path(copied.name))
    return True


def _opened(source: Storage, sha256: str) -> BinaryIO:
    try:
        return source.open(sha256)
    except KeyError:
        raise StorageUnavailableError(
            f"blob {sha256} is missing, although a row names it. Run `strop hub verify`."
        ) from None


def _write(path: Path, content: str) -> None:
    beside = path.with_suffix(".new")
    with beside.open("w", encoding="utf-8") as file:
        file.write(content)
        file.flush()
        os.fsync(file.fileno())
    beside.replace(path)
