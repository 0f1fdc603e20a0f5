"""Which version an environment shows itself through, and the extracts of its manifest."""

import json
import re

from sqlalchemy import Row, bindparam, delete, insert, select
from sqlalchemy.orm import Session

from strop_hub.db import now
from strop_hub.models import Environment, EnvironmentTag, Version, VersionStatus
from strop_hub.search import terms_of, write_terms

_REFUSED = re.compile("[\x00\ud800-\udfff]")
# In two steps, each of which ends at the first row of an index, however many versions there are.
_NEWEST = (
    select(Version.id, Version.manifest_json)
    .where(
        Version.environment_id == bindparam("environment_id"),
        Version.status == VersionStatus.VISIBLE,
        Version.is_prerelease == bindparam("is_prerelease"),
    )
    .order_by(Version.sort_key.desc())
    .limit(1)
)
_NEWEST_LEFT = _NEWEST.where(Version.yanked_at.is_(None))


def refresh_latest(session: Session, environment: Environment, owner: str) -> None:
    """Point at the latest version, and copy what lists and searches need of it.

    When all are yanked there is no latest, and the newest still tells what it is about.
    """
    session.flush()
    chosen = _newest(session, environment, is_yanked=False)
    shown = chosen or _newest(session, environment, is_yanked=True)
    environment.latest_version_id = None if chosen is None else chosen.id
    environment.updated_at = now()
    if shown is not None:
        _extract(session, environment, owner, shown.manifest_json)


def clean(text: str) -> str:
    """`text` without what a database refuses in a column: NUL and lone surrogates."""
    return _REFUSED.sub("\ufffd", text)


def _newest(session: Session, environment: Environment, *, is_yanked: bool) -> Row[int, str] | None:
    """The newest that is not yanked, or of all; a pre-release only when there is nothing else."""
    statement = _NEWEST if is_yanked else _NEWEST_LEFT
    for is_prerelease in (False, True):
        wanted = {"environment_id": environment.id, "is_prerelease": is_prerelease}
        row = session.connection().execute(statement, wanted).one_or_none()
        if row is not None:
            return row
    return None


def _extract(session: Session, environment: Environment, owner: str, manifest_json: str) -> None:
    manifest = json.loads(manifest_json)
    environment.summary = clean(manifest.get("summary") or "")
    environment.category = clean(manifest.get("category") or "")
    tags = [clean(tag) for tag in manifest.get("tags") or []]
    words = [owner, environment.name, environment.summary, environment.category, *tags]
    search_text = " ".join(words).lower()
    if environment.search_text != search_text:
        environment.search_text = search_text
        write_terms(session, environment, terms_of(words[:2], search_text))
    if environment.tags != tags:
        environment.tags = tags
        _write_tags(session, environment)


def _write_tags(session: Session, environment: Environment) -> None:
    session.execute(delete(EnvironmentTag).where(EnvironmentTag.environment_id == environment.id))
    rows = [
        {"environment_id": environment.id, "tag": tag} for tag in dict.fromkeys(environment.tags)
    ]
    if rows:
        session.execute(insert(EnvironmentTag), rows)
