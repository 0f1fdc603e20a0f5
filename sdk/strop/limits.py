"""How long each stage of an attempt may take (step: rollout)."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from contextlib import AbstractAsyncContextManager, nullcontext
from dataclasses import dataclass
from typing import Any, Self

from strop.stopwatch import current_clock
from strop.trajectory import Trajectory
from strop.types import Completion, Message

_TICK_COUNT = 10
_CHARS_PER_TOKEN = 4
"""What English text has with the usual tokenizers."""


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
    return nullcontext() if seconds is None else Patience(seconds)


class Patience:
    """A time limit whose clock is the event loop's own ticks.

    Where hundreds of calls compete for the interpreter, ticks come late too: what a call only
    waited is not charged to it, and a call that sleeps or hangs is charged every second. Ticks
    during which its attempt waits in a queue do not count.
    """

    def __init__(self, seconds: float) -> None:
        self._tick_s = seconds / _TICK_COUNT
        self._left_count = _TICK_COUNT
        self._timeout = asyncio.timeout(None)

    async def __aenter__(self) -> Self:
        self._loop = asyncio.get_running_loop()
        self._clock = current_clock()
        await self._timeout.__aenter__()
        self._next = self._loop.call_later(self._tick_s, self._tick)
        return self

    async def __aexit__(self, *error: Any) -> None:
        self._next.cancel()
        await self._timeout.__aexit__(*error)

    @property
    def is_spent(self) -> bool:
        """Whether the time was over before its body was."""
        return self._timeout.expired()

    def _tick(self) -> None:
        if self._clock is None or not self._clock.is_waiting:
            self._left_count -= 1
        if self._left_count:
            self._next = self._loop.call_later(self._tick_s, self._tick)
        else:
            self._timeout.reschedule(self._loop.time())


def sampled_tokens(completion: Completion) -> int:
    """As the endpoint counted, else from the token ids, else estimated from the text.

    Without the estimate a limit would never be reached where an endpoint tells no usage.
    """
    if completion.usage is not None:
        return completion.usage.completion_tokens
    if completion.token_ids is not None:
        return len(completion.token_ids)
    return _estimated_tokens(completion.message)


def spent_tokens(trajectory: Trajectory) -> int:
    """Prompt and sampled tokens of all completions; estimated where no usage was told."""
    usage = trajectory.usage
    told = usage.prompt_tokens + usage.completion_tokens
    return told + sum(
        _estimated_tokens(message)
        for segment in trajectory.segments
        if segment.kind == "completion" and segment.usage is None
        for message in segment.messages
    )


def used_tokens(prompt: Sequence[Message], completion: Completion) -> int:
    """Prompt and sampled tokens of one completion; estimated where no usage was told."""
    usage = completion.usage
    if usage is not None:
        return usage.prompt_tokens + usage.completion_tokens
    ids = completion.prompt_token_ids
    prompt_count = sum(map(_estimated_tokens, prompt)) if ids is None else len(ids)
    return prompt_count + sampled_tokens(completion)


def _estimated_tokens(message: Message) -> int:
    calls = sum(len(call.name) + len(call.arguments) for call in message.tool_calls)
    return -(-(len(message.text) + len(message.reasoning or "") + calls) // _CHARS_PER_TOKEN)
