"""A backend and its sandboxes, as environments use them; the same over every transport."""

from __future__ import annotations

import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Self

from strop.sandbox.base import (
    Capabilities,
    Channel,
    Limits,
    Profile,
    SandboxSpec,
    Transport,
)
from strop.sandbox.fair_queue import FairQueue
from strop.sandbox.job import Job
from strop.sandbox.room import Sandbox
from strop.sandbox.runs import BinaryCache, Runs
from strop.sandbox.wire import Request

if TYPE_CHECKING:
    pass

_QUEUE_LIMIT = 100_000
_FOREVER_S = 1e9
_UNBOUNDED_BYTES = 1 << 40


class Backend(Runs):
    """Runs code, each time in a new sandbox, and creates sandboxes that live longer.

    For one event loop. Whatever fails on the sandbox's side raises `SandboxError`, so that it
    never passes for the fault of the code inside.
    """

    def __init__(
        self,
        transport: Transport,
        *,
        concurrency: int | None = None,
        queue_limit: int = _QUEUE_LIMIT,
        limits: Limits | None = None,
    ) -> None:
        """Build on a transport.

        Args:
            transport: Where sandboxes come from.
            concurrency: Runs at the same time. None: twice the cores; more only makes each slower.
            queue_limit: Runs that may wait for their turn.
            limits: Of runs that name none.
        """
        running = concurrency or 2 * (os.cpu_count() or 1)
        queue = FairQueue(running, queue_limit)
        super().__init__(transport, queue, BinaryCache(), limits or Limits())

    @property
    def name(self) -> str:
        """Of the transport, for records."""
        return self._transport.name

    @property
    def transport(self) -> Transport:
        """Where its sandboxes come from."""
        return self._transport

    @property
    def capabilities(self) -> Capabilities:
        """What it can do, and what it enforces."""
        return self._transport.capabilities

    async def _open(self, profile: Profile, limits: Limits) -> Channel:
        return await self._transport.open_run(profile, limits)

    @asynccontextmanager
    async def turn(self, rollout: str = "") -> AsyncIterator[float]:
        """Wait for a turn and hold it, for runs that are started with `start_program`.

        Raises:
            SandboxBusyError: Too many wait already.
        """
        async with self._queue.turn(rollout) as queue_s:
            yield queue_s

    async def start_program(
        self, code: str, *, limits: Limits | None = None, profile: Profile | None = None
    ) -> Job:
        """Start a Python program in a sandbox of its own and return while it runs."""
        limits = limits or self._limits
        channel = await self._open(profile or Profile(), limits)
        job = Job(channel, self._origin())
        bounds = limits.to_wire()
        source = code.encode(errors="surrogatepass")
        await channel.send(Request("python", bounds, code=source, is_streaming=True).pack())
        return job

    async def create(self, spec: SandboxSpec | None = None) -> Sandbox:
        """Start a sandbox that lives until it is stopped.

        Raises:
            SandboxError: It cannot be started.
        """
        spec = spec or SandboxSpec(limits=self._limits)
        room = await self._transport.open_room(spec)
        return Sandbox(room, spec, self._transport, self._queue, binaries=self._binaries)

    async def close(self) -> None:
        """End every run and sandbox."""
        await self._transport.close()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()
