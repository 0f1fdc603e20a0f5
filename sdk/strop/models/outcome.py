"""What kind of reply a completion is: the kinds that a rollout treats differently, by name."""

from __future__ import annotations

from typing import Literal, TypeAlias

from strop.trajectory import Segment
from strop.types import Completion, Message

Outcome: TypeAlias = Literal[
    "answer", "tool_calls", "truncated", "filtered", "reasoning_only", "empty"
]

USUAL: frozenset[Outcome] = frozenset({"answer", "tool_calls"})
"""The kinds that an environment can go on with; reports count the others."""


def outcome_of(reply: Completion | Segment) -> Outcome:
    """The kind of a completion, live or as a trajectory keeps it.

    ``truncated``: cut off by the token limit, whatever it holds. ``filtered``: withheld by the
    provider. ``reasoning_only``: thoughts without an answer. ``empty``: the model ended at once,
    with no text or only spaces; an endpoint that sends nothing at all raises `ModelReplyError`
    instead.

    Args:
        reply: A completion, or a segment of the kind ``completion``.
    """
    if reply.finish_reason == "length":
        return "truncated"
    if reply.finish_reason == "content_filter":
        return "filtered"
    message = reply.message if isinstance(reply, Completion) else reply.messages[0]
    if message.tool_calls:
        return "tool_calls"
    if not _is_blank(message):
        return "answer"
    return "reasoning_only" if message.reasoning else "empty"


def _is_blank(message: Message) -> bool:
    content = message.content
    return not content or (isinstance(content, str) and content.isspace())
