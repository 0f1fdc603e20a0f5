"""Find environments and versions for people and programs; raises the errors that they see."""

from collections.abc import Sequence
from dataclasses import dataclass
from difflib import get_close_matches

from packaging.utils import canonicalize_version
from packaging.version import InvalidVersion
from sqlalchemy.orm import Session

from strop.errors import InvalidRefError
from strop.hub.refs import normalize_name, read_version
from strop.hub.wire import (
    EnvironmentDetail,
    EnvironmentPage,
    EnvironmentStatus,
    VersionDetail,
    VersionPage,
)
from strop_hub.auth import Caller
from strop_hub.content import Content
from strop_hub.errors import NotFoundError, QuarantinedError
from strop_hub.hub import Hub
from strop_hub.models import Environment, File, Version, VersionCheck, VersionStatus, Visibility
from strop_hub.registry import queries, views
from strop_hub.registry.moves import find_moved, moved_error

MAX_NEAR_NAMES = 3


def list_environments(
    hub: Hub, caller: Caller, wanted: queries.EnvironmentFilter, cursor: str | None, limit: int
) -> EnvironmentPage:
    """One page of the environments that `caller` may see, the best match first.

    Raises:
        InvalidCursorError: The cursor is of another list.
    """
    with hub.database.read() as session:
        rows, more = queries.list_environments(session, caller, wanted, cursor, limit)
    items = [views.environment_summary(row.environment, row.owner, row.latest) for row in rows]
    return EnvironmentPage(items=items, next_cursor=more)


def count_environments(hub: Hub, caller: Caller, wanted: queries.EnvironmentFilter) -> str:
    """How many `caller` may see, for people: ``1,234``, or ``10,000+`` where counting ends."""
    with hub.database.read() as session:
        count, has_more = queries.count_environments(session, caller, wanted)
    return f"{count:,}{'+' if has_more else ''}"


def show_environment(hub: Hub, caller: Caller, owner: str, name: str) -> EnvironmentDetail:
    """An environment through its latest version.

    Raises:
        NotFoundError: It is not there, or not for `caller`.
    """
    with hub.database.read() as session:
        found = require_environment(session, caller, owner, name)
        latest = session.get(Version, found.latest_version_id or 0)
        rows = None if latest is None else _rows(session, latest)
    owner = normalize_name(owner)
    detail = None if rows is None else _detail(hub, owner, found.name, rows)
    summary = views.environment_summary(found, owner, None if latest is None else latest.version)
    return EnvironmentDetail(**dict(summary), created_at=found.created_at, latest=detail)


def list_versions(
    hub: Hub, caller: Caller, ref: tuple[str, str], cursor: str | None, limit: int
) -> VersionPage:
    """One page of an environment's versions, newest first by PEP 440.

    Raises:
        NotFoundError: The environment is not there, or not for `caller`.
        InvalidCursorError: The cursor is of another list.
    """
    owner, name = ref
    with hub.database.read() as session:
        found = require_environment(session, caller, owner, name)
        rows, more = queries.list_versions(session, found.id, cursor, limit)
    owner = normalize_name(owner)
    items = [views.version_summary(row, owner, found.name) for row in rows]
    return VersionPage(items=items, next_cursor=more)


def show_version(hub: Hub, caller: Caller, owner: str, name: str, version: str) -> VersionDetail:
    """All about one version, yanked or not.

    Raises:
        NotFoundError: It is not there, or not for `caller`.
    """
    with hub.database.read() as session:
        found = require_environment(session, caller, owner, name)
        row = require_version(session, found, normalize_name(owner), version)
        rows = _rows(session, row)
    return _detail(hub, normalize_name(owner), found.name, rows)


def find_content(hub: Hub, caller: Caller, ref: tuple[str, str, str], filename: str) -> Content:
    """The bytes of one file, and how they may be kept by caches.

    Raises:
        NotFoundError: It is not there, or not for `caller`.
    """
    owner, name, version = ref
    with hub.database.read() as session:
        found = require_environment(session, caller, owner, name)
        row = require_version(session, found, normalize_name(owner), version)
        refuse_quarantined(found, row, normalize_name(owner))
        files = queries.find_files(session, [row.id])
    file = next((file for file in files if file.filename == filename), None)
    if file is None:
        listed = ", ".join(file.filename for file in files)
        raise NotFoundError(
            f"`{owner}/{name}@{row.version}` has no file {filename!a}. It has: {listed}."
        )
    is_public = found.visibility == Visibility.PUBLIC
    hub.downloads.note(found.id)
    return Content(
        file.sha256, file.size_bytes, "application/octet-stream", is_public, file.filename
    )


def refuse_quarantined(environment: Environment, version: Version, owner: str) -> None:
    """Refuse what may do harm.

    Raises:
        QuarantinedError: The environment is quarantined, or this version of it.
    """
    if environment.status is EnvironmentStatus.QUARANTINED:
        what, reason = f"{owner}/{environment.name}", environment.status_reason
    elif version.status is VersionStatus.QUARANTINED:
        what = f"{owner}/{environment.name}@{version.version}"
        reason = version.quarantine_reason
    else:
        return
    raise QuarantinedError(
        f"`{what}` is quarantined{f': {reason}' if reason else ''}. "
        "Use another version, or ask its owner."
    )


def require_environment(session: Session, caller: Caller, owner: str, name: str) -> Environment:
    """The environment by its name in any spelling.

    Raises:
        MovedError: It has another name now.
        NotFoundError: It is not there, or not for `caller`; what the message says is the same
            for both, and names only what `caller` may see.
    """
    try:
        normal = normalize_name(owner), normalize_name(name)
    except InvalidRefError as error:
        raise NotFoundError(f"nothing can be there: {error}") from None
    found = queries.find_environment(session, caller, *normal)
    if found is None:
        moved = find_moved(session, caller, *normal)
        if moved is not None:
            raise moved_error(*normal, moved)
        raise NotFoundError(missing_environment(session, caller, *normal))
    return found


def missing_environment(session: Session, caller: Caller, owner: str, name: str) -> str:
    """What to say about a name behind which `caller` can see nothing."""
    near = near_names(session, caller, owner, name)
    listed = " or ".join(f"`{full_name}`" for full_name in near)
    remedy = f"Did you mean {listed}?" if near else "List what there is with `strop env list`."
    return (
        f"`{owner}/{name}` is not on this hub, or not visible to you. {remedy} "
        "A private environment needs a token of its owner with the scope `read`."
    )


def near_names(session: Session, caller: Caller, owner: str, name: str) -> list[str]:
    """Up to three full names that look like `owner`/`name` and that `caller` may see."""
    candidates = queries.near_names(session, caller, owner, name)
    same_name = [found for found in candidates if found.endswith(f"/{name}")]
    close = get_close_matches(f"{owner}/{name}", candidates, n=MAX_NEAR_NAMES, cutoff=0.7)
    return list(dict.fromkeys([*close, *same_name]))[:MAX_NEAR_NAMES]


def require_version(session: Session, environment: Environment, owner: str, text: str) -> Version:
    """A complete version of a visible environment, compared as PEP 440.

    Raises:
        NotFoundError: There is none.
    """
    try:
        number = read_version(text)
    except InvalidVersion:
        raise NotFoundError(f"{text[:40]!a} is no version (PEP 440), such as 0.1.0") from None
    found = queries.find_version(
        session, environment.id, canonicalize_version(number, strip_trailing_zero=True)
    )
    if found is None:
        if queries.is_deleted(session, environment, number):
            raise NotFoundError(
                f"`{owner}/{environment.name}@{number}` was deleted. Use another version."
            )
        newest, _ = queries.list_versions(session, environment.id, None, 5)
        there = ", ".join(version.version for version in newest)
        raise NotFoundError(
            f"`{owner}/{environment.name}` has no version {number}. Its newest are {there}."
        )
    return found


@dataclass(frozen=True, slots=True)
class _Rows:
    """What the database has about one version."""

    version: Version
    files: Sequence[File]
    check: VersionCheck | None


def _rows(session: Session, version: Version) -> _Rows:
    checks = queries.find_checks(session, version.id, 1)
    files = queries.find_files(session, [version.id])
    return _Rows(version, files, checks[0] if checks else None)


def _detail(hub: Hub, owner: str, name: str, rows: _Rows) -> VersionDetail:
    version = rows.version
    readme = b"" if version.readme_sha256 is None else hub.storage.read(version.readme_sha256)
    summary = views.version_summary(version, owner, name)
    return views.version_detail(
        summary, version, rows.files, url=hub.settings.url, readme=readme, check=rows.check
    )
