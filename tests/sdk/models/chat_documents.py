"""Documents of chat completions, as engines send them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from strop.models.endpoint import Reply
from strop.models.reply.chat import read_chat

Edit = Callable[[dict[str, Any]], Any]


def read(document: dict[str, Any]) -> Any:
    return read_chat(Reply(document, 0.1, "POST http://model.test/"))


def said(content: Any = "hi", finish_reason: Any = "stop", **message: Any) -> dict[str, Any]:
    """A reply's document."""
    choice = {"message": {"content": content, **message}, "finish_reason": finish_reason}
    return {"model": "m", "choices": [choice], "usage": {"prompt_tokens": 3}}


def with_logprobs(*, ids: list[int] | None = None, **entry: Any) -> dict[str, Any]:
    """Members of a choice that tell of one token."""
    return {"logprobs": {"content": [entry]}, "token_ids": ids}


def counted(**more: Any) -> dict[str, Any]:
    """A usage with something beside the usual counts."""
    return {"prompt_tokens": 5, "completion_tokens": 2, **more}
