"""What owners and administrators do to what is published."""

from collections.abc import Callable
from typing import Annotated, Any

from fastapi import APIRouter, Depends, Response

from strop.hub.wire import (
    API_PREFIX,
    EnvironmentDetail,
    Problem,
    PurgeRequest,
    StatusRequest,
    TagList,
    TagRequest,
    VersionDetail,
    YankRequest,
)
from strop_hub.answers import answer
from strop_hub.audit.service import Act
from strop_hub.dependencies import CallerOf, HubParts, audited
from strop_hub.hub import in_thread
from strop_hub.releases import deletion, standing, tags
from strop_hub.releases.subject import Request

_ENVIRONMENT = "/environments/{owner}/{name}"
_VERSION = _ENVIRONMENT + "/versions/{version}"
_REFUSALS: dict[int | str, dict[str, Any]] = {
    status: {"model": Problem} for status in (401, 403, 404, 409, 422, 503)
}
router = APIRouter(prefix=API_PREFIX, tags=["releases"], responses=_REFUSALS)


def asked(action: str) -> Callable[..., Request]:
    """A dependency that says who wants what done to which environment."""

    def read(
        owner: str, name: str, act: Annotated[Act, Depends(audited(action))], caller: CallerOf
    ) -> Request:
        return Request(caller, owner, name, act)

    return read


@router.put(_ENVIRONMENT + "/status", operation_id="set_status", response_model=EnvironmentDetail)
async def set_status(
    hub: HubParts, wanted: StatusRequest, request: Annotated[Request, Depends(asked("status"))]
) -> Response:
    """Deprecate, archive or quarantine an environment, or make it active again."""
    request = request.named(standing.ACTIONS[wanted.status])
    limiter = hub.workers.database
    return answer(
        await in_thread(limiter, standing.set_status, hub, request, wanted.status, wanted.reason)
    )


@router.post(
    _VERSION + "/quarantine", operation_id="quarantine_version", response_model=VersionDetail
)
async def quarantine_version(
    hub: HubParts,
    version: str,
    why: YankRequest,
    request: Annotated[Request, Depends(asked("quarantine"))],
) -> Response:
    """Stop a version from being resolved and served."""
    limiter = hub.workers.database
    return answer(
        await in_thread(limiter, standing.set_quarantine, hub, request, version, why.reason)
    )


@router.delete(
    _VERSION + "/quarantine", operation_id="release_version", response_model=VersionDetail
)
async def release_version(
    hub: HubParts, version: str, request: Annotated[Request, Depends(asked("release"))]
) -> Response:
    """Lift a version's quarantine; for administrators."""
    limiter = hub.workers.database
    return answer(await in_thread(limiter, standing.set_quarantine, hub, request, version, None))


@router.post(_VERSION + "/close", operation_id="close_version", response_model=VersionDetail)
async def close_version(
    hub: HubParts, version: str, request: Annotated[Request, Depends(asked("close"))]
) -> Response:
    """Let a version take no further file, for ever."""
    return answer(await in_thread(hub.workers.database, standing.close, hub, request, version))


@router.delete(_VERSION, operation_id="delete_version", status_code=204, response_class=Response)
async def delete_version(
    hub: HubParts, version: str, request: Annotated[Request, Depends(asked("delete"))]
) -> Response:
    """Take a version away; its number is never used again."""
    await in_thread(hub.workers.database, deletion.delete_versions, hub, request, version)
    return Response(status_code=204)


@router.delete(
    _ENVIRONMENT, operation_id="delete_environment", status_code=204, response_class=Response
)
async def delete_environment(
    hub: HubParts, request: Annotated[Request, Depends(asked("delete"))]
) -> Response:
    """Take every version of an environment away; their numbers are never used again."""
    await in_thread(hub.workers.database, deletion.delete_versions, hub, request, None)
    return Response(status_code=204)


@router.post(
    _ENVIRONMENT + "/purge", operation_id="purge", status_code=204, response_class=Response
)
async def purge(
    hub: HubParts, wanted: PurgeRequest, request: Annotated[Request, Depends(asked("purge"))]
) -> Response:
    """Erase versions with their bytes, metadata and pages; for administrators."""
    limiter = hub.workers.blob
    await in_thread(limiter, deletion.purge, hub, request, wanted.version, wanted.reason)
    return Response(status_code=204)


@router.get(_ENVIRONMENT + "/tags", operation_id="list_tags", response_model=TagList)
async def list_tags(hub: HubParts, caller: CallerOf, owner: str, name: str) -> Response:
    """The tags that the owner set; `latest` is computed and not among them."""
    return answer(await in_thread(hub.workers.database, tags.list_tags, hub, caller, owner, name))


@router.get(_ENVIRONMENT + "/tags/{tag}", operation_id="show_tag", response_model=TagList)
async def show_tag(hub: HubParts, caller: CallerOf, owner: str, name: str, tag: str) -> Response:
    """Where a tag has pointed, the newest step first."""
    limiter = hub.workers.database
    return answer(await in_thread(limiter, tags.show_history, hub, caller, owner, name, tag))


@router.put(_ENVIRONMENT + "/tags/{tag}", operation_id="set_tag", response_model=TagList)
async def set_tag(
    hub: HubParts, tag: str, wanted: TagRequest, request: Annotated[Request, Depends(asked("tag"))]
) -> Response:
    """Point a tag to a version."""
    limiter = hub.workers.database
    return answer(await in_thread(limiter, tags.set_tag, hub, request, tag, wanted.version))


@router.delete(_ENVIRONMENT + "/tags/{tag}", operation_id="remove_tag", response_model=TagList)
async def remove_tag(
    hub: HubParts, tag: str, request: Annotated[Request, Depends(asked("untag"))]
) -> Response:
    """Take a tag away; its history stays."""
    return answer(await in_thread(hub.workers.database, tags.remove_tag, hub, request, tag))
