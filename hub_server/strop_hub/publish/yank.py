"""Yank a version, and take it back: it still resolves when named exactly, and is never chosen."""

from dataclasses import replace

from sqlalchemy.orm import Session

from strop.hub.refs import normalize_name
from strop.hub.wire import Scope, VersionDetail
from strop_hub.audit.feed import append_event
from strop_hub.audit.service import Act, note
from strop_hub.auth import Caller, recognise_again, require
from strop_hub.db import now
from strop_hub.hub import Hub
from strop_hub.models import Environment, Version
from strop_hub.publish.latest import clean, refresh_latest
from strop_hub.registry.service import require_environment, require_version, show_version


def yank(
    hub: Hub, caller: Caller, ref: tuple[str, str, str], act: Act, *, reason: str
) -> VersionDetail:
    """Yank the version ``(owner, name, version)``; again with another reason: the newer holds.

    Raises:
        NotFoundError: It is not there, or not for the caller.
        ForbiddenError: The caller may not.
    """

    def change(session: Session) -> None:
        environment, version = _find(session, caller, ref)
        if version.yanked_at is not None and version.yank_reason == clean(reason):
            return
        version.yanked_at = version.yanked_at or now()
        version.yank_reason = clean(reason)
        _note(session, caller, act, environment, version, owner=ref[0])

    hub.database.write(change)
    return show_version(hub, _reading(caller), *ref)


def unyank(hub: Hub, caller: Caller, ref: tuple[str, str, str], act: Act) -> VersionDetail:
    """Take a yank back; without effect on a version that is not yanked.

    Raises:
        NotFoundError: It is not there, or not for the caller.
        ForbiddenError: The caller may not.
    """

    def change(session: Session) -> None:
        environment, version = _find(session, caller, ref)
        if version.yanked_at is None:
            return
        version.yanked_at = version.yank_reason = None
        _note(session, caller, act, environment, version, owner=ref[0])

    hub.database.write(change)
    return show_version(hub, _reading(caller), *ref)


def _find(
    session: Session, caller: Caller, ref: tuple[str, str, str]
) -> tuple[Environment, Version]:
    owner, name, number = ref
    current = recognise_again(session, caller)
    # First whether the caller may see it: a refusal must not tell that it is there.
    environment = require_environment(session, _reading(current), owner, name)
    require(current, Scope.YANK, normalize_name(owner), environment.name)
    return environment, require_version(session, environment, normalize_name(owner), number)


def _reading(caller: Caller) -> Caller:
    # A token that may yank shows its user what it yanks, without the scope for everything else.
    if not caller.has_scope(Scope.YANK):
        return caller
    return replace(caller, scopes=caller.scopes | {Scope.READ})


def _note(
    session: Session,
    caller: Caller,
    act: Act,
    environment: Environment,
    version: Version,
    *,
    owner: str,
) -> None:
    refresh_latest(session, environment, normalize_name(owner))
    append_event(session, environment, act.action, version.version)
    note(session, caller, act, detail=version.yank_reason or "")
