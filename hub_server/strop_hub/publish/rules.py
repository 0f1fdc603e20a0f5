"""Rules of publishing that need the database: names, quota (step: publish)."""

from packaging.requirements import Requirement
from sqlalchemy import bindparam, select, update
from sqlalchemy.orm import Session

from strop.hub.manifest import Manifest
from strop.hub.refs import EnvRef, normalize_name
from strop_hub.errors import (
    ClaimedDependencyError,
    InvalidRequestError,
    QuotaExceededError,
    ReservedNameError,
    VersionSpentError,
)
from strop_hub.models import Claim, Environment, Owner, Tombstone, Visibility
from strop_hub.settings import MIB, Settings

_SPENT = select(Tombstone.id).where(
    Tombstone.owner_id == bindparam("owner_id"),
    Tombstone.name == bindparam("name"),
    Tombstone.canonical_version == bindparam("canonical"),
)
_HOLDER = select(Claim.environment_id).where(Claim.name == bindparam("name"))
_TAKE = (
    update(Owner)
    .where(Owner.id == bindparam("owner_id"))
    .values(stored_bytes=Owner.stored_bytes + bindparam("size_bytes"))
    .returning(Owner.stored_bytes)
)

SDK_NAME = "strop"
"""The SDK's own distribution, which every hub serves as ``strop/strop``."""


def check_name(owner: str, name: str) -> None:
    """Refuse a package that would take the place of the SDK wherever it is installed.

    Raises:
        ReservedNameError: The name is the SDK's, the owner is not.
    """
    if name == SDK_NAME and owner != SDK_NAME:
        raise ReservedNameError(
            f"the name `{SDK_NAME}` is the SDK's own; installing `{owner}/{name}` would replace "
            "it. Choose another name in pyproject.toml."
        )


def check_not_spent(session: Session, owner: Owner, name: str, canonical_version: str) -> None:
    """Refuse a version that was deleted: its name is never used again.

    Raises:
        VersionSpentError: It was.
    """
    number = {"owner_id": owner.id, "name": name, "canonical": canonical_version}
    if session.connection().scalar(_SPENT, number) is not None:
        raise VersionSpentError(
            f"`{owner.name}/{name}@{canonical_version}` was deleted, and a version's number is "
            "never used again. Push with a higher number."
        )


def check_dependencies(session: Session, manifest: Manifest) -> None:
    """Refuse dependencies that a plain installer would take from somebody else's environment.

    Raises:
        ClaimedDependencyError: A dependency's name is on this hub's shared index, and the
            manifest does not name it under `requires`.
    """
    own = {normalize_name(manifest.name), SDK_NAME}
    required = {EnvRef.parse(text).name for text in manifest.requires}
    named = {normalize_name(Requirement(text).name) for text in manifest.dependencies}
    doubtful = named - own - required
    if not doubtful:
        return
    claimed = session.execute(
        select(Claim.name, Owner.name)
        .join(Environment, Environment.id == Claim.environment_id)
        .join(Owner, Owner.id == Environment.owner_id)
        .where(Claim.name.in_(doubtful))
        .order_by(Claim.name)
    )
    problems = [
        f'`{name}` is `{owner}/{name}` on this hub. Add it to `requires` (requires = ["{owner}/'
        f'{name}"]), so that it is taken from here, or depend on a package of another name'
        for name, owner in claimed
    ]
    if problems:
        raise ClaimedDependencyError("; ".join(problems), problems=problems)


def claim_name(session: Session, environment: Environment, settings: Settings) -> str | None:
    """Give a public environment its name on the shared index, when it is free.

    Returns:
        What to tell the publisher when somebody else has the name; else None.
    """
    if environment.visibility is not Visibility.PUBLIC or _is_kept(environment, settings):
        return None
    holder = session.connection().scalar(_HOLDER, {"name": environment.name})
    if holder is None:
        session.add(Claim(name=environment.name, environment_id=environment.id))
        session.flush()
        return None
    if holder == environment.id:
        return None
    return (
        f"`{environment.name}` on the shared index /simple/ belongs to another owner; "
        "plain installers find yours at /owners/<owner>/simple/ only"
    )


def check_claimable(environment: Environment, full_name: str, settings: Settings) -> None:
    """Refuse the shared index to what must not be there.

    Raises:
        InvalidRequestError: The environment is private.
        ReservedNameError: Its name is one that nobody gets.
    """
    if environment.visibility is not Visibility.PUBLIC:
        raise InvalidRequestError(f"`{full_name}` is private; /simple/ has public ones only.")
    if _is_kept(environment, settings):
        raise ReservedNameError(
            f"`{environment.name}` is on this hub's list of reserved names (`reserved_names`). "
            "Take it off the list first."
        )


def _is_kept(environment: Environment, settings: Settings) -> bool:
    return environment.name in {normalize_name(name) for name in settings.reserved_names}


def take_space(session: Session, owner: Owner, size_bytes: int, settings: Settings) -> None:
    """Count `size_bytes` more to an owner.

    Raises:
        QuotaExceededError: That is more than the owner may keep.
    """
    quota_bytes = settings.owner_quota_bytes if owner.quota_bytes is None else owner.quota_bytes
    # Counted where the row is locked, so that two uploads at once cannot both fit.
    taken = {"owner_id": owner.id, "size_bytes": size_bytes}
    stored_bytes: int = session.connection().execute(_TAKE, taken).scalar_one()
    if stored_bytes > quota_bytes:
        raise QuotaExceededError(
            f"`{owner.name}` would keep {stored_bytes / MIB:.1f} MiB of at most "
            f"{quota_bytes / MIB:.1f} MiB. Ask the hub's operator for a higher quota."
        )
