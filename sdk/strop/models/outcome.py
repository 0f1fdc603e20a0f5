"""What kind of reply a completion is: the kinds that a rollout treats differently, by name."""

from __future__ import annotations

from typing import Literal, TypeAlias

from strop.types import Completion

Outcome: TypeAlias = Literal[
    "answer", "tool_calls", "truncated", "filtered", "reasoning_only", "empty"
]


def outcome_of(completion: Completion) -> Outcome:
    """The kind of a completion.

    ``truncated``: cut off by the token limit, whatever it holds. ``filtered``: withheld by the
    provider. ``reasoning_only``: thoughts without an answer. ``empty``: the model ended at once;
    an endpoint that sends nothing at all raises `ModelReplyError` instead.
    """
    if completion.finish_reason == "length":
        return "truncated"
    if completion.finish_reason == "content_filter":
        return "filtered"
    if completion.message.tool_calls:
        return "tool_calls"
    if not _is_blank(completion):
        return "answer"
    return "reasoning_only" if completion.message.reasoning else "empty"


def _is_blank(completion: Completion) -> bool:
    content = completion.message.content
    return not content.strip() if isinstance(content, str) else not content
