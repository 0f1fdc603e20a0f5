"""A plain ASGI middleware: nobody keeps the hub waiting for ever, sending or reading."""

import asyncio
import time
from dataclasses import dataclass

from starlette.exceptions import HTTPException
from starlette.types import ASGIApp, Message, Receive, Scope, Send

_WITH_BODY = frozenset({"POST", "PUT", "PATCH", "DELETE"})


@dataclass(frozen=True, slots=True)
class Patience:
    """How long the hub waits; seconds."""

    body_idle_s: float
    """For the next piece of a body."""
    body_s: float
    """For a whole body."""
    reader_idle_s: float
    """For a client to take the next piece of an answer."""


class PatienceMiddleware:
    """Refuses a body that does not come, and hangs up on a client that does not read."""

    def __init__(self, app: ASGIApp, patience: Patience) -> None:
        self.app = app
        self.patience = patience

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request."""
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        if scope["method"] in _WITH_BODY:
            receive = self._impatient(receive)
        await self.app(scope, receive, self._sender(send))

    def _impatient(self, receive: Receive) -> Receive:
        until = time.monotonic() + self.patience.body_s
        is_whole = False

        async def receive_soon() -> Message:
            nonlocal is_whole
            if is_whole:
                # Only a disconnect can follow; an answer may take as long as it takes.
                return await receive()
            wait_s = min(self.patience.body_idle_s, until - time.monotonic())
            try:
                message = await asyncio.wait_for(receive(), max(wait_s, 0.001))
            except TimeoutError:
                raise HTTPException(
                    408, f"the body did not come: nothing for {wait_s:.0f} s"
                ) from None
            is_whole = not message.get("more_body", False)
            return message

        return receive_soon

    def _sender(self, send: Send) -> Send:
        async def send_soon(message: Message) -> None:
            if message.get("more_body", False):
                # Only streams wait for their reader; what raises here ends the connection.
                await asyncio.wait_for(send(message), self.patience.reader_idle_s)
            else:
                await send(message)

        return send_soon
