"""Run coroutines from code that has no event loop, notebooks included."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Coroutine
from typing import Any, TypeVar

Result = TypeVar("Result")

_CLEANUP_LIMIT_S = 10.0
_lock = threading.Lock()
_loop: asyncio.AbstractEventLoop | None = None


def run_sync(coroutine: Coroutine[Any, Any, Result]) -> Result:
    """Run a coroutine on Strop's one background loop and wait for its result.

    An interrupt cancels the coroutine and waits until it has cleaned up.
    """
    has_ended = threading.Event()
    future = asyncio.run_coroutine_threadsafe(_watched(coroutine, has_ended), _background_loop())
    try:
        return future.result()
    except BaseException:
        if not has_ended.is_set():
            future.cancel()
            has_ended.wait(_CLEANUP_LIMIT_S)
        raise


async def _watched(coroutine: Coroutine[Any, Any, Result], has_ended: threading.Event) -> Result:
    try:
        return await coroutine
    finally:
        has_ended.set()


def _background_loop() -> asyncio.AbstractEventLoop:
    global _loop
    with _lock:
        if _loop is None:
            _loop = asyncio.new_event_loop()
            threading.Thread(target=_loop.run_forever, name="strop-loop", daemon=True).start()
        return _loop
