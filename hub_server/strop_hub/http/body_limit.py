"""A plain ASGI middleware: bodies that are read into memory stay small."""

import re

from starlette.exceptions import HTTPException
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from strop.hub.wire import API_PREFIX

_UPLOADS = re.compile(
    rf"{API_PREFIX}/owners/[^/]+/versions/?|(?:/owners/[^/]+)?/legacy/?"
    rf"|{API_PREFIX}/releases/[^/]+/files/?"
)
"""Addresses whose bodies are streamed to disk, under limits of their own."""


class BodyLimitMiddleware:
    """Refuses a body of more than `max_bytes` while it comes, whatever length it announces."""

    def __init__(self, app: ASGIApp, max_bytes: int) -> None:
        self.app = app
        self.max_bytes = max_bytes

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request."""
        if scope["type"] != "http" or _UPLOADS.fullmatch(scope["path"]):
            await self.app(scope, receive, send)
            return
        left_bytes = self.max_bytes

        async def receive_some() -> Message:
            nonlocal left_bytes
            message = await receive()
            left_bytes -= len(message.get("body", b""))
            if left_bytes < 0:
                # The one error that FastAPI passes on while it reads a body.
                raise HTTPException(413, f"the body has more than {self.max_bytes} bytes")
            return message

        await self.app(scope, receive_some, send)
