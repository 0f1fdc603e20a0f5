"""uvicorn's HTTP protocol with a time limit for a request's headers."""

import asyncio
from typing import Any

from uvicorn.protocols.http.h11_impl import H11Protocol

HEADER_S = 20.0
"""From the first byte of a connection, or of a further request on it, to the end of its headers."""


class ImpatientProtocol(H11Protocol):
    """Hangs up on clients that begin a request and do not go on.

    On h11, which refuses what two parsers could read in two ways; httptools lets some of it pass.
    """

    _timer: asyncio.TimerHandle | None = None

    def connection_made(self, transport: Any) -> None:
        """Wait for the first request."""
        super().connection_made(transport)
        self._arm()

    def data_received(self, data: bytes) -> None:
        """Wait on while the headers of a request are not complete."""
        super().data_received(data)
        if self._is_busy():
            self._disarm()
        else:
            self._arm()

    def connection_lost(self, exc: Exception | None) -> None:
        """Stop waiting."""
        self._disarm()
        super().connection_lost(exc)

    def _is_busy(self) -> bool:
        return self.cycle is not None and not self.cycle.response_complete

    def _arm(self) -> None:
        if self._timer is None:
            self._timer = self.loop.call_later(HEADER_S, self._expire)

    def _disarm(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _expire(self) -> None:
        self._timer = None
        if not self._is_busy() and not self.transport.is_closing():
            self.transport.close()
