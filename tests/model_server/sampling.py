"""What the engine samples: a policy's reply as tokens, cut at the limits of the request."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from tests.model_server.tokens import END, decode, encode, text_of


@dataclass
class Said:
    """What a policy answers; the texts are sampled in this order."""

    text: str | None = ""
    reasoning: str | None = None
    calls: list[dict[str, str]] = field(default_factory=list)
    """Each with ``id``, ``name`` and ``arguments``."""


Policy = Callable[[Sequence[dict[str, Any]], Sequence[Any]], Said | str]


def reverse(messages: Sequence[dict[str, Any]], tools: Sequence[Any]) -> str:
    """The last message, backwards."""
    return text_of(messages[-1])[::-1]


def echo(messages: Sequence[dict[str, Any]], tools: Sequence[Any]) -> str:
    """The last message."""
    return text_of(messages[-1])


POLICIES: dict[str, Policy] = {"reverse": reverse, "echo": echo}


@dataclass
class Sampled:
    """One completion of the engine."""

    said: Said
    prompt_ids: list[int]
    ids: list[int]
    finish_reason: str


def sample(policy: Policy, messages: Any, tools: Any, prompt_ids: list[int], body: Any) -> Sampled:
    answer = policy(messages, tools)
    said = Said(answer) if isinstance(answer, str) else answer
    text = said.text or ""
    for stop in body.get("stop") or ():
        text = text.split(stop)[0]
    calls = "".join(f"{call['name']}({call['arguments']})" for call in said.calls)
    ids = encode((said.reasoning or "") + text + calls)
    limit = next(
        (body[name] for name in ("max_tokens", "max_completion_tokens", "max_output_tokens")
         if body.get(name) is not None),
        None,
    )  # fmt: skip
    if limit is not None and len(ids) + 1 > limit and not said.calls:
        ids = ids[:limit]
        reasoning = said.reasoning and decode(ids[: len(encode(said.reasoning))])
        text = decode(ids[len(encode(said.reasoning or "")) :])
        return Sampled(Said(text, reasoning), prompt_ids, ids, "length")
    text_or_none = text if said.text is not None else None
    said = Said(text_or_none, said.reasoning, said.calls)
    return Sampled(said, prompt_ids, [*ids, END], "tool_calls" if said.calls else "stop")
