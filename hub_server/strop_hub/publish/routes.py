"""Push a version, yank one, and take a yank back."""

from typing import Annotated, Any

from fastapi import APIRouter, Depends, Request, Response

from strop.hub.wire import API_PREFIX, Problem, PushOutcome, PushResult, VersionDetail, YankRequest
from strop_hub.answers import answer
from strop_hub.audit.service import Act
from strop_hub.dependencies import CallerOf, HubParts, audited
from strop_hub.hub import in_thread
from strop_hub.publish import service, yank
from strop_hub.publish.validate import FIELDS, FILES

_VERSION_PATH = "/environments/{owner}/{name}/versions/{version}/yank"

_FORM: dict[str, Any] = {
    "requestBody": {
        "required": True,
        "content": {
            "multipart/form-data": {
                "schema": {
                    "type": "object",
                    "required": ["wheel"],
                    "properties": {
                        **{name: {"type": "string", "format": "binary"} for name in FILES},
                        **{name: {"type": "string"} for name in FIELDS},
                    },
                }
            }
        },
    }
}
_REFUSALS: dict[int | str, dict[str, Any]] = {
    status: {"model": Problem} for status in (400, 401, 403, 404, 409, 413, 415, 422, 503, 507)
}

router = APIRouter(prefix=API_PREFIX, tags=["publish"], responses=_REFUSALS)


@router.post(
    "/owners/{owner}/versions",
    operation_id="push",
    status_code=201,
    response_model=PushResult,
    openapi_extra=_FORM,
    responses={200: {"model": PushResult, "description": "Already published; nothing changed."}},
)
async def push(
    owner: str,
    request: Request,
    act: Annotated[Act, Depends(audited("publish"))],
    caller: CallerOf,
    hub: HubParts,
) -> Response:
    """Publish a version from its wheel and its source; name and version are read from the wheel."""
    headers = request.headers
    body = service.Body(
        request.stream(), headers.get("content-type", ""), headers.get("content-length")
    )
    result = await service.push(hub, caller, owner, body, act)
    return answer(result, 201 if result.outcome is PushOutcome.PUBLISHED else 200)


@router.post(_VERSION_PATH, operation_id="yank", response_model=VersionDetail)
async def yank_version(
    *,
    owner: str,
    name: str,
    version: str,
    why: YankRequest,
    act: Annotated[Act, Depends(audited("yank"))],
    caller: CallerOf,
    hub: HubParts,
) -> Response:
    """Stop a version from being chosen; it stays there for those who name it exactly."""
    ref = (owner, name, version)
    detail = await in_thread(
        hub.workers.database, yank.yank, hub, caller, ref, act, reason=why.reason
    )
    return answer(detail)


@router.delete(_VERSION_PATH, operation_id="unyank", response_model=VersionDetail)
async def unyank_version(
    *,
    owner: str,
    name: str,
    version: str,
    act: Annotated[Act, Depends(audited("unyank"))],
    caller: CallerOf,
    hub: HubParts,
) -> Response:
    """Let a version be chosen again."""
    ref = (owner, name, version)
    return answer(await in_thread(hub.workers.database, yank.unyank, hub, caller, ref, act))
