"""A plain ASGI middleware: while the hub is looked after, it is read and not written."""

from starlette.types import ASGIApp, Receive, Scope, Send

from strop.hub.wire import API_PREFIX
from strop_hub.errors import ReadOnlyError
from strop_hub.http.problems import refusal
from strop_hub.http.request_scope import REQUEST_ID

_READING = frozenset({"GET", "HEAD", "OPTIONS"})
_ASKED_BY_POST = frozenset({f"{API_PREFIX}/resolve"})
_WAIT_S = 60


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
            detail = "this hub is read-only for now. Repeat the request later."
            error = ReadOnlyError(detail, wait_s=_WAIT_S)
            await refusal(error, scope.get(REQUEST_ID))(scope, receive, send)
            return
        await self.app(scope, receive, send)
