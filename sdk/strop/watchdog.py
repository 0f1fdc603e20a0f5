"""Names code that holds up the event loop, which nothing can rescue (step: rollout)."""

from __future__ import annotations

import asyncio
import inspect
import logging
import sys
import threading
import traceback
from types import FrameType
from typing import Self

_TICK_COUNT = 10
_RUN = asyncio.Handle._run.__code__
_LOG = logging.getLogger("strop")


class Watchdog:
    """Beside a running event loop, a thread that logs a warning with the stack of what holds it.

    A blocking ``async def`` of a tool, reward or environment stops every rollout at once, and
    cannot be interrupted. Each standstill is named once; a loop that is busy with many short
    calls does not stand still.
    """

    def __init__(self, limit_s: float = 5.0) -> None:
        """Watch for standstills of `limit_s` or longer, > 0."""
        self._limit_s = limit_s
        self._tick_s = limit_s / _TICK_COUNT
        self._has_beaten = True
        self._last_call: FrameType | None = None
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
        held_count = 0
        while not self._ended.wait(self._tick_s):
            if self._has_beaten:
                held_count, self._last_call = 0, None
            elif self._is_held():
                held_count += 1
                if held_count == _TICK_COUNT - 1:
                    self._name()
            self._has_beaten = False

    def _is_held(self) -> bool:
        """Whether the call of the tick before goes on: of many short ones each tick meets another.

        A frame that is kept is taken for no other one.
        """
        before, self._last_call = self._last_call, self._call()
        return before is not None and before is self._last_call

    def _call(self) -> FrameType | None:
        """The outermost frame of what the loop runs: its handle's, or in other loops its task's."""
        frames = self._frames()
        runs = [
            each
            for each in frames
            if each.f_code is _RUN or each.f_code.co_flags & inspect.CO_COROUTINE
        ]
        return next(iter(runs or frames), None)

    def _frames(self) -> list[FrameType]:
        """Of the loop's thread, the outermost first; none when it has ended."""
        frame = sys._current_frames().get(self._watched)
        if frame is None:
            return []
        return [each for each, _ in traceback.walk_stack(frame)][::-1]

    def _name(self) -> None:
        frames = self._frames()
        if not frames:
            return
        stack = "".join(traceback.format_stack(frames[-1])[-8:])
        _LOG.warning(
            "For %g s blocking calls have held up every rollout. Blocking code belongs in a `def`, "
            "which runs on a thread; an `async def` or `inline=True` must not block. One stands "
            "at:\n%s",
            self._limit_s,
            stack,
        )
