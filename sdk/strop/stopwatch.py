"""Seconds of a stage, without what it only waited in queues (step: rollout)."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar, Token
from time import perf_counter
from typing import Self


class QueueClock:
    """Adds up what one attempt waits in queues; waits at the same time count once."""

    __slots__ = ("_count", "_outer", "_since_s", "_waited_s")

    def __init__(self, outer: QueueClock | None = None) -> None:
        """Begin at zero; `outer` waits whenever this one does."""
        self._outer = outer
        self._count = 0
        self._since_s = self._waited_s = 0.0

    @property
    def is_waiting(self) -> bool:
        """Whether the attempt waits for its turn somewhere."""
        return self._count > 0

    @property
    def waited_s(self) -> float:
        """Seconds so far."""
        if not self._count:
            return self._waited_s
        return self._waited_s + perf_counter() - self._since_s

    def enter(self) -> None:
        """A wait begins."""
        if self._count == 0:
            self._since_s = perf_counter()
        self._count += 1
        if self._outer is not None:
            self._outer.enter()

    def leave(self) -> None:
        """A wait ends."""
        self._count -= 1
        if self._count == 0:
            self._waited_s += perf_counter() - self._since_s
        if self._outer is not None:
            self._outer.leave()


class Stopwatch:
    """Measures its body; tasks and threads that the body starts may wait in queues for it."""

    __slots__ = ("_before_s", "_clock", "_is_own", "_started_s", "_token", "queue_s", "seconds")

    def __init__(self, *, is_own: bool = False) -> None:
        """Measure a stage, or with `is_own` a whole attempt, whose waits are no other's."""
        self._is_own = is_own
        self._token: Token[QueueClock | None] | None = None
        self.seconds = 0.0
        """Without the waits; told at the end."""
        self.queue_s = 0.0

    def __enter__(self) -> Self:
        clock = _CLOCK.get()
        if clock is None or self._is_own:
            clock = QueueClock(clock)
            self._token = _CLOCK.set(clock)
        self._clock = clock
        self._before_s = clock.waited_s
        self._started_s = perf_counter()
        return self

    def __exit__(self, *_: object) -> None:
        total_s = perf_counter() - self._started_s
        self.queue_s = self._clock.waited_s - self._before_s
        self.seconds = max(0.0, total_s - self.queue_s)
        if self._token is not None:
            _CLOCK.reset(self._token)


def current_clock() -> QueueClock | None:
    """Of the attempt that is being measured; None outside of any."""
    return _CLOCK.get()


@contextmanager
def in_queue() -> Iterator[None]:
    """Around every wait for a turn: it is charged to no stage and to no time limit."""
    clock = _CLOCK.get()
    if clock is None:
        yield
        return
    clock.enter()
    try:
        yield
    finally:
        clock.leave()


_CLOCK: ContextVar[QueueClock | None] = ContextVar("strop_queue_clock", default=None)
