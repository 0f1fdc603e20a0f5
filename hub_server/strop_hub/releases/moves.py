"""Rename owners and transfer environments; earlier names lead on until the owner ends that."""

from dataclasses import replace

from sqlalchemy import func, select, update
from sqlalchemy.orm import Session

from strop.errors import InvalidRefError
from strop.hub.refs import normalize_name
from strop.hub.wire import EnvironmentDetail, Scope
from strop_hub.accounts.names import owner_name
from strop_hub.audit.feed import append_event
from strop_hub.audit.service import Act, note
from strop_hub.auth import Caller, recognise_again, require
from strop_hub.db import now
from strop_hub.errors import (
    ConflictError,
    InvalidRequestError,
    NameTakenError,
    NotFoundError,
    ReservedNameError,
)
from strop_hub.hub import Hub
from strop_hub.models import (
    Environment,
    EnvironmentRedirect,
    File,
    Owner,
    OwnerRedirect,
    Token,
    Tombstone,
    Version,
)
from strop_hub.publish import rules
from strop_hub.publish.latest import refresh_latest
from strop_hub.registry.service import show_environment
from strop_hub.releases.subject import Request, Subject, find_subject, is_administrator


def rename_owner(hub: Hub, caller: Caller, owner: str, new: str, act: Act) -> str:
    """Give an owner another name; gives its normal form. Nobody else ever gets the former.

    Raises:
        ForbiddenError: The caller is neither an owner of it nor an administrator.
        NameTakenError: Some owner has the new name, or had it.
    """
    old, new = _normal(owner), _normal(new)
    owner_name(new)
    if old == rules.SDK_NAME:
        raise ReservedNameError(f"`{old}` is the SDK's own owner and keeps its name.")

    def change(session: Session) -> None:
        current = _require_owner(session, caller, old)
        row = session.scalar(select(Owner).where(Owner.name == old))
        if row is None:
            raise NotFoundError(f"there is no owner `{old}`")
        if new == old:
            return
        _take_name(session, row, new)
        row.name = new
        session.add(OwnerRedirect(name=old, owner_id=row.id))
        _rename_limits(session, old, new)
        environments = session.scalars(select(Environment).where(Environment.owner_id == row.id))
        for environment in environments.all():
            refresh_latest(session, environment, new)
            append_event(session, environment, "rename", was=f"{old}/{environment.name}")
        note(session, current, replace(act, target=old), detail=new)

    hub.database.write(change)
    return new


def transfer(hub: Hub, request: Request, new_owner: str) -> EnvironmentDetail:
    """Give an environment to another owner; its former name leads to the new one.

    Raises:
        NotFoundError: It is not there, or not for the caller.
        ForbiddenError: The caller does not own both.
        ConflictError: The new owner has, or had, something of that name.
        QuotaExceededError: The new owner has no room for its files.
    """
    new = _normal(new_owner)

    def change(session: Session) -> None:
        subject = find_subject(session, request, Scope.ADMIN, also_admins=True)
        if not is_administrator(subject.caller):
            require(subject.caller, Scope.ADMIN, new)
        target = session.scalar(select(Owner).where(Owner.name == new))
        if target is None:
            raise NotFoundError(f"there is no owner `{new}`")
        if target.id == subject.owner.id:
            return
        _move(session, hub, subject, target)
        refresh_latest(session, subject.environment, new)
        append_event(session, subject.environment, "transfer", was=subject.full_name)
        note(session, subject.caller, replace(request.act, target=subject.full_name), detail=new)

    hub.database.write(change)
    caller = request.reading(Scope.ADMIN).caller
    return show_environment(hub, caller, new, request.name)


def end_owner_redirect(hub: Hub, caller: Caller, old: str, act: Act) -> None:
    """Let an owner's former name lead nowhere; nobody else gets it nevertheless.

    Raises:
        NotFoundError: There is none, or the caller does not own where it leads.
    """

    def change(session: Session) -> None:
        redirect = session.get(OwnerRedirect, _normal(old))
        owner = None if redirect is None else session.get(Owner, redirect.owner_id)
        if redirect is None or owner is None:
            raise NotFoundError(f"`{old}` leads nowhere")
        current = _require_owner(session, caller, owner.name)
        redirect.ended_at = redirect.ended_at or now()
        note(session, current, act)

    hub.database.write(change)


def end_redirect(hub: Hub, request: Request, was: str) -> None:
    """Let an environment's former name, under the owner `was`, lead nowhere.

    Raises:
        NotFoundError: There is none, or the environment is not for the caller.
    """

    def change(session: Session) -> None:
        subject = find_subject(session, request, Scope.ADMIN, also_admins=True)
        former = session.scalar(select(Owner.id).where(Owner.name == _normal(was)))
        redirect = session.get(EnvironmentRedirect, (former or 0, subject.environment.name))
        if redirect is None or redirect.environment_id != subject.environment.id:
            raise NotFoundError(f"`{was}/{request.name}` does not lead to `{subject.full_name}`")
        redirect.ended_at = redirect.ended_at or now()
        note(session, subject.caller, replace(request.act, target=f"{was}/{request.name}"))

    hub.database.write(change)


def _require_owner(session: Session, caller: Caller, name: str) -> Caller:
    current = recognise_again(session, caller)
    if not is_administrator(current):
        require(current, Scope.ADMIN, name)
    return current


def _take_name(session: Session, owner: Owner, new: str) -> None:
    """An owner may go back to a name that it had; nobody else may take it."""
    redirect = session.get(OwnerRedirect, new)
    if redirect is not None and redirect.owner_id == owner.id:
        session.delete(redirect)
    elif redirect is not None or session.scalar(select(Owner.id).where(Owner.name == new)):
        raise NameTakenError(f"the name `{new}` is taken. Choose another.")


def _rename_limits(session: Session, old: str, new: str) -> None:
    limited = Token.limited_to.startswith(f"{old}/", autoescape=True) | (Token.limited_to == old)
    for token in session.scalars(select(Token).where(limited)):
        token.limited_to = new + (token.limited_to or "").removeprefix(old)


def _move(session: Session, hub: Hub, subject: Subject, target: Owner) -> None:
    environment, former = subject.environment, subject.owner
    here = session.get(EnvironmentRedirect, (target.id, environment.name))
    is_back = here is not None and here.environment_id == environment.id
    is_led_on = here is not None and here.ended_at is None and not is_back
    taken = select(Environment.id).where(
        Environment.owner_id == target.id, Environment.name == environment.name
    )
    if is_led_on or session.scalar(taken) is not None:
        raise ConflictError(
            f"`{target.name}/{environment.name}` is taken. Rename one of them first."
        )
    if is_back:
        session.delete(here)
    size_bytes = session.scalar(
        select(func.coalesce(func.sum(File.stored_bytes), 0)).where(
            File.environment_id == environment.id
        )
    )
    rules.take_space(session, target, int(size_bytes or 0), hub.settings)
    session.execute(
        update(Owner)
        .where(Owner.id == former.id)
        .values(stored_bytes=Owner.stored_bytes - int(size_bytes or 0))
    )
    _spend_numbers(session, environment, former, target)
    environment.owner_id = target.id
    session.flush()
    old = session.get(EnvironmentRedirect, (former.id, environment.name))
    if old is None:
        old = EnvironmentRedirect(owner_id=former.id, name=environment.name)
        session.add(old)
    old.environment_id, old.ended_at = environment.id, None


def _spend_numbers(
    session: Session, environment: Environment, former: Owner, target: Owner
) -> None:
    """Numbers that were used under either name are never used for something else there."""
    spent = select(Tombstone.canonical_version).where(Tombstone.name == environment.name)
    at_former = set(session.scalars(spent.where(Tombstone.owner_id == former.id)))
    at_target = set(session.scalars(spent.where(Tombstone.owner_id == target.id)))
    living = set(
        session.scalars(
            select(Version.canonical_version).where(Version.environment_id == environment.id)
        )
    )
    session.add_all(
        Tombstone(owner_id=owner.id, name=environment.name, canonical_version=number)
        for owner, numbers in (
            (former, living - at_former),
            (target, at_former - at_target - living),
        )
        for number in sorted(numbers)
    )


def _normal(text: str) -> str:
    try:
        return normalize_name(text)
    except InvalidRefError as error:
        raise InvalidRequestError(str(error)) from None
