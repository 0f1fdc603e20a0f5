"""What the operator does on the hub's own machine, whoever owns what is there."""

from dataclasses import replace

from sqlalchemy import select
from sqlalchemy.orm import Session, joinedload

from strop.errors import ConfigError
from strop.hub.refs import EnvRef
from strop.hub.wire import EnvironmentStatus, Scope
from strop_hub.audit.service import Act
from strop_hub.auth import Caller, caller_of
from strop_hub.db import now
from strop_hub.hub import Hub
from strop_hub.models import Claim, Environment, Owner, User
from strop_hub.publish.rules import check_claimable
from strop_hub.releases import deletion, standing
from strop_hub.releases.subject import Request, Subject, find_subject


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


def claim(hub: Hub, ref: EnvRef) -> str | None:
    """Give an environment its name on the shared index; gives who had it until now.

    Raises:
        NotFoundError: It is not there.
        InvalidRequestError: It is private, or the operator keeps the name from everybody.
    """
    request = _request(hub, ref, "claim")

    def change(session: Session) -> str | None:
        subject = find_subject(session, request, Scope.ADMIN, also_admins=True)
        check_claimable(subject.environment, subject.full_name, hub.settings)
        name = subject.environment.name
        held = session.get(Claim, name)
        if held is None:
            session.add(Claim(name=name, environment_id=subject.environment.id))
            subject.note(session, request.act)
            return None
        if held.environment_id == subject.environment.id:
            return None
        environment = session.get_one(Environment, held.environment_id)
        owner = session.get_one(Owner, environment.owner_id)
        former = Subject(owner, environment, subject.caller)
        held.environment_id, held.claimed_at = subject.environment.id, now()
        # Whoever keeps pages is told of both.
        former.note(session, replace(request.act, action="unclaim"))
        subject.note(session, request.act)
        return former.full_name

    return hub.database.write(change)


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
