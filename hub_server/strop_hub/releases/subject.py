"""What a request is about, when its caller may see it and may do this to it."""

from dataclasses import dataclass, replace

from sqlalchemy import select
from sqlalchemy.orm import Session

from strop.hub.refs import normalize_name
from strop.hub.wire import Scope
from strop_hub.audit.feed import append_event
from strop_hub.audit.service import Act, note
from strop_hub.auth import Caller, recognise_again, require
from strop_hub.errors import ForbiddenError
from strop_hub.models import Environment, Owner, Version
from strop_hub.publish.latest import refresh_latest
from strop_hub.registry.service import require_environment, require_version


@dataclass(frozen=True, slots=True)
class Request:
    """Who wants something done to an environment, or to one version of it."""

    caller: Caller
    owner: str
    name: str
    act: Act

    def named(self, action: str) -> "Request":
        """The same under a more exact name."""
        return replace(self, act=replace(self.act, action=action))

    def reading(self, scope: Scope) -> "Request":
        """The same by a caller who sees what the scope lets him or her change."""
        return replace(self, caller=with_sight(self.caller, scope))


@dataclass(frozen=True, slots=True)
class Subject:
    """The rows that a request is about."""

    owner: Owner
    environment: Environment
    caller: Caller
    """As the database knows him or her now."""

    @property
    def full_name(self) -> str:
        """``owner/name``."""
        return f"{self.owner.name}/{self.environment.name}"

    def version(self, session: Session, number: str) -> Version:
        """One of its versions.

        Raises:
            NotFoundError: There is none.
        """
        return require_version(session, self.environment, self.owner.name, number)

    def note(
        self, session: Session, act: Act, version: str | None = None, *, reason: str = ""
    ) -> None:
        """Tell the feed and the audit trail, and look anew which version is the latest."""
        refresh_latest(session, self.environment, self.owner.name)
        details = {"reason": reason} if reason else {}
        append_event(session, self.environment, act.action, version, **details)
        target = self.full_name if version is None else f"{self.full_name}@{version}"
        note(session, self.caller, replace(act, target=target), detail=reason)


def find_subject(
    session: Session, request: Request, scope: Scope, *, also_admins: bool = False
) -> Subject:
    """The subject of a request.

    Args:
        session: A writing one.
        request: What is asked.
        scope: What the caller must be allowed to do to the environment.
        also_admins: Whether the hub's administrators may do it to anybody's.

    Raises:
        NotFoundError: It is not there, or not for the caller.
        ForbiddenError: The caller may not.
    """
    caller = recognise_again(session, request.caller)
    # First whether the caller may see it: a refusal must not tell that it is there.
    environment = require_environment(
        session, with_sight(caller, scope), request.owner, request.name
    )
    if not (also_admins and is_administrator(caller)):
        require(caller, scope, normalize_name(request.owner), environment.name)
    owner = session.scalars(select(Owner).where(Owner.id == environment.owner_id)).one()
    return Subject(owner, environment, caller)


def is_administrator(caller: Caller) -> bool:
    """Whether the caller acts for the hub itself."""
    return caller.is_admin and Scope.ADMIN in caller.scopes and caller.limited_to is None


def require_administrator(caller: Caller) -> None:
    """Pass when the caller acts for the hub itself.

    Raises:
        ForbiddenError: Not so.
    """
    if not is_administrator(caller):
        raise ForbiddenError("only an administrator of this hub may do this. Ask its operator.")


def with_sight(caller: Caller, scope: Scope) -> Caller:
    """A token that may change something shows it, without the scope for everything else."""
    if not caller.has_scope(scope):
        return caller
    return replace(caller, scopes=caller.scopes | {Scope.READ})
