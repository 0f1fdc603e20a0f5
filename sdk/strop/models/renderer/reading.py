"""From what a model wrote to a message: thoughts first, then calls, the rest is its answer."""

from __future__ import annotations

from collections.abc import Sequence

from strop.models.renderer.calls import CallFormat, read_calls
from strop.types import Message, ToolSpec

_OPEN, _CLOSE = "<think>", "</think>"


def read_text(
    text: str,
    format: CallFormat,
    tools: Sequence[ToolSpec] = (),
    *,
    is_thinking: bool = False,
) -> Message:
    """The assistant's message.

    Calls inside thoughts are thoughts: a model that ponders a call has not made it.

    Args:
        text: What was sampled, without the mark that ended it.
        format: How calls are written.
        tools: For arguments that tell no type themselves.
        is_thinking: Whether the prompt already opened the thoughts.
    """
    reasoning, answer = _split_thoughts(text, is_thinking=is_thinking)
    content, calls = read_calls(answer, format, tools)
    return Message("assistant", content, tool_calls=calls, reasoning=reasoning)


def _split_thoughts(text: str, *, is_thinking: bool) -> tuple[str | None, str]:
    begun = text.lstrip()
    if begun.startswith(_OPEN):
        begun = begun.removeprefix(_OPEN)
    elif not is_thinking:
        return None, text
    thoughts, _, answer = begun.partition(_CLOSE)
    # Without a closing mark the thoughts were cut off, and there is no answer.
    thoughts = thoughts.removeprefix("\n").removesuffix("\n")
    return thoughts or None, answer.removeprefix("\n").removeprefix("\n")
