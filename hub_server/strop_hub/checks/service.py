"""Keep and show what authors report about their versions; nothing of it is tried or trusted."""

import json
from dataclasses import replace
from datetime import timedelta

from sqlalchemy import delete, func, select
from sqlalchemy.orm import Session

from strop.hub.refs import normalize_name
from strop.hub.wire import CheckList, CheckReport, ReportedCheck, Scope
from strop_hub.audit.feed import append_event
from strop_hub.audit.service import note
from strop_hub.auth import Caller
from strop_hub.db import now
from strop_hub.errors import ConflictError, InvalidRequestError, TooLargeError
from strop_hub.hub import Hub
from strop_hub.models import Version, VersionCheck
from strop_hub.registry.queries import find_checks
from strop_hub.registry.service import require_environment, require_version
from strop_hub.registry.views import reported_check
from strop_hub.releases.subject import Request, find_subject

MAX_REPORT_BYTES = 64 * 1024
"""Of a report as JSON with ASCII escapes."""
MAX_REPORTS = 20
"""Of one version; the oldest go."""
_CLOCKS_DIFFER = timedelta(hours=24)


def report_check(hub: Hub, request: Request, number: str, report: CheckReport) -> ReportedCheck:
    """Keep a report as a version's newest; the newest one again changes nothing.

    Raises:
        NotFoundError: The version is not there, or not for the caller.
        ForbiddenError: The caller may not publish it.
        ConflictError: The report is about another wheel.
        InvalidRequestError: It was made in the future.
        TooLargeError: It is longer than reports are.
    """
    text = json.dumps(report.model_dump(mode="json"), sort_keys=True)
    if len(text) > MAX_REPORT_BYTES:
        raise TooLargeError(
            f"the report has {len(text)} bytes, at most {MAX_REPORT_BYTES} are kept. "
            "Check with this hub's version of strop."
        )

    def keep(session: Session) -> ReportedCheck:
        subject = find_subject(session, request, Scope.PUBLISH)
        version = subject.version(session, number)
        target = f"{subject.full_name}@{version.version}"
        _check(report, version, target)
        newest = find_checks(session, version.id, 1)
        if newest and newest[0].report_json == text:
            return reported_check(newest[0])
        row = VersionCheck(
            version_id=version.id,
            report_json=text,
            reported_at=now(),
            reported_by=subject.caller.name or "",
        )
        session.add(row)
        session.flush()
        _forget_oldest(session, version)
        # Not `subject.note`: a report neither changes the latest version nor makes it newer.
        append_event(session, subject.environment, request.act.action, version.version)
        note(session, subject.caller, replace(request.act, target=target))
        return reported_check(row)

    return hub.database.write(keep)


def list_checks(hub: Hub, caller: Caller, ref: tuple[str, str], number: str) -> CheckList:
    """What was reported about a version, the newest first.

    Raises:
        NotFoundError: It is not there, or not for `caller`.
    """
    owner, name = ref
    with hub.database.read() as session:
        environment = require_environment(session, caller, owner, name)
        version = require_version(session, environment, normalize_name(owner), number)
        rows = find_checks(session, version.id, MAX_REPORTS)
    return CheckList(items=[reported_check(row) for row in rows])


def _check(report: CheckReport, version: Version, target: str) -> None:
    if report.digest != version.digest:
        raise ConflictError(
            f"the report is about another wheel (sha256 {report.digest[:12]}…) than that of "
            f"`{target}` ({version.digest}). Check the tree that was pushed."
        )
    if report.checked_at > now() + _CLOCKS_DIFFER:
        raise InvalidRequestError(
            f"the check was made at {report.checked_at.isoformat()}, which is still to come. "
            "Set the clock of the machine that checks."
        )


def _forget_oldest(session: Session, version: Version) -> None:
    kept = (
        select(VersionCheck.id)
        .where(VersionCheck.version_id == version.id)
        .order_by(VersionCheck.id.desc())
        .limit(MAX_REPORTS)
    )
    oldest = select(func.min(kept.subquery().c.id)).scalar_subquery()
    session.execute(
        delete(VersionCheck).where(VersionCheck.version_id == version.id, VersionCheck.id < oldest)
    )
