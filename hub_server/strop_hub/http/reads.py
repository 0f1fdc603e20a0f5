"""A plain ASGI middleware: every read has a HEAD, and pages of other sites may read what is public.

Source: RFC 9110 section 9.3.2; the Fetch standard, "CORS protocol".
"""

from starlette.datastructures import Headers, MutableHeaders
from starlette.types import ASGIApp, Message, Receive, Scope, Send

_OPEN_ROOMS = ("/api/", "/simple", "/owners/", "/healthz", "/readyz", "/openapi.json", "/-/")
_JSON_ROOMS = ("/api/", "/healthz", "/readyz", "/openapi.json")
_READS = ("GET", "HEAD")
_EXPOSED = "ETag, Content-Range, Accept-Ranges, Location, strop-hub, x-request-id"
_PREFLIGHT = [
    (b"access-control-allow-origin", b"*"),
    (b"access-control-allow-methods", b"GET, HEAD"),
    # No `Authorization`: what needs a token is not for pages of other sites.
    (b"access-control-allow-headers", b"Accept, If-None-Match, If-Range, Range"),
    (b"access-control-max-age", b"86400"),
    (b"vary", b"Access-Control-Request-Method"),
]


class ReadsMiddleware:
    """Answers HEAD as GET without its body, preflights, and marks what anybody may read."""

    def __init__(self, app: ASGIApp) -> None:
        self.app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request."""
        if scope["type"] != "http" or not scope["path"].startswith(_OPEN_ROOMS):
            await self.app(scope, receive, send)
            return
        headers = Headers(scope=scope)
        if scope["method"] == "OPTIONS" and headers.get("access-control-request-method") in _READS:
            await send({"type": "http.response.start", "status": 204, "headers": _PREFLIGHT})
            await send({"type": "http.response.body", "body": b""})
            return
        is_read = scope["method"] in _READS
        is_anonymous = "authorization" not in headers
        is_head = scope["method"] == "HEAD" and self._is_json(scope["path"])

        async def send_marked(message: Message) -> None:
            if message["type"] == "http.response.start" and is_read:
                _mark(MutableHeaders(scope=message), scope["path"], is_anonymous)
            elif message["type"] == "http.response.body" and is_head:
                message = {**message, "body": b""}
            await send(message)

        if is_head:
            scope = {**scope, "method": "GET"}
        await self.app(scope, receive, send_marked)

    @staticmethod
    def _is_json(path: str) -> bool:
        # Files know HEAD themselves, and do not read their bytes for it.
        return path.startswith(_JSON_ROOMS) and "/files/" not in path


def _mark(headers: MutableHeaders, path: str, is_anonymous: bool) -> None:
    if path.startswith("/api/"):
        headers.add_vary_header("Authorization")
        headers.setdefault("cache-control", "no-cache" if is_anonymous else "private, no-cache")
    if is_anonymous:
        headers["access-control-allow-origin"] = "*"
        headers["access-control-expose-headers"] = _EXPOSED
