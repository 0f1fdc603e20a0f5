"""Where an environment is now that had another name: read by every door (step: resolve)."""

from sqlalchemy import select
from sqlalchemy.orm import Session

from strop_hub.auth import Caller, visible_to
from strop_hub.errors import MovedError
from strop_hub.models import Environment, EnvironmentRedirect, Owner, OwnerRedirect
from strop_hub.registry.queries import has_versions


def find_moved(session: Session, caller: Caller, owner: str, name: str) -> tuple[str, str] | None:
    """The present owner and name of what was `owner`/`name` once, when `caller` may see it."""
    environment_id = _follow(session, owner, name)
    if environment_id is None:
        return None
    row = session.execute(
        select(Owner.name, Environment.name)
        .join(Owner, Owner.id == Environment.owner_id)
        .where(Environment.id == environment_id, visible_to(caller), has_versions())
    ).one_or_none()
    return None if row is None or tuple(row) == (owner, name) else (row[0], row[1])


def moved_error(owner: str, name: str, present: tuple[str, str]) -> MovedError:
    """What to say to whoever uses an earlier name."""
    return MovedError(
        f"`{owner}/{name}` is now `{present[0]}/{present[1]}`. Use that name.", *present
    )


def _follow(session: Session, owner: str, name: str) -> int | None:
    owner_id = session.scalar(select(Owner.id).where(Owner.name == owner))
    if owner_id is None:
        owner_id = session.scalar(
            select(OwnerRedirect.owner_id).where(
                OwnerRedirect.name == owner, OwnerRedirect.ended_at.is_(None)
            )
        )
    if owner_id is None:
        return None
    there = select(Environment.id).where(Environment.owner_id == owner_id, Environment.name == name)
    moved = select(EnvironmentRedirect.environment_id).where(
        EnvironmentRedirect.owner_id == owner_id,
        EnvironmentRedirect.name == name,
        EnvironmentRedirect.ended_at.is_(None),
    )
    found = session.scalar(there)
    return session.scalar(moved) if found is None else found
