"""What must hold in a hub's folder at any time, whatever happened to its processes."""

import hashlib
from pathlib import Path

from sqlalchemy import select
from sqlalchemy.orm import Session

from strop.hub.wire import FileKind, VersionKind
from strop_hub.db import Database
from strop_hub.models import Environment, Event, File, Version
from strop_hub.settings import Settings
from strop_hub.storage import Storage, open_storage


def check_whole(settings: Settings) -> int:
    """Assert that every version is whole, and give how many there are."""
    database, storage = Database.open(settings.database), open_storage(settings)
    with database.read() as session:
        versions = session.scalars(select(Version)).all()
        for version in versions:
            _check_version(session, storage, version)
        for environment in session.scalars(select(Environment)):
            _check_environment(session, environment)
        _check_feed(session)
    database.close()
    return len(versions)


def uploads_under_way(settings: Settings) -> list[Path]:
    """What lies in the folder of uploads."""
    return list(settings.uploads.iterdir())


def blob_count(settings: Settings) -> int:
    """How many blobs there are; in a folder, temporary files count too."""
    if settings.storage_url:
        return sum(1 for _ in open_storage(settings).blobs())
    return sum(path.is_file() for path in settings.blobs.rglob("*"))


def lose_blob(settings: Settings, sha256: str) -> None:
    """Take a blob away behind the hub's back."""
    open_storage(settings).remove(sha256)


def _check_version(session: Session, storage: Storage, version: Version) -> None:
    files = session.scalars(select(File).where(File.version_id == version.id)).all()
    kinds = sorted(file.kind for file in files)
    is_ours = version.kind is VersionKind.STROP
    assert kinds == ([FileKind.SOURCE, FileKind.WHEEL] if is_ours else [FileKind.WHEEL])
    for file in files:
        content = storage.read(file.sha256)
        assert hashlib.sha256(content).hexdigest() == file.sha256
        assert len(content) == file.size_bytes
        if file.kind is FileKind.WHEEL:
            assert file.sha256 == version.digest
            assert file.metadata_sha256 is not None
            assert storage.has(file.metadata_sha256)
    assert version.readme_sha256 is None or storage.has(version.readme_sha256)


def _check_environment(session: Session, environment: Environment) -> None:
    published = session.scalars(
        select(Version).where(Version.environment_id == environment.id)
    ).all()
    assert published, f"{environment.name} has no version"
    choosable = {version.id for version in published if version.yanked_at is None}
    latest = environment.latest_version_id
    assert latest in choosable if choosable else latest is None


def _check_feed(session: Session) -> None:
    serials = session.scalars(select(Event.serial).order_by(Event.serial)).all()
    assert list(serials) == list(range(1, len(serials) + 1))
    published = session.scalars(select(Event).where(Event.action == "publish")).all()
    assert len(published) == len(session.scalars(select(Version.id)).all())
