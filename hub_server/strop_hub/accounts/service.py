"""Make and find users, organisations, memberships and tokens (step: accounts).

Functions that take a session run inside somebody's transaction and never commit.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from sqlalchemy import select
from sqlalchemy.orm import Session, joinedload

from strop.errors import InvalidRefError
from strop.hub.refs import EnvRef, normalize_name
from strop.hub.wire import Scope, WhoAmI
from strop_hub.accounts.names import owner_name
from strop_hub.auth import Caller, may_publish
from strop_hub.db import now
from strop_hub.errors import (
    InvalidRequestError,
    NameTakenError,
    NotFoundError,
    UnauthenticatedError,
)
from strop_hub.models import Membership, Owner, OwnerKind, OwnerRedirect, Role, Token, User
from strop_hub.tokens import digest_of, new_token, shown_prefix


@dataclass(frozen=True, slots=True, kw_only=True)
class TokenRequest:
    """What a new token may do."""

    label: str = ""
    scopes: Sequence[Scope] = (Scope.READ, Scope.CREATE, Scope.PUBLISH, Scope.YANK)
    limited_to: str | None = None
    """An owner, or ``owner/name``; None for everything that the user may do."""
    expires_at: datetime | None = None
    """None: never."""


def describe(caller: Caller) -> WhoAmI:
    """Who a caller is.

    Raises:
        UnauthenticatedError: Nobody.
    """
    if caller.name is None:
        raise UnauthenticatedError(
            "no token came with the request. Run `strop login`, or set STROP_TOKEN."
        )
    return WhoAmI(
        user=caller.name,
        is_admin=caller.is_admin,
        owners=[grant.owner for grant in caller.grants if may_publish(grant)],
        scopes=sorted(caller.scopes),
        limited_to=caller.limited_to,
        expires_at=caller.expires_at,
    )


def add_user(session: Session, name: str, *, is_admin: bool = False) -> User:
    """A new user with an owner of the same name.

    Raises:
        NameTakenError: Some owner has the name, or had it.
        ReservedNameError: The hub keeps it for itself.
    """
    owner = _add_owner(session, owner_name(name), OwnerKind.PERSON)
    user = User(owner_id=owner.id, is_admin=is_admin)
    user.owner = owner
    session.add(user)
    session.flush()
    session.add(Membership(owner_id=owner.id, user_id=user.id, role=Role.OWNER))
    return user


def add_organisation(session: Session, name: str, first_member: str) -> Owner:
    """A new organisation, with one user as its owner.

    Raises:
        NameTakenError: Some owner has the name, or had it.
        ReservedNameError: The hub keeps it for itself.
        NotFoundError: There is no such user.
    """
    owner = _add_owner(session, owner_name(name), OwnerKind.ORGANISATION)
    user = find_user(session, first_member)
    session.add(Membership(owner_id=owner.id, user_id=user.id, role=Role.OWNER))
    return owner


def ensure_sdk_owner(session: Session, name: str, user: User) -> Owner:
    """The reserved organisation that publishes the SDK, with `user` among its owners."""
    owner = session.scalar(select(Owner).where(Owner.name == name))
    if owner is None:
        owner = _add_owner(session, name, OwnerKind.ORGANISATION)
    if session.get(Membership, (owner.id, user.id)) is None:
        session.add(Membership(owner_id=owner.id, user_id=user.id, role=Role.OWNER))
    return owner


def set_member(session: Session, organisation: str, user_name: str, role: Role | None) -> None:
    """Give a user a role for an organisation; None takes it away.

    Raises:
        NotFoundError: There is no such organisation or user.
        InvalidRequestError: That would leave the organisation without an owner.
    """
    owner = session.scalar(
        select(Owner).where(
            Owner.name == normalize_name(organisation), Owner.kind == OwnerKind.ORGANISATION
        )
    )
    if owner is None:
        raise NotFoundError(f"there is no organisation `{organisation}`")
    user = find_user(session, user_name)
    membership = session.get(Membership, (owner.id, user.id))
    if membership is not None and membership.role is Role.OWNER and role is not Role.OWNER:
        _check_other_owner(session, owner, user)
    if role is None:
        if membership is not None:
            session.delete(membership)
    elif membership is None:
        session.add(Membership(owner_id=owner.id, user_id=user.id, role=role))
    else:
        membership.role = role


def set_quota(session: Session, name: str, quota_bytes: int | None) -> Owner:
    """Let an owner keep so many bytes; None for as many as everybody.

    Raises:
        NotFoundError: There is no such owner.
    """
    owner = find_owner(session, name)
    owner.quota_bytes = quota_bytes
    return owner


def find_owner(session: Session, name: str) -> Owner:
    """The person or organisation of a name.

    Raises:
        NotFoundError: There is none.
    """
    owner = session.scalar(select(Owner).where(Owner.name == normalize_name(name)))
    if owner is None:
        raise NotFoundError(f"there is no owner `{name}`. See `strop hub user list`")
    return owner


def set_disabled(session: Session, name: str, *, is_disabled: bool) -> User:
    """Let a user's tokens be worth nothing, or something again.

    Raises:
        NotFoundError: There is no such user.
        InvalidRequestError: That would leave the hub without an administrator.
    """
    user = find_user(session, name)
    others = select(User.id).where(User.is_admin, ~User.is_disabled, User.id != user.id)
    if is_disabled and user.is_admin and session.scalar(others.limit(1)) is None:
        raise InvalidRequestError(
            f"`{user.owner.name}` is the only administrator. Add another one first: "
            "strop hub user add NAME --admin"
        )
    user.is_disabled = is_disabled
    return user


def find_user(session: Session, name: str) -> User:
    """The user of a name.

    Raises:
        NotFoundError: There is none.
    """
    user = session.scalar(
        select(User)
        .join(Owner, Owner.id == User.owner_id)
        .where(Owner.name == normalize_name(name))
        .options(joinedload(User.owner))
    )
    if user is None:
        raise NotFoundError(f"there is no user `{name}`. Make one with `strop hub user add {name}`")
    return user


def list_users(session: Session) -> Sequence[User]:
    """Everybody, by name, with the owner loaded."""
    statement = select(User).join(User.owner).options(joinedload(User.owner)).order_by(Owner.name)
    return session.scalars(statement).all()


def add_token(session: Session, user: User, request: TokenRequest) -> tuple[str, Token]:
    """A new token: its text, which nobody can read again, and its row.

    Raises:
        InvalidRequestError: The limit names nothing, the expiry is past, or it has no scope.
    """
    if not request.scopes:
        raise InvalidRequestError(f"a token needs a scope: {', '.join(Scope)}")
    if request.expires_at is not None and request.expires_at <= now():
        raise InvalidRequestError(f"{request.expires_at:%Y-%m-%d %H:%M} UTC is past already")
    text = new_token()
    token = Token(
        user_id=user.id,
        label=request.label[:200],
        prefix=shown_prefix(text),
        digest=digest_of(text),
        scopes=sorted(set(request.scopes)),
        limited_to=None if request.limited_to is None else _limit(request.limited_to),
        expires_at=request.expires_at,
    )
    token.user = user
    session.add(token)
    session.flush()
    return text, token


def list_tokens(session: Session, user_name: str | None = None) -> Sequence[Token]:
    """The tokens of a user, or of everybody, oldest first, with user and owner loaded."""
    statement = (
        select(Token).options(joinedload(Token.user).joinedload(User.owner)).order_by(Token.id)
    )
    if user_name is not None:
        statement = statement.where(Token.user_id == find_user(session, user_name).id)
    return session.scalars(statement).all()


def revoke_token(session: Session, prefix: str) -> Token:
    """End the one token that begins with `prefix`; without effect when it is revoked.

    Raises:
        NotFoundError: No token begins so.
        InvalidRequestError: Several do.
    """
    shown = shown_prefix(prefix)
    found = [token for token in list_tokens(session) if token.prefix.startswith(shown)]
    if not found:
        raise NotFoundError(f"no token begins with `{shown}`. See `strop hub token list`")
    if len(found) > 1:
        raise InvalidRequestError(f"{len(found)} tokens begin with `{shown}`; give more of it")
    found[0].revoked_at = found[0].revoked_at or now()
    return found[0]


def expiry(days: int | None) -> datetime | None:
    """The time in so many days; None for 0 or None, which is never."""
    return now() + timedelta(days=days) if days else None


def _add_owner(session: Session, name: str, kind: OwnerKind) -> Owner:
    is_taken = session.scalar(select(Owner.id).where(Owner.name == name)) is not None
    # A name that an owner had leads to it, or did: nobody else ever gets it.
    if is_taken or session.get(OwnerRedirect, name) is not None:
        raise NameTakenError(f"the name `{name}` is taken. Choose another.")
    owner = Owner(name=name, kind=kind)
    session.add(owner)
    session.flush()
    return owner


def _check_other_owner(session: Session, owner: Owner, user: User) -> None:
    others = select(Membership).where(
        Membership.owner_id == owner.id,
        Membership.role == Role.OWNER,
        Membership.user_id != user.id,
    )
    if session.scalar(others.limit(1)) is None:
        raise InvalidRequestError(
            f"`{owner.name}` would be left without an owner. Make somebody else one first."
        )


def _limit(text: str) -> str:
    try:
        return EnvRef.parse(text).full_name if "/" in text else normalize_name(text)
    except InvalidRefError as error:
        raise InvalidRequestError(
            f"a token is limited to an owner or owner/name: {error}"
        ) from None
