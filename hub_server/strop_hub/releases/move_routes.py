"""Give owners and environments other names, and end where former ones lead."""

from typing import Annotated, Any

from fastapi import APIRouter, Depends, Response

from strop.hub.wire import (
    API_PREFIX,
    EnvironmentDetail,
    OwnerName,
    Problem,
    RenameRequest,
    TransferRequest,
)
from strop_hub.answers import answer
from strop_hub.audit.service import Act
from strop_hub.dependencies import CallerOf, HubParts, audited
from strop_hub.hub import in_thread
from strop_hub.releases import moves
from strop_hub.releases.routes import asked
from strop_hub.releases.subject import Request

_REFUSALS: dict[int | str, dict[str, Any]] = {
    status: {"model": Problem} for status in (401, 403, 404, 409, 413, 422, 503)
}
router = APIRouter(prefix=API_PREFIX, tags=["releases"], responses=_REFUSALS)


@router.post("/owners/{owner}/rename", operation_id="rename_owner", response_model=OwnerName)
async def rename_owner(
    hub: HubParts,
    owner: str,
    wanted: RenameRequest,
    act: Annotated[Act, Depends(audited("rename"))],
    caller: CallerOf,
) -> Response:
    """Give an owner another name; the former leads to it and is never anybody else's."""
    limiter = hub.workers.database
    new = await in_thread(limiter, moves.rename_owner, hub, caller, owner, wanted.name, act)
    return answer(OwnerName(name=new))


@router.delete(
    "/owners/{owner}/redirect",
    operation_id="end_owner_redirect",
    status_code=204,
    response_class=Response,
)
async def end_owner_redirect(
    hub: HubParts,
    owner: str,
    act: Annotated[Act, Depends(audited("end-redirect"))],
    caller: CallerOf,
) -> Response:
    """Let a former name of an owner lead nowhere."""
    await in_thread(hub.workers.database, moves.end_owner_redirect, hub, caller, owner, act)
    return Response(status_code=204)


@router.post(
    "/environments/{owner}/{name}/transfer",
    operation_id="transfer_environment",
    response_model=EnvironmentDetail,
)
async def transfer_environment(
    hub: HubParts, wanted: TransferRequest, request: Annotated[Request, Depends(asked("transfer"))]
) -> Response:
    """Give an environment to another owner; its former name leads to the new one."""
    limiter = hub.workers.blob
    return answer(await in_thread(limiter, moves.transfer, hub, request, wanted.owner))


@router.delete(
    "/environments/{owner}/{name}/redirects/{was}",
    operation_id="end_redirect",
    status_code=204,
    response_class=Response,
)
async def end_redirect(
    hub: HubParts, was: str, request: Annotated[Request, Depends(asked("end-redirect"))]
) -> Response:
    """Let an environment's name under its former owner lead nowhere."""
    await in_thread(hub.workers.database, moves.end_redirect, hub, request, was)
    return Response(status_code=204)
