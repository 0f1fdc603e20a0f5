"""The change feed over HTTP."""

from typing import Annotated, Any

from fastapi import APIRouter, Query, Response

from strop.hub.wire import API_PREFIX, ChangePage, Problem
from strop_hub.answers import answer
from strop_hub.changes import service
from strop_hub.dependencies import CallerOf, HubParts
from strop_hub.hub import in_thread

MAX_CHANGES = 1000

_REFUSALS: dict[int | str, dict[str, Any]] = {
    status: {"model": Problem} for status in (401, 403, 422, 503)
}
router = APIRouter(prefix=API_PREFIX, tags=["changes"], responses=_REFUSALS)


@router.get("/changes", operation_id="list_changes", response_model=ChangePage)
async def list_changes(
    *,
    hub: HubParts,
    caller: CallerOf,
    since: Annotated[
        int, Query(ge=0, le=2**63 - 1, description="The last serial that was seen.")
    ] = 0,
    limit: Annotated[int, Query(ge=1, le=MAX_CHANGES)] = 200,
    whole: Annotated[
        bool, Query(description="Also what is private, for administrators; other serials.")
    ] = False,
) -> Response:
    """What happened after a serial, in an order without gaps."""
    page = await in_thread(
        hub.workers.database, service.list_changes, hub, caller, since, limit, is_whole=whole
    )
    return answer(page)
