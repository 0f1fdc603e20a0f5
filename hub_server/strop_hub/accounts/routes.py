"""Who a token speaks for."""

from typing import Any

from fastapi import APIRouter

from strop.hub.wire import API_PREFIX, Problem, WhoAmI
from strop_hub.accounts import service
from strop_hub.dependencies import CallerOf

_REFUSALS: dict[int | str, dict[str, Any]] = {401: {"model": Problem}}

router = APIRouter(prefix=API_PREFIX, tags=["accounts"], responses=_REFUSALS)


@router.get("/whoami", operation_id="show_caller")
async def show_caller(caller: CallerOf) -> WhoAmI:
    """The user, the owners and the scopes of the token that comes with the request."""
    return service.describe(caller)
