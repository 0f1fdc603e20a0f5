"""What services outside answered, kept so that scoring can be repeated (step: reward)."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import TypeVar

from strop.canonical import json_digest
from strop.errors import RewardError
from strop.trajectory import OutsideReply
from strop.types import JSON, Usage

Reply = TypeVar("Reply", bound=JSON)

Ask = Callable[[], Awaitable[tuple[Reply, Usage | None]]]

_is_sealed: ContextVar[bool] = ContextVar("is_sealed", default=False)


@contextmanager
def only_recorded() -> Iterator[None]:
    """Inside, nobody is asked: a request without a recorded reply raises `RewardError`."""
    token = _is_sealed.set(True)
    try:
        yield
    finally:
        _is_sealed.reset(token)


class Replies:
    """Asks a service outside once; the same request is answered from the record from then on.

    In an episode and in a reward function marked ``outside``, everything that a judge, a
    search or a clock says goes through here: re-scoring a saved trajectory then asks nobody.
    """

    def __init__(self, recorded: Iterable[OutsideReply] = ()) -> None:
        self._recorded = {(each.source, each.request): each for each in recorded}
        self._turns: dict[tuple[str, str], asyncio.Lock] = {}

    def recorded(self) -> tuple[OutsideReply, ...]:
        """Every reply, in the order in which they were first asked for."""
        return tuple(self._recorded.values())

    async def ask(self, source: str, request: JSON, ask: Ask[JSON]) -> JSON:
        """The recorded reply to this request, or the one that `ask` gives, then recorded.

        Args:
            source: Who is asked, such as ``judge:helpful``.
            request: All on which the reply depends; make repeated questions differ by a number.
            ask: Asks it; returns the reply and the tokens it took, or None.
        """
        digest = json_digest(request)
        known = self._recorded.get((source, digest))
        if known is not None:
            return known.reply
        if _is_sealed.get():
            raise RewardError(
                f"No reply of `{source}` to this request is recorded. "
                "Allow it to be asked (--ask), or score with the rubric that asked it."
            )
        # Whoever asks the same meanwhile waits: two replies to one request could not be replayed.
        async with self._turns.setdefault((source, digest), asyncio.Lock()):
            known = self._recorded.get((source, digest))
            if known is None:
                reply, usage = await ask()
                known = OutsideReply(source, digest, reply, usage)
                self._recorded[source, digest] = known
        return known.reply
