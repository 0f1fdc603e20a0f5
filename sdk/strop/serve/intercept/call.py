"""What a program asks of a model, whichever dialect it speaks."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Protocol

from strop.types import Completion, Message, Part, Sampling, ToolSpec


class CallError(ValueError):
    """A call that cannot be read; the program is told."""


@dataclass(frozen=True, slots=True)
class Call:
    """One call of a program."""

    messages: tuple[Message, ...]
    tools: tuple[ToolSpec, ...]
    wish: Sampling
    """What it asks of its sampling; temperature and the like are the driver's business."""
    model: str
    """The name that it asked for, and gets back."""
    is_streaming: bool = False
    has_usage: bool = False
    """Whether a stream ends with counts of tokens."""
    has_thinking: bool = False
    """Whether it wants to see thoughts."""
    items: tuple[Any, ...] | None = None
    """The conversation as it was written, where a later call may name it by its reply's id."""


class Dialect(Protocol):
    """How a provider's requests and replies are written."""

    def decode(
        self,
        body: dict[str, Any],
        passed: tuple[str, ...],
        kept: Mapping[str, list[Any]] | None = None,
    ) -> Call:
        """Read a request.

        Args:
            body: The request.
            passed: Its fields that go into the wish's `extra` as they are.
            kept: Earlier conversations by their replies' ids.

        Raises:
            CallError: It lacks something, or wants what cannot be had.
        """
        ...

    def encode(self, call: Call, completion: Completion, reply_id: str) -> dict[str, Any]:
        """The whole reply."""
        ...

    def encode_stream(self, call: Call, reply: dict[str, Any]) -> bytes:
        """The same reply as a stream of events."""
        ...

    def read_back(self, reply: dict[str, Any]) -> Message:
        """The reply's message as a program sends it back in its next call."""
        ...

    def refuse(self, status: int, message: str) -> dict[str, Any]:
        """An error's document."""
        ...


def single_text(parts: tuple[Any, ...] | str) -> Any:
    """A lone text part as its text: programs write both for one and the same."""
    if isinstance(parts, tuple) and len(parts) == 1 and parts[0].kind == "text":
        return parts[0].text or ""
    return parts if parts else ""


def read_content(value: Any, read_part: Callable[[Any], Part]) -> str | tuple[Part, ...]:
    """A message's content: nothing, a text or a list of parts.

    Raises:
        CallError: It is something else.
    """
    if value is None or isinstance(value, str):
        return value or ""
    if not isinstance(value, list):
        raise CallError(f"{value!r} is no content: give text or a list of parts.")
    content: str | tuple[Part, ...] = single_text(tuple(read_part(part) for part in value))
    return content


def sound_part(value: dict[str, Any]) -> Part:
    """A part ``input_audio``, as both of OpenAI's dialects write it."""
    sound = value.get("input_audio") or {}
    media_type = f"audio/{sound.get('format')}"
    url = f"data:{media_type};base64,{sound.get('data')}"
    return Part("audio", url=url, media_type=media_type)


def named_tools(messages: list[Message]) -> tuple[Message, ...]:
    """The messages, each tool's answer with the name of the tool that its call names."""
    names = {call.id: call.name for message in messages for call in message.tool_calls}
    return tuple(
        Message("tool", message.content, tool_call_id=message.tool_call_id, name=name)
        if message.role == "tool" and (name := names.get(message.tool_call_id or ""))
        else message
        for message in messages
    )


def positive_count(value: Any, name: str) -> int | None:
    """A number of tokens that a request names; None when it names none.

    Raises:
        CallError: It is no positive integer.
    """
    if value is None:
        return None
    if not isinstance(value, int) or isinstance(value, bool) or value < 1:
        raise CallError(f"{name} is {value!r}. Give an integer above 0.")
    return value


def texts_of(value: Any) -> tuple[str, ...]:
    """Stop sequences, given as one text or several."""
    if value is None:
        return ()
    return (value,) if isinstance(value, str) else tuple(str(each) for each in value)
