"""Servers inside a sandbox, reached from outside at an address of this machine's loopback."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Self

from strop.errors import SandboxError
from strop.sandbox.job import Job

_HOST = "127.0.0.1"
_CHUNK_BYTES = 1 << 16
_MOST_AT_ONCE = 16
"""Each connection is a process inside, and counts there."""


class ExposedPort:
    """A listener out here whose connections end at a port inside a sandbox.

    Every user of this machine can connect to it. Where nothing listens inside, connections are
    closed at once.
    """

    def __init__(self, open_relay: Callable[[], Awaitable[Job]]) -> None:
        """Use `Sandbox.expose` instead."""
        self._open_relay = open_relay
        self._turns = asyncio.Semaphore(_MOST_AT_ONCE)
        self._tasks: set[asyncio.Task[None]] = set()
        self._server: asyncio.Server | None = None
        self.host = _HOST
        self.port = 0
        """Out here; a free one."""

    async def listen(self) -> None:
        """Take connections from now on."""
        self._server = await asyncio.start_server(self._meet, self.host, 0)
        self.port = self._server.sockets[0].getsockname()[1]

    async def _meet(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._tasks.add(task)
        try:
            async with self._turns, await self._open_relay() as relay:
                await _join(relay, reader, writer)
        except (SandboxError, OSError, asyncio.CancelledError):
            # The sandbox or the caller has gone away, or this port was closed.
            pass
        finally:
            self._tasks.discard(task)
            writer.close()
            with contextlib.suppress(OSError, asyncio.CancelledError):
                await writer.wait_closed()

    def close(self) -> None:
        """Stop listening and hang up on everybody; as often as one likes."""
        if self._server is not None:
            self._server.close()
        for task in self._tasks:
            task.cancel()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        self.close()
        await asyncio.gather(*self._tasks, return_exceptions=True)


async def _join(relay: Job, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """Carry bytes both ways until the server inside hangs up, or the caller vanishes."""
    inwards = asyncio.create_task(_carry_in(reader, relay))
    try:
        while chunk := await relay.read():
            writer.write(chunk)
            await writer.drain()
    finally:
        inwards.cancel()
        await asyncio.gather(inwards, return_exceptions=True)


async def _carry_in(reader: asyncio.StreamReader, relay: Job) -> None:
    try:
        while chunk := await reader.read(_CHUNK_BYTES):
            await relay.write(chunk)
        await relay.end_input()
    except OSError:
        relay.kill()


def relay_source() -> bytes:
    """Give the program that joins a connection with a server inside.

    Raises:
        SandboxError: The installation is incomplete.
    """
    try:
        return Path(__file__).with_name("inside").joinpath("relay.py").read_bytes()
    except OSError as error:
        raise SandboxError(f"strop is not installed completely: {error}") from error
