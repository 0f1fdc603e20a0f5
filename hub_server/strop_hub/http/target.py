"""A plain ASGI middleware: reads a request's target in every form, and refuses impossible text.

Source: RFC 9112 section 3.2.2.
"""

import re
from urllib.parse import unquote

from starlette.types import ASGIApp, Receive, Scope, Send

from strop_hub.errors import InvalidRequestError, NotFoundError
from strop_hub.http.problems import refusal
from strop_hub.http.request_scope import REQUEST_ID

_ORIGIN = re.compile(rb"https?://[^/?#]*", re.IGNORECASE)
_IMPOSSIBLE = re.compile("[\x00\ud800-\udfff]")
"""What PostgreSQL has no text for; SQLite would keep it, and the two would differ."""

_IMPOSSIBLE_IN_QUERY = b"%00"


class TargetMiddleware:
    """Takes the origin off a target such as ``http://hub.example/simple/``."""

    def __init__(self, app: ASGIApp) -> None:
        self.app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request."""
        if scope["type"] == "http":
            if not scope["path"].startswith("/"):
                scope = _in_origin_form(scope)
            request_id = scope.get(REQUEST_ID)
            # No address has such text, and nothing is found by it.
            if _IMPOSSIBLE.search(scope["path"]):
                error = NotFoundError("the address has a NUL or half a character; nothing is there")
                await refusal(error, request_id)(scope, receive, send)
                return
            if _IMPOSSIBLE_IN_QUERY in scope["query_string"]:
                fault = InvalidRequestError("a parameter has a NUL. Repeat the request without it.")
                await refusal(fault, request_id)(scope, receive, send)
                return
        await self.app(scope, receive, send)


def _in_origin_form(scope: Scope) -> Scope:
    """The scope with the path alone; what is in no known form stays, and is not found."""
    raw_path: bytes = scope.get("raw_path") or b""
    origin = _ORIGIN.match(raw_path)
    if origin is None:
        return scope
    raw_path = raw_path[origin.end() :] or b"/"
    return {**scope, "path": unquote(raw_path.decode("latin-1")), "raw_path": raw_path}
