"""Quarantine and purge by the operator on the hub's own machine, whoever owns what is there."""

from sqlalchemy import select
from sqlalchemy.orm import joinedload

from strop.errors import ConfigError
from strop.hub.refs import EnvRef
from strop.hub.wire import EnvironmentStatus
from strop_hub.audit.service import Act
from strop_hub.auth import Caller, caller_of
from strop_hub.hub import Hub
from strop_hub.models import User
from strop_hub.releases import deletion, standing
from strop_hub.releases.subject import Request


def quarantine(hub: Hub, ref: EnvRef, reason: str, *, undo: bool = False) -> str:
    """Quarantine an environment or one version of it, or lift that; gives what it is now.

    Raises:
        NotFoundError: It is not there.
    """
    action = "release" if undo else "quarantine"
    request = _request(hub, ref, action)
    if ref.version is not None:
        why = None if undo else reason
        version = standing.set_quarantine(hub, request, str(ref.version), why)
        return "quarantined" if version.is_quarantined else "active"
    status = EnvironmentStatus.ACTIVE if undo else EnvironmentStatus.QUARANTINED
    return str(standing.set_status(hub, request, status, reason).status)


def purge(hub: Hub, ref: EnvRef, reason: str) -> list[deletion.PurgeRecord]:
    """Erase a version, or all of an environment's.

    Raises:
        NotFoundError: It is not there.
    """
    number = None if ref.version is None else str(ref.version)
    return deletion.purge(hub, _request(hub, ref, "purge"), number, reason)


def _request(hub: Hub, ref: EnvRef, action: str) -> Request:
    act = Act(action, str(ref), address="operator")
    return Request(_administrator(hub), ref.owner, ref.name, act)


def _administrator(hub: Hub) -> Caller:
    with hub.database.read() as session:
        statement = select(User).where(User.is_admin).options(joinedload(User.owner))
        user = session.scalars(statement.order_by(User.id)).first()
        if user is None:
            raise ConfigError("this hub has no administrator. Run `strop hub init --admin NAME`.")
        return caller_of(session, user)
