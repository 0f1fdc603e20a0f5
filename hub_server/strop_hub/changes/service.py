"""Read the change feed; the public one is for everybody, the whole one for administrators."""

from packaging.utils import canonicalize_name
from sqlalchemy import func, select
from sqlalchemy.orm import Session

from strop.hub.wire import Change, ChangePage, Scope
from strop_hub.auth import Caller, visible_to
from strop_hub.errors import ForbiddenError
from strop_hub.hub import Hub
from strop_hub.models import Environment, Event, Owner


def list_changes(
    hub: Hub, caller: Caller, since: int, limit: int, *, is_whole: bool = False
) -> ChangePage:
    """Events after the serial `since`, in order.

    Args:
        hub: The hub's parts.
        caller: Who asks.
        since: The last serial that the follower has seen; 0 from the beginning.
        limit: How many at most.
        is_whole: Also what is private, under serials of its own.

    Raises:
        ForbiddenError: The whole feed is for administrators: its serials count what is hidden.
    """
    if is_whole and not _may_see_all(caller):
        raise ForbiddenError(
            "the whole feed is for administrators of this hub. Leave `whole` out for the public one"
        )
    with hub.database.read() as session:
        return read_changes(session, since, limit, is_whole=is_whole)


def read_changes(session: Session, since: int, limit: int, *, is_whole: bool) -> ChangePage:
    """As `list_changes`, for a caller who may."""
    serial = Event.serial if is_whole else Event.public_serial
    statement = (
        select(Event, serial, Owner.name, Environment.name)
        .join(Environment, Environment.id == Event.environment_id)
        .join(Owner, Owner.id == Environment.owner_id)
        .where(serial > since)
        .order_by(serial)
        .limit(limit)
    )
    items = [_change(*row) for row in session.execute(statement)]
    return ChangePage(items=items, last_serial=session.scalar(select(func.max(serial))) or 0)


def newest_changes(session: Session, limit: int, owner: str = "", name: str = "") -> list[Change]:
    """The newest public events, the newest first; of one owner or environment when named."""
    statement = (
        select(Event, Event.public_serial, Owner.name, Environment.name)
        .join(Environment, Environment.id == Event.environment_id)
        .join(Owner, Owner.id == Environment.owner_id)
        .where(Event.public_serial.is_not(None), visible_to(Caller.anonymous()))
        .order_by(Event.public_serial.desc())
        .limit(limit)
    )
    if owner:
        statement = statement.where(Owner.name == canonicalize_name(owner.replace("\0", " ")))
    if name:
        statement = statement.where(Environment.name == canonicalize_name(name.replace("\0", " ")))
    return [_change(*row) for row in session.execute(statement)]


def _change(event: Event, serial: int | None, owner: str, name: str) -> Change:
    return Change(
        serial=serial or 0,
        action=event.action,
        owner=owner,
        name=name,
        version=event.version,
        details=event.details,
        happened_at=event.happened_at,
    )


def _may_see_all(caller: Caller) -> bool:
    return caller.is_admin and Scope.ADMIN in caller.scopes and caller.limited_to is None
