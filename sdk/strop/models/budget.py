"""A model that is asked no faster than it may be (step: rollout)."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Sequence

from strop.limits import used_tokens
from strop.models.retry import retries_in_turn
from strop.stopwatch import in_queue
from strop.types import Completion, Message, Model, Sampling, ToolSpec


class _Bucket:
    """Lets amounts through at an average rate, with bursts of up to one second's worth."""

    def __init__(self, rate_per_s: float) -> None:
        self._rate_per_s = rate_per_s
        self._level = self._burst = max(1.0, rate_per_s)
        self._filled_at_s = time.monotonic()

    def take(self, amount: float) -> float:
        """Take an amount; gives the seconds to wait before it may be used."""
        now = time.monotonic()
        filled = self._level + (now - self._filled_at_s) * self._rate_per_s
        self._level = min(self._burst, filled) - amount
        self._filled_at_s = now
        return max(0.0, -self._level / self._rate_per_s)


class PacedModel:
    """Another model behind limits of requests and tokens a second.

    Requests wait in the order in which they came, a client's further tries among them. Tokens are
    known after a completion, estimated where the endpoint tells no usage, and charged to the
    requests that follow.
    """

    def __init__(
        self,
        model: Model,
        *,
        requests_per_s: float | None = None,
        tokens_per_s: float | None = None,
    ) -> None:
        """Pace a model.

        Args:
            model: The one that completes; closed with this one.
            requests_per_s: On average, > 0; None sets no limit.
            tokens_per_s: Of prompts and completions together, on average, > 0; None sets none.
        """
        self._model = model
        self._requests = None if requests_per_s is None else _Bucket(requests_per_s)
        self._tokens = None if tokens_per_s is None else _Bucket(tokens_per_s)

    @property
    def name(self) -> str:
        """The model's own."""
        return self._model.name

    async def complete(
        self, messages: Sequence[Message], tools: Sequence[ToolSpec], sampling: Sampling
    ) -> Completion:
        """Wait for a turn, then sample."""
        await self._wait_for_turn()
        with retries_in_turn(self._wait_for_turn):
            completion = await self._model.complete(messages, tools, sampling)
        if self._tokens is not None:
            self._tokens.take(used_tokens(messages, completion))
        return completion

    async def _wait_for_turn(self) -> None:
        wait_s = 0.0 if self._requests is None else self._requests.take(1)
        if self._tokens is not None:
            wait_s = max(wait_s, self._tokens.take(0))
        if wait_s:
            with in_queue():
                await asyncio.sleep(wait_s)

    async def close(self) -> None:
        """Close the model."""
        await self._model.close()
