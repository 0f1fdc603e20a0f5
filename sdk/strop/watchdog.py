"""Names code that holds up the event loop, which nothing can rescue (step: rollout)."""

from __future__ import annotations

import asyncio
import logging
import sys
import threading
import traceback
from typing import Self

_TICK_COUNT = 10
_LOG = logging.getLogger("strop")


class Watchdog:
    """Beside a running event loop, a thread that logs a warning with the stack of what holds it.

    A blocking ``async def`` of a tool, reward or environment stops every rollout at once, and
    cannot be interrupted. Each standstill is named once.
    """

    def __init__(self, limit_s: float = 5.0) -> None:
        """Watch for standstills of `limit_s` or longer, > 0."""
        self._limit_s = limit_s
        self._tick_s = limit_s / _TICK_COUNT
        self._has_beaten = True
        self._ended = threading.Event()

    def __enter__(self) -> Self:
        """Begin; the caller stands on the event loop."""
        self._loop = asyncio.get_running_loop()
        self._watched = threading.get_ident()
        self._beat()
        threading.Thread(target=self._watch, name="strop-watchdog", daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        self._ended.set()
        self._next.cancel()

    def _beat(self) -> None:
        self._has_beaten = True
        self._next = self._loop.call_later(self._tick_s, self._beat)

    def _watch(self) -> None:
        # Ticks and not seconds: while the whole process stood still, none was missed.
        missed_count = 0
        while not self._ended.wait(self._tick_s):
            missed_count = 0 if self._has_beaten else missed_count + 1
            self._has_beaten = False
            if missed_count == _TICK_COUNT:
                self._name()

    def _name(self) -> None:
        frame = sys._current_frames().get(self._watched)
        if frame is None:
            return
        stack = "".join(traceback.format_stack(frame)[-8:])
        _LOG.warning(
            "For %g s one call has held up every rollout. Blocking code belongs in a `def`, "
            "which runs on a thread; an `async def` or `inline=True` must not block. It stands "
            "at:\n%s",
            self._limit_s,
            stack,
        )
