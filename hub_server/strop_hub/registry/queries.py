"""The statements of the read path; every one carries what the caller may see."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from packaging.utils import canonicalize_name, canonicalize_version
from packaging.version import Version as Number
from sqlalchemy import ColumnElement, Integer, and_, case, exists, false, func, literal, or_, select
from sqlalchemy.orm import Session

from strop_hub.auth import Caller, visible_to
from strop_hub.models import (
    SHOWN,
    Environment,
    EnvironmentTag,
    File,
    Owner,
    Tombstone,
    Version,
    VersionCheck,
)
from strop_hub.pagination import invalid_cursor, read_cursor, write_cursor
from strop_hub.search import Narrowing, candidates, words_of

_NEAR_CANDIDATES = 200
MAX_COUNTED = 10_000
MAX_COUNTED_MATCHES = 1000
"""Of a search, which looks at so many candidates at most that a higher count would be wrong."""


@dataclass(frozen=True, slots=True)
class EnvironmentFilter:
    """What a listing is narrowed to; None and the empty string narrow nothing."""

    text: str = ""
    owner: str | None = None
    category: str | None = None
    tag: str | None = None


@dataclass(frozen=True, slots=True)
class ListedEnvironment:
    """A row of a listing."""

    environment: Environment
    owner: str
    latest: str | None


def find_environment(session: Session, caller: Caller, owner: str, name: str) -> Environment | None:
    """The environment; None when it is absent, without a version to show, or invisible."""
    statement = (
        select(Environment)
        .join(Environment.owner)
        .where(Owner.name == owner, Environment.name == name)
        .where(visible_to(caller), has_versions())
    )
    return session.scalar(statement)


def find_version(session: Session, environment_id: int, canonical: str) -> Version | None:
    """A complete version by its canonical number."""
    return session.scalar(
        select(Version)
        .where(Version.environment_id == environment_id, Version.canonical_version == canonical)
        .where(Version.status.in_(SHOWN))
    )


def is_deleted(session: Session, environment: Environment, number: Number) -> bool:
    """Whether a version was there once."""
    canonical = canonicalize_version(number, strip_trailing_zero=True)
    statement = select(Tombstone.id).where(
        Tombstone.owner_id == environment.owner_id,
        Tombstone.name == environment.name,
        Tombstone.canonical_version == canonical,
    )
    return session.scalar(statement) is not None


def find_files(session: Session, version_ids: Iterable[int]) -> Sequence[File]:
    """All files of some versions, wheels first."""
    statement = select(File).where(File.version_id.in_(list(version_ids)))
    return session.scalars(statement.order_by(File.kind.desc(), File.filename)).all()


def find_checks(session: Session, version_id: int, limit: int) -> Sequence[VersionCheck]:
    """The newest reports about a version, the newest first."""
    statement = select(VersionCheck).where(VersionCheck.version_id == version_id)
    return session.scalars(statement.order_by(VersionCheck.id.desc()).limit(limit)).all()


def list_versions(
    session: Session, environment_id: int, cursor: str | None, limit: int
) -> tuple[list[Version], str | None]:
    """One page of complete versions, newest first by PEP 440, and the cursor of the next."""
    statement = (
        select(Version)
        .where(Version.environment_id == environment_id)
        .where(Version.status.in_(SHOWN))
        .order_by(Version.sort_key.desc())
        .limit(limit + 1)
    )
    if cursor is not None:
        (after,) = read_cursor(cursor, str)
        statement = statement.where(Version.sort_key < after)
    rows = list(session.scalars(statement))
    more = write_cursor(rows[limit - 1].sort_key) if len(rows) > limit else None
    return rows[:limit], more


def list_environments(
    session: Session, caller: Caller, wanted: EnvironmentFilter, cursor: str | None, limit: int
) -> tuple[list[ListedEnvironment], str | None]:
    """One page of what `caller` may see, best match first, and the cursor of the next."""
    rank = _rank(wanted.text)
    statement = (
        select(Environment, Owner.name, Version.version, rank)
        .join(Environment.owner)
        .outerjoin(Version, Version.id == Environment.latest_version_id)
        .where(visible_to(caller), has_versions(), *_conditions(caller, wanted))
        .order_by(*_order(wanted.text, rank))
        .limit(limit + 1)
    )
    if cursor is not None:
        statement = statement.where(_after(cursor, rank))
    rows = session.execute(statement).all()
    items = [ListedEnvironment(*row[:3]) for row in rows[:limit]]
    if len(rows) <= limit:
        return items, None
    last = rows[limit - 1]
    # Nothing of a row's id, whose gaps would tell of what is hidden (I12).
    return items, write_cursor(last[3], last[0].updated_at.isoformat(), last[1], last[0].name)


def count_environments(
    session: Session, caller: Caller, wanted: EnvironmentFilter
) -> tuple[int, bool]:
    """How many `caller` may see, and whether there are more: counting ends at a limit."""
    limit = MAX_COUNTED_MATCHES if wanted.text.strip() else MAX_COUNTED
    found = (
        select(Environment.id)
        .join(Environment.owner)
        .where(visible_to(caller), has_versions(), *_conditions(caller, wanted))
        .limit(limit + 1)
    )
    count = session.scalar(select(func.count()).select_from(found.subquery())) or 0
    return min(count, limit), count > limit


def near_names(session: Session, caller: Caller, owner: str, name: str) -> list[str]:
    """Full names that `caller` may see and that could have been meant, unranked."""
    is_near = or_(
        Owner.name == owner,
        Environment.name == name,
        Environment.name.startswith(name[:3], autoescape=True),
    )
    statement = (
        select(Owner.name, Environment.name)
        .join(Environment.owner)
        .where(visible_to(caller), has_versions(), is_near)
        .order_by((Environment.name == name).desc(), (Owner.name == owner).desc(), Environment.id)
        .limit(_NEAR_CANDIDATES)
    )
    return [f"{owner_name}/{found}" for owner_name, found in session.execute(statement)]


def has_versions() -> ColumnElement[bool]:
    """An environment of which no wheel has come yet is not there."""
    return or_(
        Environment.latest_version_id.is_not(None),
        exists()
        .where(Version.environment_id == Environment.id, Version.status.in_(SHOWN))
        .correlate(Environment),
    )


def _conditions(caller: Caller, wanted: EnvironmentFilter) -> list[ColumnElement[bool]]:
    conditions: list[ColumnElement[bool]] = []
    owner = canonicalize_name(_storable(wanted.owner)) if wanted.owner else None
    if owner is not None:
        conditions.append(Owner.name == owner)
    if wanted.category:
        conditions.append(Environment.category == _storable(wanted.category))
    if not wanted.text.strip():
        return [*conditions, *_tagged(wanted)]
    words = _words(wanted.text)
    if not words:
        return [false()]
    narrowing = Narrowing(_id_of(owner), [visible_to(caller), *_labelled(wanted)])
    conditions += [Environment.id.in_(candidates(words, narrowing))]
    # Candidates have one of the words; these are few, and can be compared in full.
    return conditions + [Environment.search_text.contains(word, autoescape=True) for word in words]


def _id_of(owner: str | None) -> ColumnElement[int] | None:
    if owner is None:
        return None
    return select(Owner.id).where(Owner.name == owner).scalar_subquery()


def _tagged(wanted: EnvironmentFilter) -> list[ColumnElement[bool]]:
    if not wanted.tag:
        return []
    tagged = select(EnvironmentTag.environment_id)
    return [Environment.id.in_(tagged.where(EnvironmentTag.tag == _storable(wanted.tag)))]


def _labelled(wanted: EnvironmentFilter) -> list[ColumnElement[bool]]:
    """The filters by category and tag, for one environment after the other."""
    conditions: list[ColumnElement[bool]] = []
    if wanted.category:
        conditions.append(Environment.category == _storable(wanted.category))
    if wanted.tag:
        has_tag = exists().where(
            EnvironmentTag.environment_id == Environment.id,
            EnvironmentTag.tag == _storable(wanted.tag),
        )
        conditions.append(has_tag.correlate(Environment))
    return conditions


def _words(text: str) -> list[str]:
    return words_of(_storable(text))


def _storable(text: str) -> str:
    """Without what some databases refuse as a parameter."""
    return text.replace("\0", " ")


def _rank(text: str) -> ColumnElement[int]:
    """How well a row matches, 0 the best: the name, its start, its middle, anything else."""
    words = _words(text)
    if not words:
        return literal(0, Integer)
    name = "-".join(words)
    return case(
        (Environment.name == name, 0),
        (Environment.name.startswith(words[0], autoescape=True), 1),
        (Environment.name.contains(words[0], autoescape=True), 2),
        else_=3,
    )


def _order(text: str, rank: ColumnElement[int]) -> list[ColumnElement[Any]]:
    """Best match first, then the newest; the name makes the order total."""
    order: list[ColumnElement[Any]] = [Environment.updated_at.desc()]
    order += [Owner.name.asc(), Environment.name.asc()]
    # Sorting by a constant would keep a database from using the index on the time.
    return [rank, *order] if _words(text) else order


def _after(cursor: str, rank: ColumnElement[int]) -> ColumnElement[bool]:
    last_rank, updated_at, owner, name = read_cursor(cursor, int, str, str, str)
    try:
        given = datetime.fromisoformat(updated_at)
        when = given.astimezone(UTC)
    except (ValueError, OverflowError):
        raise invalid_cursor(cursor) from None
    if given.tzinfo is None:
        raise invalid_cursor(cursor)
    is_same_time = and_(rank == last_rank, Environment.updated_at == when)
    return or_(
        rank > last_rank,
        and_(rank == last_rank, Environment.updated_at < when),
        and_(is_same_time, Owner.name > owner),
        and_(is_same_time, Owner.name == owner, Environment.name > name),
    )
