"""How long each stage of an attempt may take (step: rollout)."""

from __future__ import annotations

import asyncio
from contextlib import AbstractAsyncContextManager, nullcontext
from dataclasses import dataclass

from strop.trajectory import Trajectory
from strop.types import Completion, Message

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
    return nullcontext() if seconds is None else asyncio.timeout(seconds)


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


def _estimated_tokens(message: Message) -> int:
    calls = sum(len(call.name) + len(call.arguments) for call in message.tool_calls)
    return -(-(len(message.text) + len(message.reasoning or "") + calls) // _CHARS_PER_TOKEN)
