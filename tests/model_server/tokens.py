"""A tokenizer of bytes and two marks: small, exact both ways, and real enough for token ids."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

START, END = 256, 257


def encode(text: str) -> list[int]:
    return list(text.encode("utf-8", "surrogatepass"))


def decode(ids: Sequence[int]) -> str:
    return bytes(each for each in ids if each < START).decode("utf-8", "replace")


def render(messages: Sequence[dict[str, Any]], tools: Sequence[Any] = ()) -> list[int]:
    """The prompt as this engine sees it, up to where the assistant begins."""
    ids: list[int] = []
    if tools:
        ids += [START, *encode("tools\n" + repr(tools)), END]
    for message in messages:
        ids += [START, *encode(f"{message['role']}\n{text_of(message)}"), END]
    return [*ids, START, *encode("assistant\n")]


def unrender(ids: Sequence[int]) -> list[dict[str, Any]]:
    """The messages in a prompt; all of it is one message where it holds no marks."""
    if START not in ids:
        return [{"role": "user", "content": decode(ids)}]
    messages = []
    rest = list(ids)
    while END in rest:
        end = rest.index(END)
        role, _, content = decode(rest[:end]).partition("\n")
        messages.append({"role": role, "content": content})
        rest = rest[end + 1 :]
    return messages


def text_of(message: dict[str, Any]) -> str:
    content = message.get("content")
    if isinstance(content, list):
        return "".join(part.get("text") or "" for part in content if isinstance(part, dict))
    return content or ""


def logprob(token: int) -> float:
    """Any fixed number below 0 that a 32-bit float holds exactly."""
    return -(token % 7 + 1) / 8
