"""Run coroutines from code that has no event loop, notebooks included."""

from __future__ import annotations

import asyncio
import os
import threading
from collections.abc import Coroutine
from concurrent.futures import Future
from contextlib import suppress
from typing import Any, TypeVar

from strop.errors import EpisodeUseError

Result = TypeVar("Result")

_CLEANUP_LIMIT_S = 10.0
_lock = threading.Lock()
_loop: asyncio.AbstractEventLoop | None = None


def run_sync(coroutine: Coroutine[Any, Any, Result]) -> Result:
    """Run a coroutine on Strop's one background loop and wait for its result.

    An interrupt cancels the coroutine and waits until it has cleaned up.

    Raises:
        EpisodeUseError: It is called by what runs on that loop, which would wait for itself.
    """
    loop = _background_loop()
    if asyncio._get_running_loop() is loop:
        coroutine.close()
        raise EpisodeUseError(
            "run_sync was called by a coroutine that run_sync itself runs, and would wait for "
            "ever. Use `await` there."
        )
    has_ended = threading.Event()
    future: Future[Result] | None = None
    try:
        future = asyncio.run_coroutine_threadsafe(_watched(coroutine, has_ended), loop)
        return future.result()
    except BaseException:
        if future is not None and not has_ended.is_set():
            future.cancel()
            has_ended.wait(_CLEANUP_LIMIT_S)
        raise


async def _watched(coroutine: Coroutine[Any, Any, Result], has_ended: threading.Event) -> Result:
    try:
        return await coroutine
    finally:
        has_ended.set()


def _forget_loop() -> None:
    """A forked child has the loop and not its thread, and perhaps a lock that nobody frees."""
    global _lock, _loop
    _lock, _loop = threading.Lock(), None


os.register_at_fork(after_in_child=_forget_loop)


def _background_loop() -> asyncio.AbstractEventLoop:
    global _loop
    with _lock:
        if _loop is None:
            _loop = asyncio.new_event_loop()
            threading.Thread(
                target=_keep_running, args=(_loop,), name="strop-loop", daemon=True
            ).start()
        return _loop


def _keep_running(loop: asyncio.AbstractEventLoop) -> None:
    # A task that raises one of these stops the loop after it has kept the error for its waiter.
    # Without the loop neither that waiter nor any later one would ever hear of it.
    while True:
        with suppress(SystemExit, KeyboardInterrupt):
            loop.run_forever()
