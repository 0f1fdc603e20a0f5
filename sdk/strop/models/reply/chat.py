"""From a chat completion's JSON to a `Completion`; whole and streamed replies both pass here."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from strop.errors import ModelReplyError, ModelUnavailableError
from strop.models.fault import embedded_refusal
from strop.models.reply.tokens import Tokens, read_tokens, read_usage
from strop.types import Completion, FinishReason, Message, ToolCall, Usage

if TYPE_CHECKING:
    from strop.models.endpoint import Reply

FINISH_REASONS: dict[str, FinishReason] = {
    "stop": "stop",
    "eos": "stop",
    "end_turn": "stop",
    "stop_sequence": "stop",
    "length": "length",
    "max_tokens": "length",
    "max_output_tokens": "length",
    "model_length": "length",
    "model_context_window_exceeded": "length",
    "tool_calls": "tool_calls",
    "tool_use": "tool_calls",
    "function_call": "tool_calls",
    "content_filter": "content_filter",
    "refusal": "content_filter",
    "safety": "content_filter",
}
"""Every engine's names; what is not here is ``other`` and stays in `Completion.raw`."""

_ABORTED = frozenset({"abort", "error", "cancelled"})

_READ_OF_REPLY = frozenset(
    {"choices", "model", "object", "prompt_token_ids", "__verbose", "created", "error"}
)
_READ_OF_CHOICE = frozenset(
    {"index", "message", "text", "finish_reason", "logprobs", "token_ids", "prompt_token_ids"}
)
_READ_OF_MESSAGE = frozenset({"role", "content", "tool_calls", "reasoning_content", "reasoning"})
_READ_OF_USAGE = frozenset({"prompt_tokens", "completion_tokens", "total_tokens"})


def read_chat(reply: Reply) -> Completion:
    """The completion in a reply.

    Raises:
        ModelReplyError: There is none: no choices, no message, or nothing at all was sampled.
    """
    choice = first_choice(reply)
    message = choice.get("message")
    if not isinstance(message, dict):
        raise ModelReplyError(f"{reply.where} sent a choice without a message")
    return complete(reply, choice, read_message(message))


def first_choice(reply: Reply) -> dict[str, Any]:
    """The choice that a reply holds.

    Raises:
        ModelReplyError: It holds none.
        ModelUnavailableError: The engine gave it up half-way.
    """
    choices = reply.document.get("choices")
    if not isinstance(choices, list) or not choices or not isinstance(choices[0], dict):
        raise ModelReplyError(f"{reply.where} sent no choices: {choices!r}")
    choice: dict[str, Any] = choices[0]
    if choice.get("error"):
        raise embedded_refusal(choice["error"], reply.where)
    if choice.get("finish_reason") in _ABORTED:
        raise ModelUnavailableError(
            f"{reply.where} gave its completion up ({choice['finish_reason']!r})"
        )
    return choice


def complete(reply: Reply, choice: Mapping[str, Any], message: Message) -> Completion:
    """Put message, tokens and counts together.

    Raises:
        ModelReplyError: Nothing at all was sampled.
    """
    document = reply.document
    tokens = read_tokens(document, choice, reply.where)
    usage = read_usage(document.get("usage"), tokens)
    finish_reason = finish_of(choice.get("finish_reason"), message)
    refuse_nothing(message, finish_reason, tokens, usage, reply.where)
    return Completion(
        message=message,
        finish_reason=finish_reason,
        usage=usage,
        prompt_token_ids=tokens.prompt_ids,
        token_ids=tokens.ids,
        logprobs=tokens.logprobs,
        model=str(document.get("model") or ""),
        latency_s=reply.elapsed_s,
        policy_version=_policy_version(choice),
        raw=_leftovers(document, choice),
    )


def read_message(message: Mapping[str, Any]) -> Message:
    """What the assistant said, thought and called."""
    text, thoughts = _read_content(message.get("content"))
    thoughts = message.get("reasoning_content") or message.get("reasoning") or thoughts
    refusal = message.get("refusal")
    if not text and isinstance(refusal, str):
        text = refusal
    return Message(
        "assistant",
        text,
        tool_calls=_read_calls(message),
        reasoning=thoughts if isinstance(thoughts, str) and thoughts else None,
    )


def finish_of(name: Any, message: Message) -> FinishReason:
    """The reason's name among ours; a stop with tool calls is ``tool_calls``."""
    found = FINISH_REASONS.get(name.lower(), "other") if isinstance(name, str) else "other"
    return "tool_calls" if found == "stop" and message.tool_calls else found


def refuse_nothing(
    message: Message,
    finish_reason: FinishReason,
    tokens: Tokens | None,
    usage: Usage | None,
    where: str,
) -> None:
    """Tell a model that ended at once, which is a sample, from an endpoint that sent nothing.

    Raises:
        ModelReplyError: There is neither text nor thought nor call, and no count of tokens
            says that anything was sampled.
    """
    if message.content or message.tool_calls or message.reasoning:
        return
    if finish_reason in ("length", "content_filter"):
        return
    if (tokens is not None and tokens.ids) or (usage is not None and usage.completion_tokens > 0):
        return
    raise ModelReplyError(f"{where} sent an empty reply, without a token")


def _read_content(content: Any) -> tuple[str, str | None]:
    """Text and thoughts; some engines send a list of parts."""
    if isinstance(content, str):
        return content, None
    if not isinstance(content, list):
        return "", None
    parts = [part for part in content if isinstance(part, dict)]
    text = "".join(str(part.get("text") or "") for part in parts if part.get("type") == "text")
    thoughts = [part.get("thinking") for part in parts if part.get("type") == "thinking"]
    return text, "".join(thought for thought in thoughts if isinstance(thought, str)) or None


def _read_calls(message: Mapping[str, Any]) -> tuple[ToolCall, ...]:
    found = message.get("tool_calls")
    if not found:
        legacy = message.get("function_call")
        found = [{"function": legacy}] if isinstance(legacy, dict) else ()
    calls = []
    for index, call in enumerate(found):
        function = call.get("function") if isinstance(call, dict) else None
        if not isinstance(function, dict):
            continue
        arguments = function.get("arguments")
        # Some engines send the arguments as an object, or an integer as the id.
        text = arguments if isinstance(arguments, str) else json.dumps(arguments or {})
        call_id = call.get("id")
        identity = f"call_{index}" if call_id in (None, "") else str(call_id)
        calls.append(ToolCall(identity, str(function.get("name") or ""), text))
    return tuple(calls)


def _policy_version(choice: Mapping[str, Any]) -> int | None:
    meta = choice.get("meta_info")
    version = meta.get("weight_version") if isinstance(meta, dict) else None
    text = str(version)
    return int(text) if text.isdecimal() else None


def _leftovers(document: Mapping[str, Any], choice: Mapping[str, Any]) -> dict[str, Any]:
    raw = _rest(document, _READ_OF_REPLY | {"usage"})
    if more := _usage_leftovers(document.get("usage")):
        raw["usage"] = more
    left = _rest(choice, _READ_OF_CHOICE)
    meta = left.get("meta_info")
    if isinstance(meta, dict):
        left["meta_info"] = _rest(meta, frozenset({"output_token_logprobs"}))
    if choice.get("finish_reason") not in ("stop", "length", "tool_calls", "content_filter", None):
        left["finish_reason"] = choice["finish_reason"]
    if left:
        raw["choice"] = left
    message = choice.get("message")
    if isinstance(message, dict) and (more := _rest(message, _READ_OF_MESSAGE)):
        raw["message"] = more
    return raw


def _usage_leftovers(usage: Any) -> dict[str, Any]:
    if not isinstance(usage, dict):
        return {}
    left = _rest(usage, _READ_OF_USAGE)
    details = left.get("prompt_tokens_details")
    if isinstance(details, dict) and details.keys() == {"cached_tokens"}:
        del left["prompt_tokens_details"]
    return left


def _rest(members: Mapping[str, Any], known: frozenset[str]) -> dict[str, Any]:
    return {
        name: value for name, value in members.items() if value is not None and name not in known
    }
