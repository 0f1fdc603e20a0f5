"""Messages as JSON, in the record's own form (step: rollout); empty fields are left out."""

from __future__ import annotations

from typing import Any

from strop.types import JSON, Message, Part, ToolCall


def message_to_json(message: Message) -> dict[str, JSON]:
    """The message as JSON; `message_from_json` gives an equal message back."""
    content = message.content
    value: dict[str, JSON] = {
        "role": message.role,
        "content": content if isinstance(content, str) else [_part_to_json(p) for p in content],
    }
    if message.tool_calls:
        value["tool_calls"] = [
            {"id": call.id, "name": call.name, "arguments": call.arguments}
            for call in message.tool_calls
        ]
    if message.tool_call_id is not None:
        value["tool_call_id"] = message.tool_call_id
    if message.name is not None:
        value["name"] = message.name
    if message.reasoning is not None:
        value["reasoning"] = message.reasoning
    return value


def message_from_json(value: dict[str, Any]) -> Message:
    """Read what `message_to_json` gave."""
    content = value["content"]
    calls = value.get("tool_calls", ())
    return Message(
        role=value["role"],
        content=content if isinstance(content, str) else tuple(_part_from_json(p) for p in content),
        tool_calls=tuple(ToolCall(call["id"], call["name"], call["arguments"]) for call in calls),
        tool_call_id=value.get("tool_call_id"),
        name=value.get("name"),
        reasoning=value.get("reasoning"),
    )


def _part_to_json(part: Part) -> dict[str, JSON]:
    value: dict[str, JSON] = {"kind": part.kind}
    for name in ("text", "url", "digest", "media_type"):
        if (content := getattr(part, name)) is not None:
            value[name] = content
    return value


def _part_from_json(value: dict[str, Any]) -> Part:
    get = value.get
    digest, media_type = get("digest"), get("media_type")
    if (blob := get("blob")) is not None:
        # Its bytes stayed beside the file.
        digest, media_type = blob["digest"], media_type or blob["media_type"]
    return Part(value["kind"], get("text"), get("url"), digest, media_type)
