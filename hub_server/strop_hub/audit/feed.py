"""Append to the change feed; serials are allotted by a locked row, held to the commit."""

from sqlalchemy import bindparam, insert, update
from sqlalchemy.orm import Session

from strop_hub import postgres
from strop_hub.models import Counter, Environment, Event, Visibility

SERIAL = "serial"
PUBLIC_SERIAL = "public_serial"

_RAISE = (
    update(Counter)
    .where(Counter.name.in_(bindparam("names", expanding=True)))
    .values(value=Counter.value + 1)
    .returning(Counter.name, Counter.value)
)
_APPEND = insert(Event)


def append_event(
    session: Session,
    environment: Environment,
    action: str,
    version: str | None = None,
    **details: str,
) -> None:
    """Note a change in the writing transaction that makes it.

    A database's own sequence would be visible out of order: followers would miss events.
    """
    is_public = environment.visibility is Visibility.PUBLIC
    serials = next_values(session, [SERIAL, PUBLIC_SERIAL] if is_public else [SERIAL])
    event = {
        "serial": serials[SERIAL],
        "public_serial": serials.get(PUBLIC_SERIAL),
        "action": action,
        "environment_id": environment.id,
        "version": version,
        "details": details,
    }
    session.connection().execute(_APPEND, event)
    postgres.notify(session.connection())


def next_values(session: Session, names: list[str]) -> dict[str, int]:
    """Raise counters by one; their rows stay locked until the transaction ends."""
    raised = session.connection().execute(_RAISE, {"names": names})
    values: dict[str, int] = {row.name: row.value for row in raised}
    for name in names:
        if name not in values:
            # Two writers that both find no row: the constraint stops one, which then tries again.
            session.add(Counter(name=name, value=1))
            session.flush()
            values[name] = 1
    return values
