"""One request and its response on a connection, while it is under way."""

from __future__ import annotations

import asyncio
from collections import deque

import h11

from strop.errors import ModelError, ModelUnavailableError
from strop.models.http.decoding import Decoder
from strop.models.http.message import Limits

PAUSE_BYTES = 1024 * 1024
"""Unread bytes of a stream at which reading from the socket stops."""


class ConnectionLostError(ModelUnavailableError):
    """The connection broke before its response was whole."""

    is_untouched = False
    """Whether no byte of the response had come: the server may have closed an idle connection."""


class Exchange:
    """Collects a response; its coroutine waits here, its connection calls the ``on_`` methods."""

    __slots__ = (
        "_loop",
        "_timer",
        "_touched_at",
        "_waiter",
        "body_bytes",
        "chunks",
        "error",
        "headers",
        "is_whole",
        "limits",
        "started_at",
        "status",
        "wants_whole",
        "where",
    )

    def __init__(self, loop: asyncio.AbstractEventLoop, limits: Limits, where: str) -> None:
        self._loop = loop
        self.limits = limits
        self.where = where
        self.started_at = self._touched_at = loop.time()
        self.status = 0
        self.headers: dict[str, str] = {}
        self.chunks: deque[bytes] = deque()
        self.body_bytes = 0
        self.is_whole = False
        self.error: ModelError | None = None
        self._waiter: asyncio.Future[None] | None = None
        self.wants_whole = False
        self._timer: asyncio.TimerHandle | None = None
        self._arm()

    def decoder(self) -> Decoder:
        """A fresh unpacker for this response's body."""
        coding = self.headers.get("content-encoding", "")
        return Decoder(coding, self.limits.body_bytes, self.where)

    async def head(self) -> None:
        """Wait for status and headers."""
        while not self.status:
            await self._wait(wants_whole=False)

    async def next_chunk(self) -> bytes | None:
        """Wait for a piece of the body, as sent; None at its end."""
        while not self.chunks:
            if self.is_whole:
                return None
            await self._wait(wants_whole=False)
        chunk = self.chunks.popleft()
        self.body_bytes -= len(chunk)
        return chunk

    async def whole(self) -> None:
        """Wait for the end of the body."""
        while not self.is_whole:
            await self._wait(wants_whole=True)

    async def _wait(self, *, wants_whole: bool) -> None:
        if self.error is not None:
            raise self.error
        self.wants_whole = wants_whole
        self._waiter = self._loop.create_future()
        try:
            await self._waiter
        finally:
            self._waiter = None
        if self.error is not None:
            raise self.error

    def on_head(self, response: h11.Response) -> None:
        """Take status and headers."""
        self.status = response.status_code
        self.headers = {
            name.decode("latin-1"): value.decode("latin-1") for name, value in response.headers
        }
        if not self.wants_whole:
            self._wake()

    def on_chunk(self, piece: bytes) -> None:
        """Take a piece of the body."""
        self.chunks.append(piece)
        self.body_bytes += len(piece)
        if not self.wants_whole:
            self._wake()

    def on_end(self) -> None:
        """The response is whole."""
        self.is_whole = True
        self.stop_timer()
        self._wake()

    def on_error(self, error: ModelError) -> None:
        """The exchange failed; the first cause counts."""
        if self.error is None and not self.is_whole:
            self.error = error
            self.stop_timer()
            self._wake()

    def touch(self) -> None:
        """Bytes arrived."""
        self._touched_at = self._loop.time()

    @property
    def elapsed_s(self) -> float:
        """Since the request was written."""
        return self._loop.time() - self.started_at

    def stop_timer(self) -> None:
        """No limit applies any longer."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _wake(self) -> None:
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_result(None)

    def _deadline(self) -> float | None:
        """When the nearer of both limits strikes, as it looks now."""
        read_s, total_s = self.limits.read_s, self.limits.total_s
        if read_s is None:
            return None if total_s is None else self.started_at + total_s
        if total_s is None:
            return self._touched_at + read_s
        return min(self._touched_at + read_s, self.started_at + total_s)

    def _arm(self) -> None:
        # One timer an exchange, moved only when it strikes: arrivals do not touch the heap.
        deadline = self._deadline()
        if deadline is not None:
            self._timer = self._loop.call_at(deadline, self._on_timer)

    def _on_timer(self) -> None:
        deadline = self._deadline()
        if deadline is not None and self._loop.time() < deadline:
            self._arm()
            return
        total_s = self.limits.total_s
        if total_s is not None and self.elapsed_s >= total_s:
            message = f"no whole reply within {total_s:g} s (`total_s`)"
        else:
            message = f"no bytes for {self.limits.read_s:g} s (`read_s`)"
        self.on_error(ModelUnavailableError(f"{self.where}: {message}"))
