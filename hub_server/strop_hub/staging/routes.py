"""Staged releases over HTTP."""

from typing import Annotated, Any

from fastapi import APIRouter, Depends, Request, Response

from strop.hub.wire import API_PREFIX, Problem, ReleaseDetail, ReleaseRequest
from strop_hub.answers import answer
from strop_hub.audit.service import Act
from strop_hub.dependencies import CallerOf, HubParts, audited
from strop_hub.hub import in_thread
from strop_hub.publish.service import Body
from strop_hub.staging import publication, service

_RELEASE = "/releases/{key}"
_REFUSALS: dict[int | str, dict[str, Any]] = {
    status: {"model": Problem} for status in (400, 401, 403, 404, 409, 413, 415, 422, 503, 507)
}
_FORM: dict[str, Any] = {
    "requestBody": {
        "required": True,
        "content": {
            "multipart/form-data": {
                "schema": {
                    "type": "object",
                    "anyOf": [{"required": ["wheel"]}, {"required": ["sdist"]}],
                    "properties": {
                        name: {"type": "string", "format": "binary"}
                        for name in ("wheel", "source", "sdist")
                    },
                }
            }
        },
    }
}
router = APIRouter(prefix=API_PREFIX, tags=["staging"], responses=_REFUSALS)


@router.post(
    "/releases", operation_id="open_release", status_code=201, response_model=ReleaseDetail
)
async def open_release(
    hub: HubParts,
    wanted: ReleaseRequest,
    act: Annotated[Act, Depends(audited("open-release"))],
    caller: CallerOf,
) -> Response:
    """Begin a release of several files that become visible in one step."""
    limiter = hub.workers.database
    return answer(await in_thread(limiter, service.open_release, hub, caller, wanted, act), 201)


@router.get(_RELEASE, operation_id="show_release", response_model=ReleaseDetail)
async def show_release(hub: HubParts, caller: CallerOf, key: str) -> Response:
    """What a release holds, and how far it has come."""
    return answer(await in_thread(hub.workers.database, service.show_release, hub, caller, key))


@router.post(
    _RELEASE + "/files",
    operation_id="stage_files",
    response_model=ReleaseDetail,
    openapi_extra=_FORM,
)
async def stage_files(
    hub: HubParts,
    key: str,
    request: Request,
    act: Annotated[Act, Depends(audited("stage"))],
    caller: CallerOf,
) -> Response:
    """Add a wheel with its source, or a source distribution; nobody sees them yet."""
    headers = request.headers
    body = Body(request.stream(), headers.get("content-type", ""), headers.get("content-length"))
    return answer(await publication.add_files(hub, caller, key, body))


@router.post(_RELEASE + "/publish", operation_id="publish_release", response_model=ReleaseDetail)
async def publish_release(
    hub: HubParts,
    key: str,
    act: Annotated[Act, Depends(audited("publish-release"))],
    caller: CallerOf,
) -> Response:
    """Let all of a release be seen at once, or none of it."""
    limiter = hub.workers.archive
    return answer(await in_thread(limiter, publication.publish_release, hub, caller, key, act))


@router.delete(_RELEASE, operation_id="abandon_release", status_code=204, response_class=Response)
async def abandon_release(
    hub: HubParts,
    key: str,
    act: Annotated[Act, Depends(audited("abandon-release"))],
    caller: CallerOf,
) -> Response:
    """Forget a release and its files."""
    await in_thread(hub.workers.database, service.abandon_release, hub, caller, key, act)
    return Response(status_code=204)
