"""Deprecate, archive and quarantine environments; quarantine and close versions."""

from sqlalchemy.orm import Session

from strop.hub.wire import EnvironmentDetail, EnvironmentStatus, Scope, VersionDetail
from strop_hub.db import now
from strop_hub.errors import ForbiddenError
from strop_hub.hub import Hub
from strop_hub.models import VersionStatus
from strop_hub.publish.latest import clean
from strop_hub.registry.service import show_environment, show_version
from strop_hub.releases.subject import Request, Subject, find_subject, is_administrator

ACTIONS = {
    EnvironmentStatus.ACTIVE: "activate",
    EnvironmentStatus.DEPRECATED: "deprecate",
    EnvironmentStatus.ARCHIVED: "archive",
    EnvironmentStatus.QUARANTINED: "quarantine",
}


def set_status(
    hub: Hub, request: Request, status: EnvironmentStatus, reason: str
) -> EnvironmentDetail:
    """Say how an environment is to be taken; the same again changes nothing.

    Raises:
        NotFoundError: It is not there, or not for the caller.
        ForbiddenError: The caller may not; only administrators lift a quarantine.
    """

    def change(session: Session) -> None:
        subject = find_subject(session, request, Scope.YANK, also_admins=True)
        environment = subject.environment
        if (environment.status, environment.status_reason or "") == (status, clean(reason)):
            return
        if environment.status is EnvironmentStatus.QUARANTINED:
            _require_lifting(subject, subject.full_name)
        environment.status = status
        environment.status_reason = clean(reason) or None
        subject.note(session, request.act, reason=clean(reason))

    hub.database.write(change)
    return show_environment(hub, request.reading(Scope.YANK).caller, request.owner, request.name)


def set_quarantine(hub: Hub, request: Request, number: str, reason: str | None) -> VersionDetail:
    """Stop a version from being resolved and served; with `reason` None let it be again.

    Raises:
        NotFoundError: It is not there, or not for the caller.
        ForbiddenError: The caller may not; only administrators lift a quarantine.
    """

    def change(session: Session) -> None:
        subject = find_subject(session, request, Scope.YANK, also_admins=True)
        version = subject.version(session, number)
        is_quarantined = version.status is VersionStatus.QUARANTINED
        if reason is None:
            if not is_quarantined:
                return
            _require_lifting(subject, f"{subject.full_name}@{version.version}")
            version.status, version.quarantine_reason = VersionStatus.VISIBLE, None
        else:
            if is_quarantined and version.quarantine_reason == clean(reason):
                return
            version.status, version.quarantine_reason = VersionStatus.QUARANTINED, clean(reason)
        subject.note(session, request.act, version.version, reason=clean(reason or ""))

    hub.database.write(change)
    caller = request.reading(Scope.YANK).caller
    return show_version(hub, caller, request.owner, request.name, number)


def close(hub: Hub, request: Request, number: str) -> VersionDetail:
    """Let a version take no further file, for ever.

    Raises:
        NotFoundError: It is not there, or not for the caller.
        ForbiddenError: The caller may not.
    """

    def change(session: Session) -> None:
        subject = find_subject(session, request, Scope.PUBLISH)
        version = subject.version(session, number)
        if version.closed_at is None:
            version.closed_at = now()
            subject.note(session, request.act, version.version)

    hub.database.write(change)
    caller = request.reading(Scope.PUBLISH).caller
    return show_version(hub, caller, request.owner, request.name, number)


def _require_lifting(subject: Subject, what: str) -> None:
    if not is_administrator(subject.caller):
        raise ForbiddenError(
            f"`{what}` is quarantined, and only an administrator lifts a quarantine. "
            "Ask the hub's operator."
        )
