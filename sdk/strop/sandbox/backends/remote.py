"""Sandboxes behind an exec agent, wherever its address is."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable
from dataclasses import asdict
from typing import Any, Self
from weakref import WeakSet

from strop.errors import SandboxError, SandboxUnavailableError
from strop.sandbox.backends.agent import write_spec
from strop.sandbox.backends.handshake import prove_as_client
from strop.sandbox.base import Capabilities, Level, Limits, Profile, SandboxSpec
from strop.sandbox.wire import HEADER, Reply

_CONNECT_S = 10.0


class RemoteTransport:
    """An agent's sandboxes; code is as isolated as the agent's own backend isolates it."""

    def __init__(self, host: str, port: int, token: str, described: dict[str, Any]) -> None:
        """Use `connect` instead, which asks the agent to describe itself."""
        self._host, self._port, self._token = host, port, token
        self.name: str = f"remote:{described['name']}"
        self._capabilities = Capabilities(
            isolation=Level(described["isolation"]),
            enforced=described["enforced"],
            not_enforced=described["not_enforced"],
            networks=frozenset(described["networks"]),
            has_snapshots=described["has_snapshots"],
            has_sessions=described["has_sessions"],
            # Agents of older versions do not tell.
            has_base_folders=described.get("has_base_folders", False),
            has_ports=described.get("has_ports", False),
            has_images=described.get("has_images", False),
        )
        self._open_writers: set[asyncio.StreamWriter] = set()
        self._closing: WeakSet[asyncio.StreamWriter] = WeakSet()
        self._is_closed = False

    @classmethod
    async def connect(cls, host: str, port: int, token: str) -> Self:
        """Reach an agent and ask what it offers.

        Where a name has several addresses, such as that of a headless service, one of them is
        chosen here, once: sandboxes that live on are known to one agent only.

        Raises:
            SandboxUnavailableError: Nobody answers there.
            SandboxError: It is no agent, or the token is another one's.
        """
        _, writer, answer = await _call(host, port, token, {"word": "describe"})
        address = str(writer.get_extra_info("peername")[0])
        writer.close()
        with contextlib.suppress(OSError):
            await writer.wait_closed()
        return cls(address, port, token, answer)

    @property
    def capabilities(self) -> Capabilities:
        """What the agent's backend can do."""
        return self._capabilities

    async def open_run(self, profile: Profile, limits: Limits) -> StreamChannel:
        """Open the way for one run in a sandbox of its own."""
        call = {"word": "run", "profile": asdict(profile), "limits": limits.to_wire()}
        return await self.open_stream(call)

    async def open_room(self, spec: SandboxSpec) -> RemoteRoom:
        """Start a sandbox that lives until it is closed, or this process ends."""
        call = {"word": "room", "spec": write_spec(spec)}
        _, writer, answer = await self._connect(call)
        return RemoteRoom(self, writer, str(answer["room"]))

    async def open_stream(self, call: dict[str, Any]) -> StreamChannel:
        """Open a connection for one run."""
        reader, writer, _ = await self._connect(call)
        return StreamChannel(reader, writer, self.forget)

    async def _connect(
        self, call: dict[str, Any]
    ) -> tuple[asyncio.StreamReader, asyncio.StreamWriter, dict[str, Any]]:
        if self._is_closed:
            raise SandboxError(f"{self.name} is closed. Open another backend.")
        reader, writer, answer = await _call(self._host, self._port, self._token, call)
        self._open_writers.add(writer)
        return reader, writer, answer

    def forget(self, writer: asyncio.StreamWriter) -> None:
        """Keep no track of a connection that was closed."""
        self._open_writers.discard(writer)
        self._closing.add(writer)

    async def close(self) -> None:
        """Hang up; the agent ends all that was started from here."""
        self._is_closed = True
        writers = [*self._open_writers, *self._closing]
        for writer in writers:
            writer.close()
        for writer in writers:
            with contextlib.suppress(OSError):
                await writer.wait_closed()
        self._open_writers.clear()


async def _call(
    host: str, port: int, token: str, call: dict[str, Any]
) -> tuple[asyncio.StreamReader, asyncio.StreamWriter, dict[str, Any]]:
    try:
        async with asyncio.timeout(_CONNECT_S):
            reader, writer = await asyncio.open_connection(host, port)
    except (OSError, TimeoutError) as error:
        raise SandboxUnavailableError(
            f"no exec agent answers at {host}:{port}: {error}. Start one there with "
            "`strop sandbox serve`.",
            errno=getattr(error, "errno", None),
        ) from error
    try:
        return reader, writer, await prove_as_client(reader, writer, token, call)
    except BaseException:
        writer.close()
        raise


class StreamChannel:
    """A run's frames over a connection."""

    def __init__(
        self,
        reader: asyncio.StreamReader,
        writer: asyncio.StreamWriter,
        on_close: Callable[[asyncio.StreamWriter], None],
    ) -> None:
        self._reader, self._writer, self._on_close = reader, writer, on_close

    async def send(self, frame: bytes) -> None:
        """Send one frame; when the other side is gone, `receive` tells."""
        with contextlib.suppress(OSError):
            self._writer.write(frame)
            await self._writer.drain()

    async def receive(self) -> Reply | None:
        """Give the next frame; None when the other side is gone."""
        try:
            tag, size = HEADER.unpack(await self._reader.readexactly(HEADER.size))
            return Reply(tag, await self._reader.readexactly(size))
        except (asyncio.IncompleteReadError, OSError):
            return None

    def close(self) -> None:
        """Hang up; the run ends at once if it has not ended."""
        self._writer.close()
        self._on_close(self._writer)


class RemoteRoom:
    """A living sandbox of an agent; it lives as long as this connection."""

    def __init__(self, transport: RemoteTransport, writer: asyncio.StreamWriter, name: str) -> None:
        self._transport, self._writer, self._name = transport, writer, name
        self._is_closed = False

    async def open_channel(self) -> StreamChannel:
        """Open the way for one more run."""
        if self._is_closed:
            raise SandboxError("this sandbox is stopped. Create another one.")
        return await self._transport.open_stream({"word": "job", "room": self._name})

    def close(self) -> None:
        """End it, with every run and file in it."""
        self._is_closed = True
        self._writer.close()
        self._transport.forget(self._writer)
