"""Waiting for what signals nobody: until it is so, however slow the machine."""

import asyncio
import time
from collections.abc import Callable

LIMIT_S = 120.0
"""After it something is broken, and not merely slow."""


def wait_until(is_so: Callable[[], object], limit_s: float = LIMIT_S) -> None:
    """Look again and again until something is so.

    Raises:
        AssertionError: It has not come to that in time.
    """
    deadline = time.monotonic() + limit_s
    while not is_so():
        assert time.monotonic() < deadline, f"it has not come to that in {limit_s:g} s"
        time.sleep(0.01)


async def until(is_so: Callable[[], object], limit_s: float = LIMIT_S) -> None:
    """The same while an event loop goes on."""
    deadline = time.monotonic() + limit_s
    while not is_so():
        assert time.monotonic() < deadline, f"it has not come to that in {limit_s:g} s"
        await asyncio.sleep(0.01)
