"""Which version an environment shows itself through, and the extracts of its manifest."""

import json
import re

from sqlalchemy import delete, select
from sqlalchemy.orm import Session

from strop_hub.db import now
from strop_hub.models import Environment, EnvironmentTag, Version, VersionStatus
from strop_hub.search import terms_of, write_terms

_REFUSED = re.compile("[\x00\ud800-\udfff]")


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
        _extract(session, environment, owner, shown)


def clean(text: str) -> str:
    """`text` without what a database refuses in a column: NUL and lone surrogates."""
    return _REFUSED.sub("\ufffd", text)


def _newest(session: Session, environment: Environment, *, is_yanked: bool) -> Version | None:
    yanked = Version.yanked_at.is_not(None) if is_yanked else Version.yanked_at.is_(None)
    return session.scalar(
        select(Version)
        .where(
            Version.environment_id == environment.id,
            Version.status == VersionStatus.VISIBLE,
            yanked,
        )
        # A pre-release only when there is nothing else.
        .order_by(Version.is_prerelease, Version.sort_key.desc())
        .limit(1)
    )


def _extract(session: Session, environment: Environment, owner: str, version: Version) -> None:
    manifest = json.loads(version.manifest_json)
    environment.summary = clean(manifest.get("summary") or "")
    environment.category = clean(manifest.get("category") or "")
    environment.tags = [clean(tag) for tag in manifest.get("tags") or []]
    words = [owner, environment.name, environment.summary, environment.category, *environment.tags]
    search_text = " ".join(words).lower()
    if environment.search_text != search_text:
        environment.search_text = search_text
        write_terms(session, environment.id, terms_of(words[:2], search_text))
    session.execute(delete(EnvironmentTag).where(EnvironmentTag.environment_id == environment.id))
    session.add_all(
        EnvironmentTag(environment_id=environment.id, tag=tag)
        for tag in dict.fromkeys(environment.tags)
    )
