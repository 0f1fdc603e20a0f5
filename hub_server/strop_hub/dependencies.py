"""What routes ask for: the hub's parts and the caller."""

from typing import Annotated

from fastapi import Depends, Request

from strop_hub.auth import Caller, recognise
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
    return await in_thread(hub.workers.database, recognise, hub.database, authorization)


HubParts = Annotated[Hub, Depends(get_hub)]
CallerOf = Annotated[Caller, Depends(get_caller)]
