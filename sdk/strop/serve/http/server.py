"""A listening server on the running event loop."""

from __future__ import annotations

import asyncio
import socket
from typing import Self

from strop.serve.http.connection import Connection, Handler

BODY_BYTES = 256 * 1024 * 1024
BACKLOG = 4096


class HttpServer:
    """Answers requests with `handler` until it is closed.

    Args:
        handler: Answers one request; a lost client cancels it.
        heartbeat_s: See `Connection`.
        body_bytes: Longest body of a request that is taken.
    """

    def __init__(
        self,
        handler: Handler,
        *,
        heartbeat_s: float | None = None,
        body_bytes: int = BODY_BYTES,
    ) -> None:
        self._handler = handler
        self._heartbeat_s = heartbeat_s
        self._body_bytes = body_bytes
        self._connections: set[Connection] = set()
        self._server: asyncio.Server | None = None
        self.port = 0
        """Where it listens, once started."""

    @property
    def busy_count(self) -> int:
        """Requests that are being answered."""
        return sum(connection.task is not None for connection in self._connections)

    async def start(self, host: str = "127.0.0.1", port: int = 0) -> Self:
        """Listen on an address; port 0 takes a free one."""
        return await self.start_on(bind(host, port))

    async def start_on(self, listener: socket.socket) -> Self:
        """Listen on a bound socket, which is closed with the server."""
        loop = asyncio.get_running_loop()
        self._server = await loop.create_server(self._connect, sock=listener, backlog=BACKLOG)
        self.port = listener.getsockname()[1]
        return self

    def stop_listening(self) -> None:
        """Take no further connection; those that are open go on."""
        if self._server is not None:
            self._server.close()

    async def close(self) -> None:
        """Stop listening and break every connection, which cancels what is being answered."""
        self.stop_listening()
        tasks = [each.task for each in self._connections if each.task is not None]
        for connection in tuple(self._connections):
            connection.abort()
        # Turns of the loop, in which the transports report their end.
        while self._connections:  # noqa: ASYNC110
            await asyncio.sleep(0)
        if tasks:
            await asyncio.wait(tasks)

    def _connect(self) -> Connection:
        return Connection(
            self._handler,
            self._connections,
            body_bytes=self._body_bytes,
            heartbeat_s=self._heartbeat_s,
        )


def bind(host: str, port: int) -> socket.socket:
    """A socket that is bound, so that no other can take its port before it listens."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    listener = socket.socket(family, socket.SOCK_STREAM)
    try:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind((host, port))
        listener.setblocking(False)
    except BaseException:
        listener.close()
        raise
    return listener
