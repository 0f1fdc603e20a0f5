"""Anthropic's Messages, seen from the server's side.

Source: the Anthropic API reference, Messages and their streamed events.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any

from strop.serve.intercept.call import (
    Call,
    CallError,
    named_tools,
    positive_count,
    single_text,
    texts_of,
)
from strop.types import Completion, Message, Part, Sampling, ToolCall, ToolSpec

_FINISHES = {"length": "max_tokens", "tool_calls": "tool_use", "content_filter": "refusal"}
_ERRORS = {401: "authentication_error", 403: "permission_error", 404: "not_found_error"}


class Messages:
    """Messages."""

    def decode(
        self,
        body: dict[str, Any],
        passed: tuple[str, ...],
        kept: Mapping[str, list[Any]] | None = None,
    ) -> Call:
        """Read a request."""
        messages = body.get("messages")
        if not isinstance(messages, list) or not messages:
            raise CallError("`messages` is no list with a message in it.")
        read = [Message("system", text)] if (text := _system(body.get("system"))) else []
        for message in messages:
            read.extend(_message(message))
        thinking = body.get("thinking")
        return Call(
            messages=named_tools(read),
            tools=tuple(_tool(tool) for tool in body.get("tools") or ()),
            wish=Sampling(
                max_tokens=positive_count(body.get("max_tokens"), "max_tokens"),
                stop=texts_of(body.get("stop_sequences")),
                extra={name: body[name] for name in passed if name in body},
            ),
            model=str(body.get("model") or ""),
            is_streaming=bool(body.get("stream")),
            has_thinking=isinstance(thinking, dict) and thinking.get("type") != "disabled",
        )

    def encode(self, call: Call, completion: Completion, reply_id: str) -> dict[str, Any]:
        """The whole reply."""
        said = completion.message
        blocks: list[dict[str, Any]] = []
        if said.reasoning is not None and call.has_thinking:
            # Nobody signed it; what comes back is read, and never checked.
            blocks.append({"type": "thinking", "thinking": said.reasoning, "signature": reply_id})
        if said.text or not said.tool_calls:
            blocks.append({"type": "text", "text": said.text})
        for each in said.tool_calls:
            use = {"id": each.id, "name": each.name, "input": _object(each.arguments)}
            blocks.append({"type": "tool_use", **use})
        usage = completion.usage
        cached = usage.cached_tokens if usage else 0
        return {
            "id": f"msg_{reply_id}",
            "type": "message",
            "role": "assistant",
            "model": call.model,
            "content": blocks,
            "stop_reason": _FINISHES.get(completion.finish_reason, "end_turn"),
            "stop_sequence": None,
            "usage": {
                "input_tokens": max(0, usage.prompt_tokens - cached) if usage else 0,
                "cache_creation_input_tokens": 0,
                "cache_read_input_tokens": cached,
                "output_tokens": usage.completion_tokens if usage else 0,
            },
        }

    def encode_stream(self, call: Call, reply: dict[str, Any]) -> bytes:
        """The same reply as a stream of events."""
        events = [
            f"event: {event['type']}\ndata: {json.dumps(event)}\n\n" for event in _events(reply)
        ]
        return "".join(events).encode("ascii")

    def read_back(self, reply: dict[str, Any]) -> Message:
        """The reply's message as a program sends it back."""
        (message,) = _message({"role": "assistant", "content": reply["content"]})
        return message

    def refuse(self, status: int, message: str) -> dict[str, Any]:
        """An error's document."""
        kind = _ERRORS.get(status, "invalid_request_error")
        return {"type": "error", "error": {"type": kind, "message": message}}


def _events(reply: dict[str, Any]) -> Iterator[dict[str, Any]]:
    usage = {**reply["usage"], "output_tokens": 0}
    begun = {**reply, "content": [], "stop_reason": None, "usage": usage}
    yield {"type": "message_start", "message": begun}
    for index, block in enumerate(reply["content"]):
        empty, deltas = _pieces(block)
        yield {"type": "content_block_start", "index": index, "content_block": empty}
        for delta in deltas:
            yield {"type": "content_block_delta", "index": index, "delta": delta}
        yield {"type": "content_block_stop", "index": index}
    end = {"stop_reason": reply["stop_reason"], "stop_sequence": None}
    counts = {"output_tokens": reply["usage"]["output_tokens"]}
    yield {"type": "message_delta", "delta": end, "usage": counts}
    yield {"type": "message_stop"}


def _pieces(block: dict[str, Any]) -> tuple[dict[str, Any], list[dict[str, Any]]]:
    """A block as it begins, and what is added to it."""
    if block["type"] == "text":
        return {**block, "text": ""}, [{"type": "text_delta", "text": block["text"]}]
    if block["type"] == "tool_use":
        arguments = json.dumps(block["input"])
        return {**block, "input": {}}, [{"type": "input_json_delta", "partial_json": arguments}]
    thought = {"type": "thinking_delta", "thinking": block["thinking"]}
    signed = {"type": "signature_delta", "signature": block["signature"]}
    return {**block, "thinking": "", "signature": ""}, [thought, signed]


def _object(arguments: str) -> dict[str, Any]:
    """The arguments as an object, which Messages demands; malformed ones as their text."""
    try:
        value = json.loads(arguments or "{}")
    except ValueError:
        value = None
    return value if isinstance(value, dict) else {"malformed": arguments}


def _system(value: Any) -> str:
    if isinstance(value, list):
        return "\n\n".join(str(block.get("text") or "") for block in value)
    return str(value or "")


def _message(value: Any) -> list[Message]:
    """A message; the answers of tools, which are blocks here, stand before the user's words."""
    role = value.get("role") if isinstance(value, dict) else None
    if role == "system":
        return [Message("system", _system(value.get("content")))]
    if role not in ("user", "assistant"):
        raise CallError(f"{value!r} is no message: its role is not known.")
    content = value.get("content")
    if isinstance(content, str):
        return [Message(role, content)]
    if not isinstance(content, list) or not all(isinstance(block, dict) for block in content):
        raise CallError(f"{content!r} is no content: give text or a list of blocks.")
    if role == "assistant":
        return [_assistant(content)]
    answers = [_tool_answer(block) for block in content if block.get("type") == "tool_result"]
    parts = tuple(_part(block) for block in content if block.get("type") != "tool_result")
    return [*answers, Message("user", single_text(parts))] if parts else answers


def _assistant(blocks: list[dict[str, Any]]) -> Message:
    def joined(kind: str) -> str:
        return "".join(str(block.get(kind) or "") for block in blocks if block.get("type") == kind)

    uses = [block for block in blocks if block.get("type") == "tool_use"]
    return Message(
        "assistant",
        joined("text"),
        tool_calls=tuple(
            ToolCall(str(use.get("id")), str(use.get("name")), json.dumps(use.get("input") or {}))
            for use in uses
        ),
        reasoning=joined("thinking") or None,
    )


def _tool_answer(block: dict[str, Any]) -> Message:
    content = block.get("content")
    if isinstance(content, list):
        content = single_text(tuple(_part(part) for part in content))
    return Message("tool", content or "", tool_call_id=str(block.get("tool_use_id")))


def _part(block: Any) -> Part:
    kind = block.get("type") if isinstance(block, dict) else None
    if kind == "text":
        return Part("text", text=str(block.get("text") or ""))
    if kind == "image":
        source = block.get("source") or {}
        if source.get("type") == "url":
            return Part("image", url=str(source.get("url")))
        media_type = str(source.get("media_type"))
        url = f"data:{media_type};base64,{source.get('data')}"
        return Part("image", url=url, media_type=media_type)
    raise CallError(f"Blocks of the type {kind!r} are not taken. Send text or images.")


def _tool(value: Any) -> ToolSpec:
    if not isinstance(value, dict) or "input_schema" not in value:
        name = value.get("name") if isinstance(value, dict) else value
        raise CallError(f"The tool {name!r} has no input_schema. Provider's tools cannot be had.")
    description = str(value.get("description") or "")
    return ToolSpec(str(value.get("name")), description, value["input_schema"])
