"""The calls that a program makes at the same time, each sampled on a branch of its own."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable
from functools import partial

from strop.serve.intercept.session import DueCall, Session
from strop.types import Completion, Sampler, Sampling


class Branches:
    """Samples every call as soon as it comes, and hands completions on as they end.

    Args:
        session: Where the calls come from.
        sampler: Samples one.
        wish_of: What a call asks of its sampling.
        may_begin: Whether one more may be sampled, besides so many that are.
    """

    def __init__(
        self,
        session: Session,
        sampler: Sampler,
        wish_of: Callable[[DueCall], Sampling],
        may_begin: Callable[[int], bool],
    ) -> None:
        self.changed = asyncio.Event()
        """Set when a call came, or a completion ended."""
        self._session, self._sampler = session, sampler
        self._wish_of, self._may_begin = wish_of, may_begin
        self._flying: dict[DueCall, asyncio.Task[Completion]] = {}
        self._ended: deque[DueCall] = deque()
        self._refused: DueCall | None = None
        """Beyond the last turn; never sampled, the end of the episode refuses it."""
        self._taking = asyncio.create_task(self._take())

    @property
    def due(self) -> DueCall | None:
        """A call that has come and was not handed on; None when there is none."""
        return next(iter(self._flying), self._refused)

    async def first(self) -> tuple[DueCall, Completion]:
        """The next completion that ends, and its call.

        Raises:
            ModelError: As the model does.
        """
        while not self._ended:
            self.changed.clear()
            await self.changed.wait()
        due = self._ended.popleft()
        return due, self._flying.pop(due).result()

    async def stop(self) -> None:
        """Sample nothing more."""
        tasks = [self._taking, *self._flying.values()]
        self._flying.clear()
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    async def _take(self) -> None:
        while True:
            due = await self._session.next()
            if self._may_begin(len(self._flying)):
                call = due.call
                sampling = self._sampler(call.messages, call.tools, self._wish_of(due))
                task = self._flying[due] = asyncio.ensure_future(sampling)
                task.add_done_callback(partial(self._end, due))
            else:
                self._refused = due
            self.changed.set()

    def _end(self, due: DueCall, _: object) -> None:
        self._ended.append(due)
        self.changed.set()
