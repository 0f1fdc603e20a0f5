"""Chat and text completions as OpenAI, vLLM, SGLang and llama.cpp answer them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from tests.model_server.sampling import Policy, Sampled, sample
from tests.model_server.tokens import decode, encode, logprob, render, unrender


def chat(body: dict[str, Any], policy: Policy) -> tuple[Sampled, dict[str, Any]]:
    messages, tools = body["messages"], body.get("tools") or []
    sampled = sample(policy, messages, tools, render(messages, tools), body)
    said = sampled.said
    message: dict[str, Any] = {"role": "assistant", "content": said.text}
    if said.reasoning is not None:
        message["reasoning_content"] = said.reasoning
    if said.calls:
        message["content"] = said.text or None
        message["tool_calls"] = [
            {
                "id": call["id"],
                "type": "function",
                "function": {"name": call["name"], "arguments": call["arguments"]},
            }
            for call in said.calls
        ]
    choice = {"index": 0, "message": message, "finish_reason": sampled.finish_reason}
    return sampled, _envelope(body, sampled, choice, "chat.completion")


def text(body: dict[str, Any], policy: Policy) -> tuple[Sampled, dict[str, Any]]:
    prompt = body["prompt"]
    prompt_ids = encode(prompt) if isinstance(prompt, str) else list(prompt)
    sampled = sample(policy, unrender(prompt_ids), [], prompt_ids, body)
    choice = {"index": 0, "text": sampled.said.text, "finish_reason": sampled.finish_reason}
    return sampled, _envelope(body, sampled, choice, "text_completion")


def events(body: dict[str, Any], sampled: Sampled, document: dict[str, Any]) -> Iterator[Any]:
    """The stream that says the same as `document`."""
    choice = document["choices"][0]
    head = {name: document[name] for name in ("id", "object", "model")}
    head["object"] += ".chunk"
    first: dict[str, Any] = {"choices": [{"index": 0, "delta": {"role": "assistant"}}]}
    for name in ("prompt_token_ids",):
        if name in document:
            first[name] = document[name]
    yield head | first
    is_text = "text" in choice
    for piece in _pieces(choice.get("message") or {"text": choice["text"]}):
        yield head | {"choices": [{"index": 0, **(piece if is_text else {"delta": piece})}]}
    middle, last = _halves(choice, is_llama=bool(body.get("return_tokens")))
    yield head | {"choices": [middle]}
    yield head | {"choices": [last]}
    if (body.get("stream_options") or {}).get("include_usage"):
        yield head | {"choices": [], "usage": document["usage"]}
    yield "[DONE]"


def _halves(choice: dict[str, Any], *, is_llama: bool) -> tuple[dict[str, Any], dict[str, Any]]:
    """Two closing chunks that carry the tokens between them, as engines spread them."""
    first: dict[str, Any] = {"index": 0, "delta": {}}
    second = first | {"finish_reason": choice["finish_reason"]}
    if "token_ids" in choice:
        first["token_ids"], second["token_ids"] = choice["token_ids"][:2], choice["token_ids"][2:]
    for name, entries in choice.get("logprobs", {}).items():
        first["logprobs"] = first.get("logprobs", {}) | {name: entries[:2]}
        # Like llama.cpp, which has no entry for the last token where it streams.
        rest = entries[2:-1] if is_llama else entries[2:]
        second["logprobs"] = second.get("logprobs", {}) | {name: rest}
    return first, second


def _pieces(message: dict[str, Any]) -> Iterator[dict[str, Any]]:
    for name in ("reasoning_content", "content", "text"):
        words = message.get(name) or ""
        for at in range(0, len(words), 5):
            yield {name: words[at : at + 5]}
    for index, call in enumerate(message.get("tool_calls") or ()):
        function = call["function"]
        yield {"tool_calls": [call | {"index": index, "function": function | {"arguments": ""}}]}
        for at in range(0, len(function["arguments"]), 3):
            part = {"arguments": function["arguments"][at : at + 3]}
            yield {"tool_calls": [{"index": index, "function": part}]}


def _envelope(
    body: dict[str, Any], sampled: Sampled, choice: dict[str, Any], kind: str
) -> dict[str, Any]:
    document: dict[str, Any] = {
        "id": "cmpl-1",
        "object": kind,
        "created": 1,
        "model": body["model"],
        "choices": [choice],
        "usage": {
            "prompt_tokens": len(sampled.prompt_ids),
            "completion_tokens": len(sampled.ids),
            "total_tokens": len(sampled.prompt_ids) + len(sampled.ids),
            "prompt_tokens_details": {"cached_tokens": len(sampled.prompt_ids) // 2},
        },
    }
    if body.get("return_token_ids"):
        document["prompt_token_ids"] = sampled.prompt_ids
        choice["prompt_token_ids"] = sampled.prompt_ids
        choice["token_ids"] = sampled.ids
    if body.get("return_prompt_token_ids"):
        choice["prompt_token_ids"] = sampled.prompt_ids
    if body.get("return_meta_info"):
        triples = [[logprob(each), each, decode([each])] for each in sampled.ids]
        choice["meta_info"] = {"output_token_logprobs": triples, "weight_version": "7"}
    if body.get("verbose"):
        # One character stands for each id, so that the text survives JSON and comes back exact.
        prompt = "".join(map(chr, sampled.prompt_ids))
        document["__verbose"] = {"prompt": prompt, "tokens": sampled.ids}
    if body.get("logprobs"):
        choice["logprobs"] = _logprobs(body, sampled, kind)
    return document


def _logprobs(body: dict[str, Any], sampled: Sampled, kind: str) -> dict[str, Any]:
    if kind == "text_completion":
        return {
            "tokens": [f"token_id:{each}" for each in sampled.ids],
            "token_logprobs": [logprob(each) for each in sampled.ids],
        }
    entries: list[dict[str, Any]] = [
        {"token": decode([each]), "logprob": logprob(each), "top_logprobs": []}
        for each in sampled.ids
    ]
    if body.get("return_tokens"):
        for entry, token in zip(entries, sampled.ids, strict=True):
            entry["id"] = token
    return {"content": entries}
