"""What the clients of one provider's endpoint share: a name, fixed fields, a way to call."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from strop.models.endpoint import Endpoint, Fold, Reply
from strop.models.reply.chat import finish_of, refuse_nothing
from strop.types import JSON, Completion, Message, Usage


class EndpointModel:
    """A model behind one address, asked with a body of fixed and further fields."""

    def __init__(
        self,
        name: str,
        endpoint: Endpoint,
        fixed: Mapping[str, JSON],
        fold: Callable[[], Fold] | None,
    ) -> None:
        """Keep what every call needs; `fold` puts streams together, None takes whole replies."""
        self._name, self._endpoint, self._fold = name, endpoint, fold
        self._fixed: dict[str, JSON] = {"model": name, **fixed}

    @property
    def name(self) -> str:
        """As the provider calls the model."""
        return self._name

    async def close(self) -> None:
        """Close the connections, unless their pool came from outside."""
        await self._endpoint.close()

    async def _call(
        self, fields: Mapping[str, JSON], read: Callable[[Reply], Completion], seed: int | None
    ) -> Completion:
        body = {**self._fixed, **fields}
        if self._fold is not None:
            body["stream"] = True
        return await self._endpoint.call(body, read, self._fold, seed=seed)


def completed(
    reply: Reply,
    message: Message,
    usage: Usage | None,
    finish: tuple[str, Any],
    known: frozenset[str],
) -> Completion:
    """The completion that a reply's message makes.

    Args:
        reply: The whole of it.
        message: What the model said.
        usage: As the endpoint counted.
        finish: Where the provider says why it ended, and what it says.
        known: Fields that have a place of their own.

    Raises:
        ModelReplyError: The model said nothing at all.
    """
    document = reply.document
    where, value = finish
    finish_reason = finish_of(value, message)
    refuse_nothing(message, finish_reason, None, usage, reply.where)
    raw = {name: value for name, value in document.items() if name not in known}
    if finish_reason == "other":
        raw[where] = document.get(where)
    return Completion(
        message=message,
        finish_reason=finish_reason,
        usage=usage,
        model=str(document.get("model") or ""),
        latency_s=reply.elapsed_s,
        raw={name: value for name, value in raw.items() if value is not None},
    )
