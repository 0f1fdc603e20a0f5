"""How long each stage of an attempt may take (step: rollout)."""

from __future__ import annotations

import asyncio
from contextlib import AbstractAsyncContextManager, nullcontext
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class TimeLimits:
    """Seconds by stage, each > 0; None sets no limit. Waiting in a queue is never charged."""

    setup_s: float | None = None
    """Of ``setup``; beyond it the attempt fails."""
    turns_s: float | None = None
    """Of all turns together, model and tools; beyond it the attempt is truncated."""
    tool_s: float | None = None
    """Of one call of a tool; beyond it the model is told, and the rollout goes on."""
    reward_s: float | None = None
    """Of one reward function; beyond it the attempt fails."""


def limited(seconds: float | None) -> AbstractAsyncContextManager[object]:
    """Raises `TimeoutError` from its body after so many seconds; None never does."""
    return nullcontext() if seconds is None else asyncio.timeout(seconds)
