"""Where a file goes: whether its owner's environment takes it, and the rows (step: publish)."""

from datetime import timedelta

from packaging.utils import canonicalize_version
from sqlalchemy import bindparam, select
from sqlalchemy.orm import Session

from strop.hub.wire import EnvironmentStatus, Scope
from strop_hub.auth import Caller, recognise_again, require
from strop_hub.db import now
from strop_hub.errors import ArchivedError, QuarantinedError, VersionClosedError
from strop_hub.models import (
    Environment,
    Owner,
    Version,
    VersionStatus,
    Visibility,
)
from strop_hub.registry.moves import find_moved, moved_error
from strop_hub.settings import Settings

# Made once: to make a statement costs more than to run it.
_PLACE = (
    select(Environment)
    .join(Owner, Owner.id == Environment.owner_id)
    .where(Owner.name == bindparam("owner"), Environment.name == bindparam("name"))
)
_VERSION = select(Version).where(
    Version.environment_id == bindparam("environment_id"),
    Version.canonical_version == bindparam("canonical"),
)


def find_place(session: Session, caller: Caller, owner: str, name: str) -> Environment | None:
    """The environment that a file goes to; None when it would be new.

    Raises:
        UnauthenticatedError: The token was revoked or has expired since the upload began.
        ForbiddenError: The caller may not publish this.
        ArchivedError: It is closed for new versions.
        QuarantinedError: It may do harm.
    """
    current = recognise_again(session, caller)
    environment = session.scalar(_PLACE, {"owner": owner, "name": name})
    require(current, Scope.CREATE if environment is None else Scope.PUBLISH, owner, name)
    if environment is None and (moved := find_moved(session, current, owner, name)) is not None:
        raise moved_error(owner, name, moved)
    if environment is not None:
        _check_status(environment, f"{owner}/{name}")
    return environment


def make_environment(
    session: Session, owner: Owner, name: str, visibility: Visibility | None
) -> Environment:
    """The row of an environment that is new; `visibility` None is public."""
    environment = Environment(
        owner_id=owner.id, name=name, visibility=visibility or Visibility.PUBLIC
    )
    session.add(environment)
    session.flush()
    return environment


def find_any_version(session: Session, environment: Environment, number: str) -> Version | None:
    """A version in any state, compared as PEP 440."""
    canonical = canonicalize_version(number, strip_trailing_zero=True)
    return session.scalar(_VERSION, {"environment_id": environment.id, "canonical": canonical})


def check_open(version: Version, full_name: str, settings: Settings) -> None:
    """Refuse a further file of a version that is closed; an incomplete one waits for its wheel.

    Raises:
        VersionClosedError: It is, since a stolen token must not change what people trust.
        QuarantinedError: It may do harm.
    """
    if version.status is VersionStatus.QUARANTINED:
        raise QuarantinedError(
            f"`{full_name}@{version.version}` is quarantined: {version.quarantine_reason}. "
            "Publish a new version."
        )
    if version.status is VersionStatus.VISIBLE and is_closed(version, settings):
        raise VersionClosedError(
            f"`{full_name}@{version.version}` takes no further files: a version closes "
            f"{settings.version_open_days} days after it is published, or by `strop env close`. "
            "Publish a new version."
        )


def is_closed(version: Version, settings: Settings) -> bool:
    """Whether a version takes no further file, by its owner's will or by its age."""
    age = now() - version.published_at
    return version.closed_at is not None or age > timedelta(days=settings.version_open_days)


def _check_status(environment: Environment, full_name: str) -> None:
    reason = f": {environment.status_reason}" if environment.status_reason else ""
    if environment.status is EnvironmentStatus.ARCHIVED:
        raise ArchivedError(
            f"`{full_name}` is archived{reason}; it takes no new versions. "
            f"Its owner reopens it with `strop env archive {full_name} --undo`."
        )
    if environment.status is EnvironmentStatus.QUARANTINED:
        raise QuarantinedError(
            f"`{full_name}` is quarantined{reason}. Ask the hub's operator to release it."
        )
