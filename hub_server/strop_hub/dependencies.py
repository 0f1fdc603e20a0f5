"""What routes ask for: the hub's parts, the caller, and what the audit trail says of a refusal."""

from collections.abc import Callable
from typing import Annotated

from fastapi import Depends, Request

from strop_hub.audit.service import Act
from strop_hub.auth import Caller, recognise
from strop_hub.http.request_scope import REQUEST_ID
from strop_hub.hub import Hub, in_thread


def get_hub(request: Request) -> Hub:
    """The parts of the hub that answers this request."""
    hub: Hub = request.app.state.hub
    return hub


async def get_caller(request: Request) -> Caller:
    """Whoever sends this request; anonymous without credentials.

    Raises:
        UnauthenticatedError: There are credentials, and they are wrong, expired or revoked.
    """
    authorization = request.headers.get("authorization")
    if authorization is None:
        return Caller.anonymous()
    hub = get_hub(request)
    caller = await in_thread(hub.workers.database, recognise, hub.database, authorization)
    hub.token_uses.note(caller.token_id)
    request.state.caller = caller
    return caller


def audited(action: str) -> Callable[[Request], Act]:
    """A dependency that names what a request does, so that also its refusal is noted."""

    def name_act(request: Request) -> Act:
        address = None if request.client is None else request.client.host
        act = Act(action, request.url.path, address, request.scope.get(REQUEST_ID))
        request.state.act = act
        return act

    return name_act


HubParts = Annotated[Hub, Depends(get_hub)]
CallerOf = Annotated[Caller, Depends(get_caller)]
