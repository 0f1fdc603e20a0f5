"""The read API: list, show, resolve, download."""

from typing import Annotated, Any

from fastapi import APIRouter, Query, Response

from strop.hub.wire import (
    API_PREFIX,
    EnvironmentDetail,
    EnvironmentPage,
    Problem,
    ResolveRequest,
    ResolveResult,
    VersionDetail,
    VersionPage,
)
from strop_hub.answers import answer
from strop_hub.content_response import ContentResponse
from strop_hub.dependencies import CallerOf, HubParts
from strop_hub.hub import in_thread
from strop_hub.page_parameters import DEFAULT_LIMIT, CursorOf, LimitOf
from strop_hub.registry import resolve, service
from strop_hub.registry.queries import EnvironmentFilter

# What reads a README waits for the storage, and so runs under the limit for blobs.
_REFUSALS: dict[int | str, dict[str, Any]] = {
    status: {"model": Problem} for status in (401, 404, 422, 503)
}
router = APIRouter(prefix=API_PREFIX, tags=["registry"], responses=_REFUSALS)

_ENVIRONMENT = "/environments/{owner}/{name}"
_VERSION = _ENVIRONMENT + "/versions/{version}"
_FILE = _VERSION + "/files/{filename}"
Narrowed = Annotated[str | None, Query(max_length=200)]
_FILE_ANSWERS: dict[int | str, dict[str, Any]] = {
    200: {
        "content": {"application/octet-stream": {"schema": {"type": "string", "format": "binary"}}},
        "description": "The whole file; its ETag is the sha256 of its bytes.",
    },
    206: {"description": "The range that was asked for."},
    304: {"description": "The caller has the file already."},
    403: {"model": Problem},
    416: {"description": "The file has no such bytes."},
}


@router.get("/environments", operation_id="list_environments", response_model=EnvironmentPage)
async def list_environments(
    *,
    hub: HubParts,
    caller: CallerOf,
    q: Annotated[str, Query(max_length=200, description="Words, all of which must occur.")] = "",
    owner: Narrowed = None,
    category: Narrowed = None,
    tag: Narrowed = None,
    cursor: CursorOf = None,
    limit: LimitOf = DEFAULT_LIMIT,
) -> Response:
    """The environments that the caller may see: the best match first, then the newest."""
    wanted = EnvironmentFilter(q, owner, category, tag)
    page = await in_thread(
        hub.workers.database, service.list_environments, hub, caller, wanted, cursor, limit
    )
    return answer(page)


@router.get(_ENVIRONMENT, operation_id="show_environment", response_model=EnvironmentDetail)
async def show_environment(hub: HubParts, caller: CallerOf, owner: str, name: str) -> Response:
    """An environment, seen through its latest version."""
    found = await in_thread(hub.workers.blob, service.show_environment, hub, caller, owner, name)
    return answer(found)


@router.get(_ENVIRONMENT + "/versions", operation_id="list_versions", response_model=VersionPage)
async def list_versions(
    *,
    hub: HubParts,
    caller: CallerOf,
    owner: str,
    name: str,
    cursor: CursorOf = None,
    limit: LimitOf = DEFAULT_LIMIT,
) -> Response:
    """An environment's versions, the newest by PEP 440 first, yanked ones included."""
    page = await in_thread(
        hub.workers.database,
        service.list_versions,
        hub,
        caller,
        (owner, name),
        cursor,
        limit,
    )
    return answer(page)


@router.get(_VERSION, operation_id="show_version", response_model=VersionDetail)
async def show_version(
    hub: HubParts, caller: CallerOf, owner: str, name: str, version: str
) -> Response:
    """All about one version."""
    found = await in_thread(
        hub.workers.blob, service.show_version, hub, caller, owner, name, version
    )
    return answer(found)


@router.get(
    _FILE,
    operation_id="download_file",
    response_class=Response,
    responses=_FILE_ANSWERS,
)
@router.head(_FILE, operation_id="head_file", include_in_schema=False)
async def download_file(
    *, hub: HubParts, caller: CallerOf, owner: str, name: str, version: str, filename: str
) -> Response:
    """A file's bytes; Range, If-Range and If-None-Match are honoured."""
    content = await in_thread(
        hub.workers.database, service.find_content, hub, caller, (owner, name, version), filename
    )
    return ContentResponse(hub, content)


@router.post("/resolve", operation_id="resolve_references", response_model=ResolveResult)
async def resolve_references(hub: HubParts, caller: CallerOf, request: ResolveRequest) -> Response:
    """Exact versions, digests and addresses for many references in one round trip."""
    result = await in_thread(hub.workers.database, resolve.resolve, hub, caller, request)
    return answer(result)
