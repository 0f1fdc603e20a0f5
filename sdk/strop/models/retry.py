"""Which faults of an endpoint are worth another try, and when."""

from __future__ import annotations

import asyncio
import random
import time
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from typing import TypeVar

from strop.errors import ModelError

T = TypeVar("T")

# Dice of its own: the global ones belong to whoever seeded them.
_dice = random.Random()  # noqa: S311


@dataclass(frozen=True, slots=True)
class RetryPolicy:
    """Exponential backoff with full jitter, bounded by a number of tries and by time.

    Only errors that say so themselves (`ModelError.is_retryable`) are tried again: timeouts,
    broken connections, 429, 5xx, replies that are no completion.

    Source:
        "Exponential Backoff And Jitter", AWS Architecture Blog, 2015: the variant "full jitter".
    """

    try_count: int = 6
    """With the first one; 1 turns retries off."""
    base_s: float = 0.5
    """Longest wait before the second try; it doubles with each further one."""
    longest_s: float = 30.0
    """Longest wait by backoff. What the endpoint asks for with ``Retry-After`` may be longer."""
    total_s: float = 900.0
    """No try begins later than this after the first, but for its turn at a paced model."""

    def wait_s(self, tried_count: int, retry_after_s: float | None) -> float:
        """How long to wait after `tried_count` tries."""
        ceiling = min(self.longest_s, self.base_s * 2.0 ** min(tried_count - 1, 60))
        backoff = _dice.uniform(0.0, ceiling)
        # Jitter on top of what was asked for, so that callers turned away together part.
        return backoff if retry_after_s is None else retry_after_s + backoff


NO_RETRIES = RetryPolicy(try_count=1)
"""Every fault is reported at once."""


_TURN: ContextVar[Callable[[], Awaitable[None]] | None] = ContextVar("strop_turn", default=None)
"""What every further try of a call waits for."""


@contextmanager
def retries_in_turn(wait_for_turn: Callable[[], Awaitable[None]]) -> Iterator[None]:
    """Calls that begin in the body run `wait_for_turn` before every try but their first."""
    token = _TURN.set(wait_for_turn)
    try:
        yield
    finally:
        _TURN.reset(token)


async def call_with_retries(call: Callable[[int], Awaitable[T]], policy: RetryPolicy) -> T:
    """Run ``call(try_index)`` until it gives a value, or the policy gives up.

    Raises:
        ModelError: The last try's error, with the number of tries as a note.
    """
    started_at = time.monotonic()
    tried_count = 0
    while True:
        try:
            return await call(tried_count)
        except ModelError as error:
            tried_count += 1
            if not error.is_retryable:
                raise
            wait_s = policy.wait_s(tried_count, error.retry_after_s)
            is_late = time.monotonic() + wait_s - started_at > policy.total_s
            if tried_count >= policy.try_count or is_late:
                if tried_count > 1 or is_late:
                    error.add_note(f"given up after {tried_count} tries")
                raise
        await asyncio.sleep(wait_s)
        wait_for_turn = _TURN.get()
        if wait_for_turn is not None:
            await wait_for_turn()
