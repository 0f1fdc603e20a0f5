"""HTTP for the model server: requests by h11, replies whole, streamed or broken on purpose."""

from __future__ import annotations

import asyncio
import json
import socket
import struct
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import Any, cast

import h11


@dataclass
class Call:
    """A request that arrived."""

    method: str
    path: str
    headers: dict[str, str]
    body: bytes
    at_s: float = field(default_factory=time.monotonic)
    """When its head arrived; the clock is the machine's, so that other processes' times compare."""

    @property
    def document(self) -> dict[str, Any]:
        return cast("dict[str, Any]", json.loads(self.body))


@dataclass
class Fault:
    """What goes wrong with one reply; the default is nothing."""

    status: int = 200
    headers: dict[str, str] = field(default_factory=dict)
    body: bytes | str | dict[str, Any] | None = None
    """Sent instead of the reply."""
    delay_s: float = 0.0
    is_reset: bool = False
    """Reset the connection instead of replying."""
    is_closed: bool = False
    """Close the connection instead of replying."""
    edit: Callable[[dict[str, Any]], Any] | None = None
    """Change the reply's document before it is sent."""
    cut_at: float | None = None
    """Send this share of the reply's bytes, then break the connection."""
    event_count: int | None = None
    """Of a stream, send so many events and then end."""
    is_cleanly_ended: bool = False
    """End a stream that is cut short as if it were whole."""
    chunk_delay_s: float = 0.0
    """Between two events of a stream."""


class Peer(asyncio.Protocol):
    """One connection of a client."""

    def __init__(self, answer: Callable[[Call, Peer], Awaitable[None]], open_peers: set[Peer]):
        self._answer = answer
        self._open = open_peers
        self._h11 = h11.Connection(h11.SERVER)
        self._call: Call | None = None
        self._task: asyncio.Task[None] | None = None
        self.transport: asyncio.Transport

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = cast("asyncio.Transport", transport)
        self._open.add(self)

    def connection_lost(self, error: Exception | None) -> None:
        self._open.discard(self)
        if self._task is not None:
            self._task.cancel()

    def data_received(self, data: bytes) -> None:
        self._h11.receive_data(data)
        while True:
            event = self._h11.next_event()
            if isinstance(event, h11.Request):
                headers = {key.decode(): value.decode() for key, value in event.headers}
                self._call = Call(event.method.decode(), event.target.decode(), headers, b"")
            elif isinstance(event, h11.Data):
                assert self._call is not None
                self._call.body += bytes(event.data)
            elif isinstance(event, h11.EndOfMessage):
                self._task = asyncio.get_running_loop().create_task(self._run())
            else:
                return

    async def _run(self) -> None:
        assert self._call is not None
        try:
            await self._answer(self._call, self)
        except BaseException:
            self.transport.abort()
            raise
        if self._h11.our_state is h11.DONE and self._h11.their_state is h11.DONE:
            self._h11.start_next_cycle()
        elif not self.transport.is_closing():
            self.transport.close()

    def send_head(self, status: int, headers: dict[str, str], length: int | None) -> None:
        framing = {"content-length": str(length)} if length is not None else {
            "transfer-encoding": "chunked"
        }  # fmt: skip
        named = {**framing, **headers}
        response = h11.Response(status_code=status, headers=list(named.items()))
        self.transport.write(self._h11.send(response) or b"")

    def send_piece(self, piece: bytes) -> None:
        self.transport.write(self._h11.send(h11.Data(data=piece)) or b"")

    def send_end(self) -> None:
        self.transport.write(self._h11.send(h11.EndOfMessage()) or b"")

    def send_whole(self, status: int, headers: dict[str, str], body: bytes) -> None:
        self.send_head(status, headers, len(body))
        self.send_piece(body)
        self.send_end()

    def reset(self) -> None:
        """Close so that the client sees a reset instead of an end."""
        raw: socket.socket = self.transport.get_extra_info("socket")
        raw.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self.transport.abort()
