"""Report what a check found about a version, and read it."""

from typing import Annotated, Any

from fastapi import APIRouter, Depends, Response

from strop.hub.wire import API_PREFIX, CheckList, CheckReport, Problem, ReportedCheck
from strop_hub.answers import answer
from strop_hub.audit.service import Act
from strop_hub.checks import service
from strop_hub.dependencies import CallerOf, HubParts, audited
from strop_hub.hub import in_thread
from strop_hub.releases.subject import Request

_PATH = "/environments/{owner}/{name}/versions/{version}/checks"
_REFUSALS: dict[int | str, dict[str, Any]] = {
    status: {"model": Problem} for status in (401, 403, 404, 409, 413, 422, 503)
}
router = APIRouter(prefix=API_PREFIX, tags=["checks"], responses=_REFUSALS)


@router.post(_PATH, operation_id="report_check", response_model=ReportedCheck)
async def report_check(
    *,
    hub: HubParts,
    owner: str,
    name: str,
    version: str,
    report: CheckReport,
    act: Annotated[Act, Depends(audited("check"))],
    caller: CallerOf,
) -> Response:
    """Say what `strop env check` found about a version; it is shown as its author's word."""
    request = Request(caller, owner, name, act)
    limiter = hub.workers.database
    return answer(await in_thread(limiter, service.report_check, hub, request, version, report))


@router.get(_PATH, operation_id="list_checks", response_model=CheckList)
async def list_checks(
    hub: HubParts, caller: CallerOf, owner: str, name: str, version: str
) -> Response:
    """What was reported about a version, the newest first."""
    limiter = hub.workers.database
    return answer(
        await in_thread(limiter, service.list_checks, hub, caller, (owner, name), version)
    )
