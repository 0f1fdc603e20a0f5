"""Messages and tools as chat templates take them."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from strop.models.renderer.writing import text_of
from strop.types import Message, ToolCall, ToolSpec


def encode_messages(messages: Sequence[Message]) -> list[dict[str, Any]]:
    """A conversation.

    Raises:
        RendererError: It holds images or audio.
    """
    return [_encode_message(message) for message in messages]


def encode_tools(tools: Sequence[ToolSpec]) -> list[dict[str, Any]]:
    """What the model may call."""
    return [
        {
            "type": "function",
            "function": {
                "name": tool.name,
                "description": tool.description,
                "parameters": tool.parameters,
            },
        }
        for tool in tools
    ]


def stand_in(observation: Sequence[Message], said: str) -> tuple[Message, ...]:
    """A conversation that `observation` can follow, and in which the assistant last said `said`.

    Where calls are answered, `said` stands in the last call too, for some templates then leave
    the text out.
    """
    answers = [message for message in observation if message.role == "tool"]
    calls = tuple(
        ToolCall(
            message.tool_call_id or f"call_{index}",
            message.name or "call",
            json.dumps({"said": said}, ensure_ascii=False),
        )
        for index, message in enumerate(answers)
    )
    return Message("user", "Hello"), Message("assistant", said, tool_calls=calls)


def _encode_message(message: Message) -> dict[str, Any]:
    encoded: dict[str, Any] = {"role": message.role, "content": text_of(message)}
    if message.role == "tool":
        encoded["tool_call_id"] = message.tool_call_id
    if message.name is not None:
        encoded["name"] = message.name
    if message.reasoning is not None:
        encoded["reasoning_content"] = message.reasoning
    if message.tool_calls:
        encoded["tool_calls"] = [_encode_call(call) for call in message.tool_calls]
    return encoded


def _encode_call(call: ToolCall) -> dict[str, Any]:
    """Templates write arguments as an object; malformed ones go in as they are."""
    try:
        arguments = json.loads(call.arguments)
    except ValueError:
        arguments = call.arguments
    function = {"name": call.name, "arguments": arguments}
    return {"id": call.id, "type": "function", "function": function}
