"""An episode that a client drives from afar: what it was told, and how long it is kept."""

from __future__ import annotations

import asyncio
import contextlib
import secrets
from collections.abc import Sequence

from strop.episode import Episode
from strop.errors import BoundaryError
from strop.message_json import message_to_json
from strop.serve.wire import tool_to_json
from strop.trajectory_json import sampling_to_json
from strop.types import JSON, Message


class Lease:
    """One live episode."""

    def __init__(self, episode: Episode, lease_s: float) -> None:
        self.id = secrets.token_hex(16)
        self.episode = episode
        self.fault: BoundaryError | None = None
        """What closing it raised."""
        self.working: asyncio.Task[object] | None = None
        """Whoever drives it now; None between two requests."""
        self._lease_s = lease_s
        self._expires_at = 0.0
        self._ending: asyncio.Task[None] | None = None
        self._told: dict[str, list[Message]] = {}
        self._told_tools: JSON = []
        self.renew()

    @property
    def is_ending(self) -> bool:
        """Whether it takes no further request."""
        return self._ending is not None

    @property
    def is_expired(self) -> bool:
        """Whether its client was silent for too long."""
        return self.working is None and asyncio.get_running_loop().time() > self._expires_at

    def renew(self) -> None:
        """Keep it for another while."""
        self._expires_at = asyncio.get_running_loop().time() + self._lease_s

    def end(self) -> asyncio.Task[None]:
        """Stop whoever drives it and close it, once; the task can be waited for."""
        if self._ending is None:
            self._ending = asyncio.get_running_loop().create_task(self._end())
        return self._ending

    def state(self) -> dict[str, JSON]:
        """What the client has to know; of contexts and tools only what is new to it.

        Raises:
            BoundaryError: The author's code failed that tells it.
        """
        episode = self.episode
        wish = episode.due_sampling
        left_s = episode.turns_left_s
        state: dict[str, JSON] = {
            "is_ended": episode.is_ended,
            "due_seat": episode.due_seat,
            "turn_count": episode.turn_count,
            "turns_left_s": left_s,
            "sampling": None if wish is None else sampling_to_json(wish),
            "contexts": {
                seat: news
                for seat in episode.seats
                if (news := self._news(seat, episode.context_of(seat))) is not None
            },
        }
        tools: JSON = [tool_to_json(tool) for tool in episode.tools]
        if tools != self._told_tools:
            state["tools"] = self._told_tools = tools
        return state

    def _news(self, seat: str, context: Sequence[Message]) -> JSON:
        told = self._told.get(seat, [])
        kept = 0
        for old, new in zip(told, context, strict=False):
            if old is not new and old != new:
                break
            kept += 1
        if seat in self._told and kept == len(told) == len(context):
            return None
        self._told[seat] = list(context)
        return {"kept": kept, "messages": [message_to_json(each) for each in context[kept:]]}

    async def _end(self) -> None:
        working = self.working
        if working is not None:
            working.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await asyncio.wait([working])
        try:
            await self.episode.shut()
        except BoundaryError as error:
            self.fault = error
