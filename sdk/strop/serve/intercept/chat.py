"""OpenAI's chat completions, seen from the server's side.

Source: the OpenAI API reference, chat completions and their streamed chunks.
"""

from __future__ import annotations

import json
import time
from collections.abc import Iterator, Mapping
from typing import Any

from strop.serve.intercept.call import (
    Call,
    CallError,
    named_tools,
    positive_count,
    read_content,
    sound_part,
    texts_of,
)
from strop.types import Completion, Message, Part, Role, Sampling, ToolCall, ToolSpec

_ROLES: dict[Any, Role] = {
    "system": "system",
    "developer": "system",
    "user": "user",
    "assistant": "assistant",
    "tool": "tool",
    "function": "tool",
}
_FINISHES = {"length": "length", "tool_calls": "tool_calls", "content_filter": "content_filter"}


class Chat:
    """Chat completions."""

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
        if body.get("n") not in (None, 1):
            raise CallError("`n` is not 1. Make one call for each completion.")
        limit = body.get("max_completion_tokens", body.get("max_tokens"))
        options = body.get("stream_options") or {}
        return Call(
            messages=named_tools([_message(message) for message in messages]),
            tools=tuple(_tool(tool) for tool in body.get("tools") or ()),
            wish=Sampling(
                max_tokens=positive_count(limit, "max_tokens"),
                stop=texts_of(body.get("stop")),
                extra={name: body[name] for name in passed if name in body},
            ),
            model=str(body.get("model") or ""),
            is_streaming=bool(body.get("stream")),
            has_usage=bool(options.get("include_usage")),
        )

    def encode(self, call: Call, completion: Completion, reply_id: str) -> dict[str, Any]:
        """The whole reply."""
        said = completion.message
        message: dict[str, Any] = {"role": "assistant", "content": said.text, "refusal": None}
        if said.reasoning is not None:
            message["reasoning_content"] = said.reasoning
        if said.tool_calls:
            message["content"] = said.text or None
            message["tool_calls"] = [_encode_tool_call(each) for each in said.tool_calls]
        finish = _FINISHES.get(completion.finish_reason, "stop")
        choice = {"index": 0, "message": message, "finish_reason": finish, "logprobs": None}
        reply: dict[str, Any] = {
            "id": f"chatcmpl-{reply_id}",
            "object": "chat.completion",
            "created": int(time.time()),
            "model": call.model,
            "choices": [choice],
        }
        if completion.usage is not None:
            usage = completion.usage
            reply["usage"] = {
                "prompt_tokens": usage.prompt_tokens,
                "completion_tokens": usage.completion_tokens,
                "total_tokens": usage.prompt_tokens + usage.completion_tokens,
                "prompt_tokens_details": {"cached_tokens": usage.cached_tokens},
            }
        return reply

    def encode_stream(self, call: Call, reply: dict[str, Any]) -> bytes:
        """The same reply as a stream of chunks."""
        lines = [f"data: {json.dumps(chunk)}\n\n" for chunk in _chunks(call, reply)]
        return "".join([*lines, "data: [DONE]\n\n"]).encode("ascii")

    def read_back(self, reply: dict[str, Any]) -> Message:
        """The reply's message as a program sends it back."""
        return _message(reply["choices"][0]["message"])

    def refuse(self, status: int, message: str) -> dict[str, Any]:
        """An error's document."""
        kind = "authentication_error" if status == 401 else "invalid_request_error"
        return {"error": {"message": message, "type": kind, "param": None, "code": None}}


def _chunks(call: Call, reply: dict[str, Any]) -> Iterator[dict[str, Any]]:
    head = {name: reply[name] for name in ("id", "created", "model")}
    head["object"] = "chat.completion.chunk"
    choice = reply["choices"][0]
    message = choice["message"]
    # Clients that print as they go want pieces; one piece for each member is a stream, too.
    deltas: list[dict[str, Any]] = [{"role": "assistant", "content": ""}]
    deltas += [
        {name: message[name]} for name in ("reasoning_content", "content") if message.get(name)
    ]
    deltas += [
        {"tool_calls": [{"index": index, **tool_call}]}
        for index, tool_call in enumerate(message.get("tool_calls") or ())
    ]
    for delta in deltas:
        yield {**head, "choices": [{"index": 0, "delta": delta, "finish_reason": None}]}
    last = {"index": 0, "delta": {}, "finish_reason": choice["finish_reason"]}
    yield {**head, "choices": [last]}
    if call.has_usage and "usage" in reply:
        yield {**head, "choices": [], "usage": reply["usage"]}


def _encode_tool_call(call: ToolCall) -> dict[str, Any]:
    function = {"name": call.name, "arguments": call.arguments}
    return {"id": call.id, "type": "function", "function": function}


def _message(value: Any) -> Message:
    role = _ROLES.get(value.get("role")) if isinstance(value, dict) else None
    if role is None:
        raise CallError(f"{value!r} is no message: its role is not known.")
    calls = value.get("tool_calls") or () if role == "assistant" else ()
    reasoning = value.get("reasoning_content") if role == "assistant" else None
    return Message(
        role,
        read_content(value.get("content"), _part),
        tool_calls=tuple(_tool_call(call) for call in calls),
        tool_call_id=value.get("tool_call_id") if role == "tool" else None,
        name=value.get("name"),
        reasoning=reasoning if isinstance(reasoning, str) and reasoning else None,
    )


def _part(value: Any) -> Part:
    kind = value.get("type") if isinstance(value, dict) else None
    if kind in ("text", "refusal"):
        return Part("text", text=str(value.get(kind) or ""))
    if kind == "image_url":
        image = value.get("image_url")
        return Part("image", url=str(image.get("url") if isinstance(image, dict) else image))
    if kind == "input_audio":
        return sound_part(value)
    raise CallError(f"Parts of the type {kind!r} are not taken. Send text, images or sounds.")


def _tool_call(value: Any) -> ToolCall:
    function = value.get("function") if isinstance(value, dict) else None
    if not isinstance(function, dict):
        raise CallError(f"{value!r} calls no function.")
    arguments = function.get("arguments")
    text = arguments if isinstance(arguments, str) else json.dumps(arguments or {})
    return ToolCall(str(value.get("id") or ""), str(function.get("name") or ""), text)


def _tool(value: Any) -> ToolSpec:
    function = value.get("function") if isinstance(value, dict) else None
    if not isinstance(function, dict) or not isinstance(function.get("name"), str):
        raise CallError("A tool is no function with a name. Only functions can be offered.")
    parameters = function.get("parameters") or {"type": "object", "properties": {}}
    return ToolSpec(function["name"], str(function.get("description") or ""), parameters)
