"""A plain ASGI middleware: while the hub is looked after, it is read and not written."""

from starlette.types import ASGIApp, Receive, Scope, Send

from strop.hub.wire import API_PREFIX
from strop_hub.errors import HubError
from strop_hub.http.rate_limit import refusal

_READING = frozenset({"GET", "HEAD", "OPTIONS"})
_ASKED_BY_POST = frozenset({f"{API_PREFIX}/resolve"})
_WAIT_S = 60


class ReadOnlyError(HubError):
    """The operator lets nobody change anything now."""

    status = 503
    code = "read_only"
    title = "The hub is read-only"


class ReadOnlyMiddleware:
    """Refuses what changes something."""

    def __init__(self, app: ASGIApp, is_on: bool) -> None:
        self.app = app
        self.is_on = is_on

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request."""
        is_refused = (
            self.is_on
            and scope["type"] == "http"
            and scope["method"] not in _READING
            and scope["path"] not in _ASKED_BY_POST
        )
        if is_refused:
            error = ReadOnlyError("this hub is read-only for now. Repeat the request later.")
            await refusal(error, scope, _WAIT_S)(scope, receive, send)
            return
        await self.app(scope, receive, send)
