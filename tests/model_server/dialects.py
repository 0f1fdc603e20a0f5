"""Anthropic's Messages and OpenAI's Responses, over the same engine."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

from tests.model_server.sampling import Policy, Sampled, sample
from tests.model_server.tokens import render

_ANTHROPIC_STOPS = {"stop": "end_turn", "length": "max_tokens", "tool_calls": "tool_use"}


def messages(body: dict[str, Any], policy: Policy) -> tuple[Sampled, dict[str, Any]]:
    """POST /v1/messages."""
    turns = [_plain(message) for message in body["messages"]]
    if body.get("system"):
        turns.insert(0, {"role": "system", "content": body["system"]})
    tools = body.get("tools") or []
    sampled = sample(policy, turns, tools, render(turns, tools), body)
    blocks: list[dict[str, Any]] = []
    if sampled.said.reasoning:
        blocks.append({"type": "thinking", "thinking": sampled.said.reasoning, "signature": "s"})
    if sampled.said.text:
        blocks.append({"type": "text", "text": sampled.said.text})
    for call in sampled.said.calls:
        use = {"id": call["id"], "name": call["name"], "input": json.loads(call["arguments"])}
        blocks.append({"type": "tool_use", **use})
    cached = len(sampled.prompt_ids) // 2
    return sampled, {
        "id": "msg_1",
        "type": "message",
        "role": "assistant",
        "model": body["model"],
        "content": blocks,
        "stop_reason": _ANTHROPIC_STOPS[sampled.finish_reason],
        "usage": {
            "input_tokens": len(sampled.prompt_ids) - cached,
            "cache_read_input_tokens": cached,
            "output_tokens": len(sampled.ids),
        },
    }


def messages_events(document: dict[str, Any]) -> Iterator[Any]:
    yield {"type": "message_start", "message": document | {"content": [], "stop_reason": None}}
    for index, block in enumerate(document["content"]):
        kind = block["type"]
        empty = {"text": {"text": ""}, "thinking": {"thinking": ""}, "tool_use": {"input": {}}}
        yield {
            "type": "content_block_start",
            "index": index,
            "content_block": block | empty[kind],
        }
        for delta in _block_deltas(block):
            yield {"type": "content_block_delta", "index": index, "delta": delta}
        yield {"type": "content_block_stop", "index": index}
    yield {"type": "ping"}
    yield {
        "type": "message_delta",
        "delta": {"stop_reason": document["stop_reason"]},
        "usage": {"output_tokens": (document["usage"] or {}).get("output_tokens")},
    }
    yield {"type": "message_stop"}


def _block_deltas(block: dict[str, Any]) -> Iterator[dict[str, Any]]:
    kind = block["type"]
    words = json.dumps(block["input"]) if kind == "tool_use" else block[kind]
    name, member = {
        "text": ("text_delta", "text"),
        "thinking": ("thinking_delta", "thinking"),
        "tool_use": ("input_json_delta", "partial_json"),
    }[kind]
    for at in range(0, len(words), 5):
        yield {"type": name, member: words[at : at + 5]}


def responses(body: dict[str, Any], policy: Policy) -> tuple[Sampled, dict[str, Any]]:
    """POST /v1/responses."""
    turns = [_plain(item) for item in body["input"] if "role" in item or "output" in item]
    tools = body.get("tools") or []
    sampled = sample(policy, turns, tools, render(turns, tools), body)
    said = sampled.said
    output: list[dict[str, Any]] = []
    if said.reasoning:
        part = {"type": "summary_text", "text": said.reasoning}
        output.append({"type": "reasoning", "id": "rs_1", "summary": [part]})
    if said.text:
        words = {"type": "output_text", "text": said.text, "annotations": []}
        output.append({"type": "message", "role": "assistant", "content": [words]})
    for call in said.calls:
        names = {"call_id": call["id"], "name": call["name"], "arguments": call["arguments"]}
        output.append({"type": "function_call", **names})
    is_cut = sampled.finish_reason == "length"
    return sampled, {
        "id": "resp_1",
        "object": "response",
        "model": body["model"],
        "status": "incomplete" if is_cut else "completed",
        "incomplete_details": {"reason": "max_output_tokens"} if is_cut else None,
        "error": None,
        "output": output,
        "usage": {
            "input_tokens": len(sampled.prompt_ids),
            "input_tokens_details": {"cached_tokens": len(sampled.prompt_ids) // 2},
            "output_tokens": len(sampled.ids),
        },
    }


def responses_events(document: dict[str, Any]) -> Iterator[Any]:
    begun = document | {"status": "in_progress", "output": [], "usage": None}
    yield {"type": "response.created", "response": begun}
    for index, item in enumerate(document["output"]):
        yield {"type": "response.output_item.done", "output_index": index, "item": item}
    yield {"type": f"response.{document['status']}", "response": document}


def _plain(message: dict[str, Any]) -> dict[str, Any]:
    """A message whose content is one text, whatever blocks it came in."""
    content = message.get("content", message.get("output"))
    return {"role": message.get("role", "tool"), "content": _words(content)}


def _words(content: Any) -> str:
    if isinstance(content, str):
        return content
    blocks = content if isinstance(content, list) else ()
    return "".join(_words(block.get("text") or block.get("content")) for block in blocks)
