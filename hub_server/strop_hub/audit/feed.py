"""Append to the change feed; serials are allotted by a locked row, held to the commit."""

from sqlalchemy import update
from sqlalchemy.orm import Session

from strop_hub import postgres
from strop_hub.models import Counter, Environment, Event, Visibility

SERIAL = "serial"
PUBLIC_SERIAL = "public_serial"


def append_event(
    session: Session,
    environment: Environment,
    action: str,
    version: str | None = None,
    **details: str,
) -> Event:
    """Note a change in the writing transaction that makes it.

    A database's own sequence would be visible out of order: followers would miss events.
    """
    is_public = environment.visibility is Visibility.PUBLIC
    event = Event(
        serial=next_value(session, SERIAL),
        public_serial=next_value(session, PUBLIC_SERIAL) if is_public else None,
        action=action,
        environment_id=environment.id,
        version=version,
        details=details,
    )
    session.add(event)
    postgres.notify(session.connection())
    return event


def next_value(session: Session, name: str) -> int:
    """Raise a counter by one; its row stays locked until the transaction ends."""
    raised = update(Counter).where(Counter.name == name).values(value=Counter.value + 1)
    value: int | None = session.scalar(raised.returning(Counter.value))
    if value is None:
        # Two writers that both find no row: the constraint stops one, which then tries again.
        session.add(Counter(name=name, value=1))
        session.flush()
        return 1
    return value
