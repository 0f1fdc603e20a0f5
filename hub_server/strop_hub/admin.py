"""What an operator does to a hub on its own machine: make it, serve it, let people in."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import TypeVar

from sqlalchemy import select
from sqlalchemy.orm import Session, joinedload

from strop.errors import ConfigError
from strop.hub.refs import normalize_name
from strop.hub.wire import Scope
from strop_hub import postgres
from strop_hub.accounts import service as accounts
from strop_hub.accounts.service import TokenRequest
from strop_hub.audit.service import Act, note
from strop_hub.auth import Caller, caller_of
from strop_hub.db import Database, read_url
from strop_hub.errors import ForbiddenError, VersionExistsError
from strop_hub.hub import Hub
from strop_hub.migration import current_revision, migrate
from strop_hub.models import Owner, Role, Token, User
from strop_hub.publish import sdk
from strop_hub.publish.rules import SDK_NAME
from strop_hub.settings import Settings

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class InitResult:
    """What `init` made."""

    admin: str
    token: str | None
    """Shown this once; None when the administrator was there already."""
    sdk_version: str | None
    """The version of ``strop/strop`` that the hub serves now; None when it was left out."""
    warnings: list[str] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class UserLine:
    """A user in a list."""

    name: str
    is_admin: bool
    is_disabled: bool
    created_at: datetime


@dataclass(frozen=True, slots=True)
class SpaceLine:
    """What an owner keeps, and may keep."""

    owner: str
    stored_bytes: int
    quota_bytes: int
    is_default: bool
    """Whether the quota is everybody's."""


@dataclass(frozen=True, slots=True)
class TokenLine:
    """A token in a list; its secret is not kept."""

    user: str
    prefix: str
    label: str
    scopes: list[str]
    limited_to: str | None
    created_at: datetime
    expires_at: datetime | None
    last_used_at: datetime | None
    revoked_at: datetime | None


def init(settings: Settings, admin: str, *, with_sdk: bool = True) -> InitResult:
    """Create the data folder, the tables and an administrator; publish the running SDK.

    It can be repeated: what is there stays, an SDK of another tree is added.

    Raises:
        HubError: `admin` is no usable name, or the hub has another administrator.
    """
    with open_hub(settings) as hub:
        token = hub.database.write(lambda session: _ensure_admin(session, admin, settings))
        name = normalize_name(admin)
        if not with_sdk:
            return InitResult(name, token, None)
        try:
            result = sdk.publish_sdk(hub, _caller(hub, name))
        except VersionExistsError as error:
            return InitResult(name, token, None, [sdk.describe_conflict(error)])
        return InitResult(name, token, result.version.version, list(result.warnings))


def user_add(settings: Settings, name: str, *, is_admin: bool = False) -> UserLine:
    """Add a user, who gets an owner of the same name."""

    def add(session: Session) -> UserLine:
        user = accounts.add_user(session, name, is_admin=is_admin)
        session.flush()
        _note(session, "user-add", user.owner.name)
        return _user_line(user)

    return _write(settings, add)


def user_list(settings: Settings) -> list[UserLine]:
    """Everybody, by name."""
    return _write(settings, lambda session: [*map(_user_line, accounts.list_users(session))])


def user_disable(settings: Settings, name: str, *, is_disabled: bool = True) -> UserLine:
    """Let all tokens of a user be worth nothing from now on, or something again."""

    def change(session: Session) -> UserLine:
        user = accounts.set_disabled(session, name, is_disabled=is_disabled)
        _note(session, "user-disable" if is_disabled else "user-enable", user.owner.name)
        return _user_line(user)

    return _write(settings, change)


def space_show(settings: Settings, owner: str) -> SpaceLine:
    """What an owner keeps, and may keep."""
    return _write(
        settings, lambda session: _space_line(settings, accounts.find_owner(session, owner))
    )


def quota_set(settings: Settings, owner: str, quota_bytes: int | None) -> SpaceLine:
    """Let an owner keep so many bytes; None for as many as everybody."""

    def change(session: Session) -> SpaceLine:
        row = accounts.set_quota(session, owner, quota_bytes)
        _note(session, "quota", f"{row.name}: {'default' if quota_bytes is None else quota_bytes}")
        return _space_line(settings, row)

    return _write(settings, change)


def organisation_add(settings: Settings, name: str, first_member: str) -> str:
    """Add an organisation with its first owner; gives its normal name."""

    def add(session: Session) -> str:
        owner = accounts.add_organisation(session, name, first_member)
        _note(session, "organisation-add", owner.name)
        return owner.name

    return _write(settings, add)


def member_set(settings: Settings, organisation: str, user: str, role: Role | None) -> None:
    """Give a user a role for an organisation; None takes it away."""

    def change(session: Session) -> None:
        accounts.set_member(session, organisation, user, role)
        _note(session, "member-set", f"{organisation}: {user} {role or 'removed'}")

    _write(settings, change)


def token_create(
    settings: Settings,
    user: str,
    *,
    scopes: Sequence[Scope] | None = None,
    limited_to: str | None = None,
    label: str = "",
    days: int | None = None,
) -> tuple[str, TokenLine]:
    """Make a token; its text is given here and never again.

    Args:
        settings: The hub's.
        user: Whose.
        scopes: None for everything but `admin`.
        limited_to: An owner, or ``owner/name``.
        label: What it is for.
        days: Until it expires; None for the hub's default, 0 for never.
    """
    days = settings.token_lifetime_days if days is None else days
    wanted = {} if scopes is None else {"scopes": scopes}

    def add(session: Session) -> tuple[str, TokenLine]:
        request = TokenRequest(
            label=label, limited_to=limited_to, expires_at=accounts.expiry(days), **wanted
        )
        text, token = accounts.add_token(session, accounts.find_user(session, user), request)
        _note(session, "token-create", f"{user}: {token.prefix}")
        return text, _token_line(token)

    return _write(settings, add)


def token_list(settings: Settings, user: str | None = None) -> list[TokenLine]:
    """The tokens of a user, or of everybody, oldest first."""
    return _write(
        settings, lambda session: [*map(_token_line, accounts.list_tokens(session, user))]
    )


def token_revoke(settings: Settings, prefix: str) -> TokenLine:
    """End the one token that begins with `prefix`."""

    def revoke(session: Session) -> TokenLine:
        token = accounts.revoke_token(session, prefix)
        _note(session, "token-revoke", f"{token.user.owner.name}: {token.prefix}")
        return _token_line(token)

    return _write(settings, revoke)


def has_users(hub: Hub) -> bool:
    """Whether anybody can push to this hub."""
    with hub.database.read() as session:
        return session.scalar(select(User.id).limit(1)) is not None


def check_made(settings: Settings) -> None:
    """Look whether there is a hub already, for what must not make an empty one.

    Raises:
        ConfigError: The data folder has no database, or the database that is set has no tables.
    """
    url = read_url(settings.database)
    is_file = url.get_backend_name() == "sqlite"
    # Whoever opens a file that is not there makes it.
    is_there = not is_file or Path(url.database or "").is_file()
    if is_there and _has_tables(settings):
        return
    if settings.database_url:
        place, option = f"the database {url.render_as_string()} (STROP_HUB_DATABASE_URL)", ""
    else:
        place, option = str(settings.data), f" --data {settings.data}"
    raise ConfigError(
        f"there is no hub in {place}. Name the right one, or make one: "
        f"strop hub init{option} --admin NAME"
    )


def _has_tables(settings: Settings) -> bool:
    database = Database.open(settings.database)
    try:
        with postgres.named_faults(database.engine.url):
            return current_revision(database) is not None
    finally:
        database.close()


@contextmanager
def open_hub(settings: Settings) -> Iterator[Hub]:
    """The hub's parts over a database of this version's schema.

    Raises:
        ConfigError: PostgreSQL lets nobody in, or is lost in the block.
    """
    hub = Hub.open(settings)
    try:
        with postgres.named_faults(hub.database.engine.url):
            migrate(hub.database)
            yield hub
    finally:
        hub.close()


def _write(settings: Settings, fn: Callable[[Session], T]) -> T:
    check_made(settings)
    with open_hub(settings) as hub:
        return hub.database.write(fn)


def _ensure_admin(session: Session, admin: str, settings: Settings) -> str | None:
    name = normalize_name(admin)
    user = session.scalar(
        select(User).join(User.owner).where(Owner.name == name).options(joinedload(User.owner))
    )
    token = None
    if user is None:
        if session.scalar(select(User.id).limit(1)) is not None:
            raise ForbiddenError(
                f"this hub has users already, and `{name}` is none of them. "
                f"Add an administrator with `strop hub user add {name} --admin`."
            )
        user = accounts.add_user(session, name, is_admin=True)
        request = TokenRequest(
            label="made by strop hub init",
            scopes=[Scope.ADMIN],
            expires_at=accounts.expiry(settings.token_lifetime_days),
        )
        token, _ = accounts.add_token(session, user, request)
        _note(session, "init", name)
    if not user.is_admin:
        raise ForbiddenError(f"`{name}` is a user of this hub, but no administrator.")
    accounts.ensure_sdk_owner(session, SDK_NAME, user)
    return token


def _caller(hub: Hub, name: str) -> Caller:
    with hub.database.read() as session:
        return caller_of(session, accounts.find_user(session, name))


def _note(session: Session, action: str, target: str) -> None:
    note(session, Caller.anonymous(), Act(action, target, address="operator"))


def _user_line(user: User) -> UserLine:
    return UserLine(user.owner.name, user.is_admin, user.is_disabled, user.created_at)


def _space_line(settings: Settings, owner: Owner) -> SpaceLine:
    is_default = owner.quota_bytes is None
    quota_bytes = settings.owner_quota_bytes if owner.quota_bytes is None else owner.quota_bytes
    return SpaceLine(owner.name, owner.stored_bytes, quota_bytes, is_default)


def _token_line(token: Token) -> TokenLine:
    return TokenLine(
        user=token.user.owner.name,
        prefix=token.prefix,
        label=token.label,
        scopes=list(token.scopes),
        limited_to=token.limited_to,
        created_at=token.created_at,
        expires_at=token.expires_at,
        last_used_at=token.last_used_at,
        revoked_at=token.revoked_at,
    )
