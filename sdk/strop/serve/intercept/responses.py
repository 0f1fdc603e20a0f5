"""OpenAI's Responses, seen from the server's side.

Source: the OpenAI API reference, responses and their streamed events.
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
)
from strop.types import Completion, Message, Part, Role, Sampling, ToolCall, ToolSpec

_ROLES: dict[Any, Role] = {
    "system": "system",
    "developer": "system",
    "user": "user",
    "assistant": "assistant",
}
_INCOMPLETE = {"length": "max_output_tokens", "content_filter": "content_filter"}
_TEXTS = {"input_text": "text", "output_text": "text", "text": "text", "refusal": "refusal"}


class Responses:
    """Responses; earlier ones are known by their ids as long as the program runs."""

    def decode(
        self,
        body: dict[str, Any],
        passed: tuple[str, ...],
        kept: Mapping[str, list[Any]] | None = None,
    ) -> Call:
        """Read a request."""
        items = _items(body, kept or {})
        if body.get("background"):
            raise CallError("`background` is set. Wait for the response, or stream it.")
        instructions = body.get("instructions")
        head = [Message("system", instructions)] if isinstance(instructions, str) else []
        return Call(
            messages=named_tools([*head, *_messages(items)]),
            tools=tuple(_tool(tool) for tool in body.get("tools") or ()),
            wish=Sampling(
                max_tokens=positive_count(body.get("max_output_tokens"), "max_output_tokens"),
                extra={name: body[name] for name in passed if name in body},
            ),
            model=str(body.get("model") or ""),
            is_streaming=bool(body.get("stream")),
            items=tuple(items),
        )

    def encode(self, call: Call, completion: Completion, reply_id: str) -> dict[str, Any]:
        """The whole reply."""
        cause = _INCOMPLETE.get(completion.finish_reason)
        return {
            "id": f"resp_{reply_id}",
            "object": "response",
            "created_at": int(time.time()),
            "status": "incomplete" if cause else "completed",
            "error": None,
            "incomplete_details": {"reason": cause} if cause else None,
            "instructions": None,
            "metadata": {},
            "model": call.model,
            "output": _output(completion.message, reply_id, has_all=cause is None),
            "parallel_tool_calls": True,
            "previous_response_id": None,
            "store": False,
            "temperature": None,
            "text": {"format": {"type": "text"}},
            "tool_choice": "auto",
            "tools": [],
            "top_p": None,
            "truncation": "disabled",
            "usage": _usage(completion),
        }

    def encode_stream(self, call: Call, reply: dict[str, Any]) -> bytes:
        """The same reply as a stream of events."""
        events = [
            f"event: {event['type']}\ndata: {json.dumps({**event, 'sequence_number': number})}\n\n"
            for number, event in enumerate(_events(reply))
        ]
        return "".join(events).encode("ascii")

    def read_back(self, reply: dict[str, Any]) -> Message:
        """The reply's message as a program sends it back."""
        (message,) = _messages(reply["output"])
        return message

    def refuse(self, status: int, message: str) -> dict[str, Any]:
        """An error's document."""
        kind = "authentication_error" if status == 401 else "invalid_request_error"
        return {"error": {"message": message, "type": kind, "param": None, "code": None}}


def _items(body: dict[str, Any], kept: Mapping[str, list[Any]]) -> list[Any]:
    given = body.get("input")
    items = [{"role": "user", "content": given}] if isinstance(given, str) else given
    if not isinstance(items, list) or not items:
        raise CallError("`input` is neither text nor a list with an item in it.")
    before = body.get("previous_response_id")
    if before is None:
        return items
    if before not in kept:
        raise CallError(f"There was no response {before!r} of this program.")
    return [*kept[before], *items]


def _messages(items: list[Any]) -> list[Message]:
    """The messages; thoughts, text and calls of one reply, which are items here, are one."""
    messages: list[Message] = []
    is_open = False
    for item in items:
        message = _message(item)
        if message.role != "assistant":
            messages.append(message)
            is_open = False
        elif is_open and _goes_on(messages[-1], message):
            messages[-1] = _joined(messages[-1], message)
        else:
            messages.append(message)
            is_open = True
    return messages


def _goes_on(said: Message, more: Message) -> bool:
    # A reply thinks, speaks and calls, in this order.
    if more.tool_calls:
        return True
    return not said.tool_calls and not said.content and more.reasoning is None


def _joined(said: Message, more: Message) -> Message:
    return Message(
        "assistant",
        said.content or more.content,
        tool_calls=said.tool_calls + more.tool_calls,
        reasoning=said.reasoning,
    )


def _message(item: Any) -> Message:
    kind = item.get("type", "message") if isinstance(item, dict) else None
    if kind == "function_call":
        call = ToolCall(str(item["call_id"]), str(item["name"]), str(item.get("arguments") or ""))
        return Message("assistant", "", tool_calls=(call,))
    if kind == "function_call_output":
        content = read_content(item.get("output"), _part)
        return Message("tool", content, tool_call_id=str(item["call_id"]))
    if kind == "reasoning":
        parts = [*(item.get("content") or ()), *(item.get("summary") or ())]
        text = "\n\n".join(str(part.get("text") or "") for part in parts)
        return Message("assistant", "", reasoning=text or None)
    role = _ROLES.get(item.get("role")) if kind == "message" else None
    if role is None:
        raise CallError(f"{item!r} is no item that is taken: a message, a call, or its output.")
    return Message(role, read_content(item.get("content"), _part))


def _part(value: Any) -> Part:
    kind = value.get("type") if isinstance(value, dict) else None
    if kind in _TEXTS:
        return Part("text", text=str(value.get(_TEXTS[kind]) or ""))
    if kind == "input_image" and isinstance(value.get("image_url"), str):
        return Part("image", url=value["image_url"])
    if kind == "input_audio":
        return sound_part(value)
    raise CallError(f"Parts of the type {kind!r} are not taken. Send text, images or sounds.")


def _tool(value: Any) -> ToolSpec:
    if not isinstance(value, dict) or value.get("type") != "function" or not value.get("name"):
        raise CallError("A tool is no function with a name. Provider's tools cannot be had.")
    parameters = value.get("parameters") or {"type": "object", "properties": {}}
    return ToolSpec(str(value["name"]), str(value.get("description") or ""), parameters)


def _output(said: Message, reply_id: str, *, has_all: bool) -> list[dict[str, Any]]:
    status = "completed" if has_all else "incomplete"
    items: list[dict[str, Any]] = []
    if said.reasoning is not None:
        thought = {"type": "reasoning_text", "text": said.reasoning}
        items.append(
            {"id": f"rs_{reply_id}", "type": "reasoning", "summary": [], "content": [thought]}
        )
    if said.text or not said.tool_calls:
        text = {"type": "output_text", "text": said.text, "annotations": [], "logprobs": []}
        message = {"type": "message", "role": "assistant", "status": status, "content": [text]}
        items.append({"id": f"msg_{reply_id}", **message})
    for index, call in enumerate(said.tool_calls):
        items.append(
            {
                "id": f"fc_{reply_id}_{index}",
                "type": "function_call",
                "call_id": call.id,
                "name": call.name,
                "arguments": call.arguments,
                "status": status,
            }
        )
    return items


def _usage(completion: Completion) -> dict[str, Any] | None:
    usage = completion.usage
    if usage is None:
        return None
    return {
        "input_tokens": usage.prompt_tokens,
        "input_tokens_details": {"cached_tokens": usage.cached_tokens},
        "output_tokens": usage.completion_tokens,
        "output_tokens_details": {"reasoning_tokens": 0},
        "total_tokens": usage.prompt_tokens + usage.completion_tokens,
    }


def _events(reply: dict[str, Any]) -> Iterator[dict[str, Any]]:
    begun = {**reply, "status": "in_progress", "output": [], "usage": None}
    begun["incomplete_details"] = None
    yield {"type": "response.created", "response": begun}
    yield {"type": "response.in_progress", "response": begun}
    for index, item in enumerate(reply["output"]):
        place = {"output_index": index, "item_id": item["id"]}
        yield {"type": "response.output_item.added", "output_index": index, "item": _empty(item)}
        yield from _pieces(item, place)
        yield {"type": "response.output_item.done", "output_index": index, "item": item}
    yield {"type": f"response.{reply['status']}", "response": reply}


def _empty(item: dict[str, Any]) -> dict[str, Any]:
    """An item as it begins."""
    if item["type"] == "function_call":
        return {**item, "arguments": "", "status": "in_progress"}
    return {**item, "content": [], "status": "in_progress"}


def _pieces(item: dict[str, Any], place: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """What is added to an item."""
    if item["type"] == "function_call":
        arguments = item["arguments"]
        head = "response.function_call_arguments"
        yield {"type": f"{head}.delta", **place, "delta": arguments}
        yield {"type": f"{head}.done", **place, "arguments": arguments, "name": item["name"]}
        return
    (part,) = item["content"]
    head = f"response.{part['type']}"
    place = {**place, "content_index": 0}
    yield {"type": "response.content_part.added", **place, "part": {**part, "text": ""}}
    yield {"type": f"{head}.delta", **place, "delta": part["text"], "logprobs": []}
    yield {"type": f"{head}.done", **place, "text": part["text"], "logprobs": []}
    yield {"type": "response.content_part.done", **place, "part": part}
