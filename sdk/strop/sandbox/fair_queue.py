"""Turns for a bounded number of runs, in the order of arrival and fair between rollouts."""

from __future__ import annotations

import asyncio
import time
from collections import OrderedDict, deque
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from strop.errors import SandboxBusyError
from strop.stopwatch import in_queue


class FairQueue:
    """Lets `concurrency` runs go at once; the others wait.

    Rollouts take turns: one that has queued a hundred runs does not hold up one that has queued a
    single run. Within a rollout, first come, first served.
    """

    def __init__(self, concurrency: int, limit: int) -> None:
        self._free = concurrency
        self._limit = limit
        self._waiting: OrderedDict[str, deque[asyncio.Future[None]]] = OrderedDict()
        self._count = 0

    @property
    def waiting_count(self) -> int:
        """How many wait for their turn."""
        return self._count

    @asynccontextmanager
    async def turn(self, rollout: str) -> AsyncIterator[float]:
        """Wait for a turn, and hold it; gives the seconds that were waited.

        Raises:
            SandboxBusyError: So many wait already that this one is not let in.
        """
        asked_at = time.monotonic()
        await self._enter(rollout)
        try:
            yield time.monotonic() - asked_at
        finally:
            self._leave()

    async def _enter(self, rollout: str) -> None:
        if self._free > 0:
            self._free -= 1
            return
        if self._count >= self._limit:
            raise SandboxBusyError(
                f"{self._count} runs wait for the sandbox already, which is its limit. "
                "Start fewer at once, or open the backend with a larger `queue_limit`."
            )
        future = asyncio.get_running_loop().create_future()
        self._waiting.setdefault(rollout, deque()).append(future)
        self._count += 1
        try:
            with in_queue():
                await future
        except asyncio.CancelledError:
            if future.done() and not future.cancelled():
                self._leave()
            raise

    def _leave(self) -> None:
        while self._waiting:
            rollout, futures = self._waiting.popitem(last=False)
            future = futures.popleft()
            self._count -= 1
            if futures:
                self._waiting[rollout] = futures
            if not future.done():
                future.set_result(None)
                return
        self._free += 1
