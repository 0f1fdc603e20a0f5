"""Threads for author code that may block, apart from asyncio's own few (step: rollout)."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any, TypeVar

Result = TypeVar("Result")


class Threads:
    """As many threads as rollouts may be in flight, so that a slow call stops nobody else.

    Threads start when they are first needed. asyncio's default executor has a few dozen:
    200 sleeping tools would starve every other one.
    """

    def __init__(self, limit: int = 256) -> None:
        self.limit = limit
        self._executor: ThreadPoolExecutor | None = None

    async def call(self, function: Callable[..., Result], *arguments: Any) -> Result:
        """Run a blocking function; a cancelled caller does not wait for it."""
        if self._executor is None:
            self._executor = ThreadPoolExecutor(self.limit, thread_name_prefix="strop")
        loop = asyncio.get_running_loop()
        return await loop.run_in_executor(self._executor, _guarded, function, arguments)

    def close(self) -> None:
        """Stop idle threads; busy ones end with their call."""
        if self._executor is not None:
            self._executor.shutdown(wait=False, cancel_futures=True)
            self._executor = None


def _guarded(function: Callable[..., Result], arguments: tuple[Any, ...]) -> Result:
    try:
        return function(*arguments)
    except StopIteration as error:
        # A future cannot carry StopIteration: its waiter would wait for ever.
        raise RuntimeError("StopIteration escaped from a function") from error
