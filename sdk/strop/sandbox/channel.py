"""A channel over any stream socket, for one event loop."""

from __future__ import annotations

import asyncio
import contextlib
import socket
from collections.abc import Callable, Iterator

from strop.sandbox.wire import HEADER, Reply

_CHUNK_BYTES = 1 << 18


class SocketChannel:
    """Frames over a connected socket, which it owns."""

    def __init__(self, sock: socket.socket, on_close: Callable[[], None] | None = None) -> None:
        sock.setblocking(False)
        self._sock = sock
        self._on_close = on_close
        self._buffer = bytearray()
        self._is_closed = False
        self._use_count = 0

    async def send(self, frame: bytes) -> None:
        """Send one frame; when the other side is gone, `receive` tells."""
        if self._is_closed:
            return
        with self._in_use(), contextlib.suppress(OSError):
            await asyncio.get_running_loop().sock_sendall(self._sock, frame)

    async def receive(self) -> Reply | None:
        """Give the next frame; None when the other side is gone."""
        if not await self._fill(HEADER.size):
            return None
        tag, size = HEADER.unpack_from(self._buffer)
        end = HEADER.size + size
        if not await self._fill(end):
            return None
        payload = bytes(memoryview(self._buffer)[HEADER.size : end])
        del self._buffer[:end]
        return Reply(tag, payload)

    async def _fill(self, size: int) -> bool:
        loop = asyncio.get_running_loop()
        while len(self._buffer) < size:
            if self._is_closed:
                return False
            try:
                with self._in_use():
                    chunk = await loop.sock_recv(self._sock, _CHUNK_BYTES)
            except OSError:
                return False
            if not chunk:
                return False
            self._buffer += chunk
        return True

    @contextlib.contextmanager
    def _in_use(self) -> Iterator[None]:
        self._use_count += 1
        try:
            yield
        finally:
            self._use_count -= 1
            if self._is_closed and self._use_count == 0:
                self._sock.close()

    def close(self) -> None:
        """Hang up; the run ends at once if it has not ended."""
        if self._is_closed:
            return
        self._is_closed = True
        # Wakes whoever waits in `receive`; a closed descriptor would leave them waiting.
        with contextlib.suppress(OSError):
            self._sock.shutdown(socket.SHUT_RDWR)
        if self._use_count == 0:
            self._sock.close()
        if self._on_close is not None:
            self._on_close()
