"""What a resolution chooses from: loaded in a few statements, however many references ask."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

from packaging.utils import canonicalize_version
from packaging.version import Version as Number
from sqlalchemy import ColumnElement, and_, select, tuple_
from sqlalchemy.orm import Session

from strop.hub.refs import LATEST, EnvRef
from strop.hub.wire import EnvironmentStatus
from strop_hub.auth import Caller, visible_to
from strop_hub.models import SHOWN, Environment, Owner, Version, VersionStatus, VersionTag
from strop_hub.registry.queries import has_versions

_CHUNK = 50
"""Names in one statement, which looks up every combination of their parts; see `_pairs`."""


@dataclass(frozen=True)
class Candidate:
    """As much of a version as choosing needs."""

    id: int
    environment_id: int
    text: str
    sort_key: str
    is_prerelease: bool
    digest: str
    requires_python: str | None
    is_yanked: bool
    yank_reason: str | None
    is_quarantined: bool = False
    quarantine_reason: str | None = None

    @cached_property
    def number(self) -> Number:
        """Parsed, to be compared with ranges."""
        return Number(self.text)


@dataclass(slots=True)
class Shelf:
    """The candidates of one environment; perhaps only those that the references so far name."""

    environment_id: int
    latest_id: int | None
    status: EnvironmentStatus = EnvironmentStatus.ACTIVE
    status_reason: str | None = None
    tags: dict[str, str] = field(default_factory=dict)
    """The versions that tags point to, of those tags that were asked for."""
    candidates: dict[int, Candidate] = field(default_factory=dict)
    is_whole: bool = False

    def untagged(self, reference: EnvRef) -> EnvRef:
        """A reference by tag as one to the version that the tag points to."""
        version = self.tags.get(reference.tag or "")
        return (
            reference if version is None else replace(reference, tag=None, version=Number(version))
        )

    @property
    def newest_first(self) -> list[Candidate]:
        """By PEP 440."""
        return sorted(self.candidates.values(), key=lambda found: found.sort_key, reverse=True)


def load_shelves(
    session: Session, caller: Caller, references: Iterable[EnvRef]
) -> dict[str, Shelf]:
    """Shelves by full name, for those environments that `caller` may see.

    A shelf holds the latest version and those named exactly or by digest; all of an environment's
    versions only where a reference gives a range.
    """
    wanted = list(references)
    names = sorted({(reference.owner, reference.name) for reference in wanted})
    shelves: dict[str, Shelf] = {}
    for start in range(0, len(names), _CHUNK):
        statement = (
            select(
                Owner.name,
                Environment.name,
                Environment.id,
                Environment.latest_version_id,
                Environment.status,
                Environment.status_reason,
            )
            .join(Environment.owner)
            .where(_pairs(Owner.name, Environment.name, names[start : start + _CHUNK]))
            .where(visible_to(caller), has_versions())
        )
        for owner, name, key, latest, status, reason in session.execute(statement):
            shelves[f"{owner}/{name}"] = Shelf(key, latest, status, reason)
    known = [reference for reference in wanted if reference.full_name in shelves]
    for start in range(0, len(known), _CHUNK):
        _fill(session, shelves, known[start : start + _CHUNK])
    return shelves


def fill_whole(session: Session, shelf: Shelf) -> None:
    """Put all of the environment's versions on its shelf."""
    if not shelf.is_whole:
        _put(session, {shelf.environment_id: shelf}, Version.environment_id == shelf.environment_id)
        shelf.is_whole = True


def _fill(session: Session, shelves: dict[str, Shelf], references: list[EnvRef]) -> None:
    whole, exact, latest = set(), set(), set()
    _load_tags(session, shelves, references)
    references = [shelves[one.full_name].untagged(one) for one in references]
    by_digest: list[ColumnElement[bool]] = []
    for reference in references:
        shelf = shelves[reference.full_name]
        if reference.version is not None:
            exact.add((shelf.environment_id, canonicalize_version(reference.version)))
        elif reference.digest is not None:
            # Hex digits only, so nothing in the prefix is a wildcard.
            starts = Version.digest.startswith(reference.digest)
            by_digest.append((Version.environment_id == shelf.environment_id) & starts)
        elif reference.specifier is not None:
            whole.add(shelf.environment_id)
            shelf.is_whole = True
        elif shelf.latest_id is not None:
            latest.add(shelf.latest_id)
    conditions: list[ColumnElement[bool]] = []
    if whole:
        conditions.append(Version.environment_id.in_(sorted(whole)))
    if exact:
        conditions.append(_pairs(Version.environment_id, Version.canonical_version, sorted(exact)))
    if latest:
        conditions.append(Version.id.in_(sorted(latest)))
    for condition in [*conditions, *by_digest]:
        # One statement a condition: each then has an index of its own.
        _put(session, {shelf.environment_id: shelf for shelf in shelves.values()}, condition)


def _load_tags(session: Session, shelves: dict[str, Shelf], references: list[EnvRef]) -> None:
    wanted = {
        (shelves[one.full_name].environment_id, one.tag): shelves[one.full_name]
        for one in references
        if one.tag not in (None, LATEST)
    }
    if not wanted:
        return
    statement = (
        select(VersionTag.environment_id, VersionTag.tag, Version.version)
        .join(Version, Version.id == VersionTag.version_id)
        .where(_pairs(VersionTag.environment_id, VersionTag.tag, sorted(wanted)))
    )
    for environment_id, tag, version in session.execute(statement):
        wanted[environment_id, tag].tags[tag] = version


def _pairs(first: Any, second: Any, wanted: Sequence[tuple[Any, Any]]) -> ColumnElement[bool]:
    """Whether two columns together hold one of the pairs.

    SQLite looks at every row for pairs alone; for values of each column it uses their index.
    """
    return and_(
        first.in_({pair[0] for pair in wanted}),
        second.in_({pair[1] for pair in wanted}),
        tuple_(first, second).in_(wanted),
    )


def _put(session: Session, shelves: dict[int, Shelf], condition: ColumnElement[bool]) -> None:
    statement = select(
        Version.id,
        Version.environment_id,
        Version.version,
        Version.sort_key,
        Version.is_prerelease,
        Version.digest,
        Version.requires_python,
        Version.yanked_at,
        Version.yank_reason,
        Version.status,
        Version.quarantine_reason,
    ).where(condition, Version.status.in_(SHOWN))
    for row in session.execute(statement):
        found = Candidate(
            id=row.id,
            environment_id=row.environment_id,
            text=row.version,
            sort_key=row.sort_key,
            is_prerelease=row.is_prerelease,
            digest=row.digest or "",
            requires_python=row.requires_python,
            is_yanked=row.yanked_at is not None,
            yank_reason=row.yank_reason,
            is_quarantined=row.status is VersionStatus.QUARANTINED,
            quarantine_reason=row.quarantine_reason,
        )
        shelves[found.environment_id].candidates[found.id] = found
