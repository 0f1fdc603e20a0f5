"""A plain ASGI middleware around everything: request ids, the hub's headers, the last resort."""

import logging
import re
import secrets

from starlette.datastructures import Headers, MutableHeaders
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from strop.hub.wire import HUB_HEADER, REQUEST_ID_HEADER
from strop_hub.errors import HubError, TwoLengthsError
from strop_hub.http.problems import refusal
from strop_hub.http.request_scope import REQUEST_ID

logger = logging.getLogger(__name__)

_FORM = re.compile(r"[A-Za-z0-9._-]{1,64}")
_FAULT = "the hub failed; its log tells more under this request's id"
_TWO_LENGTHS = "the request has both Content-Length and Transfer-Encoding. Send one of them."


class RequestIdMiddleware:
    """Gives each request an id, or keeps the one that a proxy gave it, and repeats it.

    What no handler expected ends here, as a problem that tells the id and nothing else.
    """

    def __init__(self, app: ASGIApp, version: str) -> None:
        self.app = app
        self.version = version

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request."""
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        given = Headers(scope=scope).get(REQUEST_ID_HEADER, "")
        request_id = given if _FORM.fullmatch(given) else secrets.token_hex(8)
        scope[REQUEST_ID] = request_id

        is_started = False

        async def send_known(message: Message) -> None:
            nonlocal is_started
            if message["type"] == "http.response.start":
                is_started = True
                headers = MutableHeaders(scope=message)
                headers[HUB_HEADER] = self.version
                headers[REQUEST_ID_HEADER] = request_id
            await send(message)

        if _has_two_lengths(scope):
            await refusal(TwoLengthsError(_TWO_LENGTHS), request_id)(scope, receive, send_known)
            return
        try:
            await self.app(scope, receive, send_known)
        except Exception:
            logger.exception("request %s failed: %s %s", request_id, scope["method"], scope["path"])
            if is_started:
                raise
            await refusal(HubError(_FAULT), request_id)(scope, receive, send_known)


def _has_two_lengths(scope: Scope) -> bool:
    names = {name for name, _ in scope["headers"]}
    return b"content-length" in names and b"transfer-encoding" in names
