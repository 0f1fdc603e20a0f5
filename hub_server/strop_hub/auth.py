"""Who is calling, and the one place that answers "may X do Y to Z"."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from types import MappingProxyType
from typing import Any, Self

from sqlalchemy import ColumnElement, Select, and_, bindparam, false, or_, select, true
from sqlalchemy.orm import Session, aliased

from strop.hub.wire import Scope
from strop_hub.db import Database, now
from strop_hub.errors import (
    ExpiredTokenError,
    ForbiddenError,
    MissingScopeError,
    UnauthenticatedError,
)
from strop_hub.models import Environment, Membership, Owner, Role, Token, User, Visibility
from strop_hub.tokens import digest_of, invalid_token, read_authorization

_ROLES_FOR: Mapping[Scope, frozenset[Role]] = MappingProxyType(
    {
        Scope.READ: frozenset(Role),
        Scope.CREATE: frozenset({Role.OWNER, Role.PUBLISHER}),
        Scope.PUBLISH: frozenset({Role.OWNER, Role.PUBLISHER}),
        Scope.YANK: frozenset({Role.OWNER, Role.PUBLISHER}),
        Scope.ADMIN: frozenset({Role.OWNER}),
    }
)

_GRANTS = (
    select(Owner.id.label("owner_id"), Owner.name.label("owner"), Membership.role)
    .join(Membership, Membership.owner_id == Owner.id)
    .join(User, User.id == Membership.user_id)
    .where(User.id == bindparam("user_id"))
    .order_by(Owner.id != User.owner_id, Owner.name)
)
_PERSON = aliased(Owner)
# Asked up to three times a request, so in one statement that is made once: a row a grant.
_TOKENS = (
    select(
        Token.id,
        Token.prefix,
        Token.scopes,
        Token.limited_to,
        Token.expires_at,
        Token.revoked_at,
        User.id.label("user_id"),
        User.is_admin,
        User.is_disabled,
        _PERSON.name.label("person"),
        Owner.id.label("owner_id"),
        Owner.name.label("owner"),
        Membership.role,
    )
    .join(User, User.id == Token.user_id)
    .join(_PERSON, _PERSON.id == User.owner_id)
    .outerjoin(Membership, Membership.user_id == User.id)
    .outerjoin(Owner, Owner.id == Membership.owner_id)
    .order_by(Owner.id != User.owner_id, Owner.name)
)
_BY_DIGEST = _TOKENS.where(Token.digest == bindparam("digest"))
_BY_ID = _TOKENS.where(Token.id == bindparam("token_id"))


@dataclass(frozen=True, slots=True)
class Grant:
    """A role that the caller's user has for an owner."""

    owner_id: int
    owner: str
    role: Role


@dataclass(frozen=True, slots=True)
class Caller:
    """Whoever sends a request; with `user_id` None nobody in particular."""

    user_id: int | None = None
    name: str | None = None
    is_admin: bool = False
    """Whether the user is an administrator of this hub; counts only with the scope `admin`."""
    token_id: int | None = None
    token_prefix: str | None = None
    scopes: frozenset[Scope] = frozenset()
    limited_to: str | None = None
    expires_at: datetime | None = None
    grants: tuple[Grant, ...] = field(default=())

    @classmethod
    def anonymous(cls) -> Self:
        """Somebody without credentials."""
        return cls()

    def has_scope(self, scope: Scope) -> bool:
        """Whether the token may do this kind of thing at all."""
        return scope in self.scopes or Scope.ADMIN in self.scopes

    def reaches(self, owner: str, name: str | None) -> bool:
        """Whether the token's limit includes an owner, or one environment of it."""
        if self.limited_to is None:
            return True
        return self.limited_to in (owner, f"{owner}/{name}")


def recognise(database: Database, authorization: str) -> Caller:
    """The caller behind an Authorization header.

    Raises:
        InvalidTokenError: The header holds no token that is valid here.
        ExpiredTokenError: The token was valid until some time ago.
    """
    digest = digest_of(read_authorization(authorization))
    with database.read() as session:
        return _caller_by(session, _BY_DIGEST, {"digest": digest})


def recognise_again(session: Session, caller: Caller) -> Caller:
    """The same caller as the database knows him or her now; a long upload can outlive a token.

    Raises:
        UnauthenticatedError: The token was revoked or has expired since.
    """
    if caller.token_id is None:
        return caller
    return _caller_by(session, _BY_ID, {"token_id": caller.token_id})


def require(caller: Caller, scope: Scope, owner: str, name: str | None = None) -> None:
    """Pass when the caller may do what `scope` stands for to an owner's environment.

    One refusal for owners that are not there and owners of other people, so that nothing can be
    learnt from it.

    Raises:
        UnauthenticatedError: Nobody is calling.
        ForbiddenError: The user has no such role for the owner.
        MissingScopeError: The user may, but not with this token.
    """
    target = owner if name is None else f"{owner}/{name}"
    if caller.user_id is None:
        raise UnauthenticatedError(
            f"`{target}` needs a token with the scope `{scope}`. "
            "Run `strop login`, or set STROP_TOKEN."
        )
    if not _has_role(caller, scope, owner):
        raise ForbiddenError(
            f"`{caller.name}` may not {scope} as `{owner}`. Use an owner that "
            "`strop whoami` lists, or ask one of the owner's members to add you."
        )
    # Before the scope: beyond its limit a token must not learn whether to create or to publish.
    if not caller.reaches(owner, name):
        raise MissingScopeError(
            f"the token is limited to `{caller.limited_to}` and is worth nothing for `{target}`. "
            "Use a token without that limit."
        )
    if not caller.has_scope(scope):
        held = ", ".join(sorted(caller.scopes)) or "nothing"
        raise MissingScopeError(
            f"the token lacks the scope `{scope}` (it has: {held}). "
            f"Make one with `strop hub token create --scope {scope}`."
        )


def caller_of(session: Session, user: User) -> Caller:
    """A user who needs no token: the operator acting as that user, or before the token counts."""
    rows = session.connection().execute(_GRANTS, {"user_id": user.id})
    return Caller(
        user_id=user.id,
        name=user.owner.name,
        is_admin=user.is_admin,
        scopes=frozenset({Scope.ADMIN}),
        grants=tuple(Grant(row.owner_id, row.owner, row.role) for row in rows),
    )


def may_publish(grant: Grant) -> bool:
    """Whether a role lets its user publish as the owner."""
    return grant.role in _ROLES_FOR[Scope.PUBLISH]


def visible_to(caller: Caller) -> ColumnElement[bool]:
    """The condition on `Environment` that every read carries (I12)."""
    is_public = Environment.visibility == Visibility.PUBLIC
    if not caller.has_scope(Scope.READ):
        return is_public
    if caller.is_admin and Scope.ADMIN in caller.scopes and caller.limited_to is None:
        return true()
    return or_(is_public, *(_reached(caller, grant) for grant in caller.grants))


def _reached(caller: Caller, grant: Grant) -> ColumnElement[bool]:
    is_owners = Environment.owner_id == grant.owner_id
    if caller.limited_to in (None, grant.owner):
        return is_owners
    owner, _, name = caller.limited_to.partition("/") if caller.limited_to else ("", "", "")
    return and_(is_owners, Environment.name == name) if owner == grant.owner else false()


def _has_role(caller: Caller, scope: Scope, owner: str) -> bool:
    allowed = _ROLES_FOR[scope]
    return any(grant.owner == owner and grant.role in allowed for grant in caller.grants)


def _caller_by(
    session: Session, statement: Select[*tuple[Any, ...]], parameters: dict[str, Any]
) -> Caller:
    rows = session.connection().execute(statement, parameters).all()
    if not rows or rows[0].revoked_at is not None or rows[0].is_disabled:
        raise invalid_token()
    token = rows[0]
    if token.expires_at is not None and token.expires_at <= now():
        raise ExpiredTokenError(
            f"the token `{token.prefix}…` expired on {token.expires_at:%Y-%m-%d}. "
            "Make a new one with `strop hub token create`."
        )
    return Caller(
        user_id=token.user_id,
        name=token.person,
        is_admin=token.is_admin,
        token_id=token.id,
        token_prefix=token.prefix,
        scopes=frozenset(Scope(scope) for scope in token.scopes),
        limited_to=token.limited_to,
        expires_at=token.expires_at,
        grants=tuple(
            Grant(row.owner_id, row.owner, row.role) for row in rows if row.owner_id is not None
        ),
    )
