"""Client of Anthropic's Messages."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any, Unpack

from strop.errors import ModelReplyError
from strop.models.endpoint import Connecting, Endpoint, Reply
from strop.models.endpoint_model import EndpointModel, completed
from strop.models.openai import root_of
from strop.models.part import encode_anthropic_part
from strop.models.reply.tokens import count_of
from strop.types import JSON, Completion, Message, Role, Sampling, ToolCall, ToolSpec, Usage

_READ = frozenset({"type", "role", "model", "content", "stop_reason", "usage"})


class AnthropicModel(EndpointModel):
    """A model behind ``POST {base_url}/messages``.

    Messages tells neither token ids nor log-probabilities and takes no seed, so `Sampling.seed`
    is left out. Earlier reasoning is not sent back: it would need the provider's signature.

    Args:
        name: As the provider calls the model.
        base_url: ``/v1`` is added to an address without a path.
        body: Further fields of every request, such as ``thinking``; `Sampling.extra` wins.
        max_tokens: When `Sampling.max_tokens` is None, for Messages demands a number.
        **connecting: See `Connecting`.
    """

    def __init__(
        self,
        name: str,
        base_url: str = "https://api.anthropic.com",
        *,
        body: Mapping[str, JSON] | None = None,
        max_tokens: int = 4096,
        is_streaming: bool = False,
        **connecting: Unpack[Connecting],
    ) -> None:
        options: dict[str, Any] = dict(connecting)
        key = options.pop("api_key", None)
        headers = {"anthropic-version": "2023-06-01"} | ({"x-api-key": key} if key else {})
        options["headers"] = {**headers, **(options.get("headers") or {})}
        endpoint = Endpoint(f"{root_of(base_url, '/messages')}/messages", **options)
        fixed = {"max_tokens": max_tokens, **(body or {})}
        super().__init__(name, endpoint, fixed, MessagesFold if is_streaming else None)

    async def complete(
        self, messages: Sequence[Message], tools: Sequence[ToolSpec], sampling: Sampling
    ) -> Completion:
        """Sample one completion.

        Raises:
            ModelError: As `strop.errors` says, after the retries that the policy allows.
        """
        fields = _encode(messages, tools) | _encode_sampling(sampling)
        return await self._call(fields, read_reply, sampling.seed)


def read_reply(reply: Reply) -> Completion:
    """The completion in a reply.

    Raises:
        ModelReplyError: There is none.
    """
    document = reply.document
    blocks = document.get("content")
    if not isinstance(blocks, list):
        raise ModelReplyError(f"{reply.where} sent no content: {blocks!r}")
    message = _read_blocks([block for block in blocks if isinstance(block, dict)])
    usage = _read_usage(document.get("usage"))
    finish = "stop_reason", document.get("stop_reason")
    return completed(reply, message, usage, finish, _READ)


class MessagesFold:
    """Puts the events of a streamed reply together."""

    def __init__(self) -> None:
        self._document: dict[str, Any] = {}
        self._blocks: dict[int, dict[str, Any]] = {}
        self._pieces: dict[tuple[int, str], list[str]] = {}
        self._is_ended = False

    def take(self, event: dict[str, Any]) -> None:
        """Add one event; kinds that are not known are passed over."""
        kind = event.get("type")
        if kind == "message_start":
            self._document = dict(event.get("message") or {})
        elif kind == "content_block_start":
            self._blocks[event["index"]] = dict(event["content_block"])
        elif kind == "content_block_delta":
            self._take_delta(event["index"], event["delta"])
        elif kind == "message_delta":
            usage = {**(self._document.get("usage") or {}), **(event.get("usage") or {})}
            self._document |= {**(event.get("delta") or {}), "usage": usage}
        elif kind == "message_stop":
            self._is_ended = True

    def finish(self) -> dict[str, Any] | None:
        """The reply as if it had come whole; None when it was cut."""
        if not self._is_ended or self._document.get("stop_reason") is None:
            return None
        for (index, name), pieces in self._pieces.items():
            self._blocks[index][name] = "".join(pieces)
        return {**self._document, "content": [self._blocks[at] for at in sorted(self._blocks)]}

    def _take_delta(self, index: int, delta: dict[str, Any]) -> None:
        for name in ("text", "thinking", "partial_json"):
            if isinstance(delta.get(name), str):
                self._pieces.setdefault((index, name), []).append(delta[name])


def _read_blocks(blocks: Sequence[dict[str, Any]]) -> Message:
    def joined(kind: str) -> str:
        return "".join(str(block.get(kind) or "") for block in blocks if block.get("type") == kind)

    calls = (block for block in blocks if block.get("type") == "tool_use")
    return Message(
        "assistant",
        joined("text"),
        tool_calls=tuple(
            ToolCall(str(call.get("id")), str(call.get("name")), _read_arguments(call))
            for call in calls
        ),
        reasoning=joined("thinking") or None,
    )


def _read_arguments(call: Mapping[str, Any]) -> str:
    if "partial_json" in call:
        return str(call["partial_json"]) or "{}"
    return json.dumps(call.get("input") or {})


def _read_usage(counts: Any) -> Usage | None:
    """Counts as OpenAI counts: the prompt with what was read from and written to the cache."""
    if not isinstance(counts, dict) or not counts:
        return None
    cached = count_of(counts.get("cache_read_input_tokens"))
    written = count_of(counts.get("cache_creation_input_tokens"))
    prompt_count = count_of(counts.get("input_tokens")) + cached + written
    return Usage(prompt_count, count_of(counts.get("output_tokens")), cached)


def _encode(messages: Sequence[Message], tools: Sequence[ToolSpec]) -> dict[str, JSON]:
    body: dict[str, JSON] = {}
    system = "\n\n".join(message.text for message in messages if message.role == "system")
    if system:
        body["system"] = system
    turns: list[dict[str, Any]] = []
    said_last: Role = "system"
    for message in messages:
        if message.role == "system":
            continue
        role = "assistant" if message.role == "assistant" else "user"
        blocks = _encode_blocks(message)
        # The answers to parallel calls are one message. What else is said after them is another,
        # which Anthropic joins to it by itself: llama.cpp would put it in front of the answers.
        is_after_answers = said_last == "tool" and message.role != "tool"
        if turns and turns[-1]["role"] == role and not is_after_answers:
            turns[-1]["content"] += blocks
        elif blocks:
            turns.append({"role": role, "content": blocks})
        said_last = message.role
    body["messages"] = list(turns)
    if tools:
        body["tools"] = [
            {"name": tool.name, "description": tool.description, "input_schema": tool.parameters}
            for tool in tools
        ]
    return body


def _encode_blocks(message: Message) -> list[JSON]:
    if isinstance(message.content, str):
        # Messages refuses empty text blocks.
        blocks: list[JSON] = [{"type": "text", "text": message.content}] if message.content else []
    else:
        blocks = [encode_anthropic_part(part) for part in message.content]
    if message.role == "tool":
        return [
            {"type": "tool_result", "tool_use_id": message.tool_call_id, "content": blocks},
        ]
    for call in message.tool_calls:
        use: dict[str, JSON] = {"id": call.id, "name": call.name, "input": _object(call)}
        blocks.append({"type": "tool_use", **use})
    return blocks


def _object(call: ToolCall) -> dict[str, JSON]:
    """The arguments as an object, which Messages demands; malformed ones as their text."""
    try:
        arguments = json.loads(call.arguments)
    except ValueError:
        arguments = None
    return arguments if isinstance(arguments, dict) else {"malformed": call.arguments}


def _encode_sampling(sampling: Sampling) -> dict[str, JSON]:
    body: dict[str, JSON] = {}
    if sampling.temperature is not None:
        body["temperature"] = sampling.temperature
    if sampling.top_p is not None:
        body["top_p"] = sampling.top_p
    if sampling.max_tokens is not None:
        body["max_tokens"] = sampling.max_tokens
    if sampling.stop:
        body["stop_sequences"] = list(sampling.stop)
    return body | sampling.extra
