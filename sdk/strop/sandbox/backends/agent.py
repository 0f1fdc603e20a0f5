"""The exec agent: this machine's sandboxes behind a socket, for containers, pods and clusters."""

from __future__ import annotations

import asyncio
import contextlib
import json
import secrets
from dataclasses import asdict
from typing import Any

from strop.errors import SandboxError
from strop.sandbox.backends.handshake import check_as_agent, send_words
from strop.sandbox.base import Channel, Limits, Profile, Room, SandboxSpec, Transport
from strop.sandbox.wire import HEADER, LARGEST_FRAME_BYTES, pack_frame

_HANDSHAKE_S = 10.0


class Agent:
    """Serves a transport's runs and rooms; a connection is one run, or the life of one room."""

    def __init__(self, transport: Transport, token: str) -> None:
        """Serve `transport` to whoever knows `token`, which must be hard to guess."""
        self._transport, self._token = transport, token
        self._rooms: dict[str, Room] = {}
        self._tasks: set[asyncio.Task[None]] = set()
        self._server: asyncio.Server | None = None

    async def start(self, host: str, port: int) -> int:
        """Listen; gives the port, which is a free one where 0 was asked for."""
        self._server = await asyncio.start_server(self._meet, host, port)
        bound: int = self._server.sockets[0].getsockname()[1]
        return bound

    async def serve(self) -> None:
        """Serve until cancelled."""
        assert self._server is not None
        await self._server.serve_forever()

    async def close(self) -> None:
        """Hang up on everybody; their runs and rooms end."""
        if self._server is not None:
            self._server.close()
        for task in list(self._tasks):
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        await self._transport.close()

    async def _meet(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._tasks.add(task)
        try:
            async with asyncio.timeout(_HANDSHAKE_S):
                call, own_proof = await check_as_agent(reader, writer, self._token)
            await self._answer(call, own_proof, reader, writer)
        except (SandboxError, OSError, ValueError, KeyError, TypeError) as error:
            with contextlib.suppress(OSError):
                await send_words(writer, {"error": str(error) or repr(error)})
        except (TimeoutError, asyncio.CancelledError):
            pass
        finally:
            self._tasks.discard(task)
            writer.close()
            with contextlib.suppress(OSError, asyncio.CancelledError):
                await writer.wait_closed()

    async def _answer(
        self,
        call: dict[str, Any],
        own_proof: str,
        reader: asyncio.StreamReader,
        writer: asyncio.StreamWriter,
    ) -> None:
        word = call["word"]
        if word == "describe":
            capabilities = describe(self._transport)
            await send_words(writer, {"proof": own_proof, **capabilities})
        elif word == "room":
            await self._keep_room(read_spec(call["spec"]), own_proof, reader, writer)
        elif word in ("run", "job"):
            channel = await self._open(call)
            try:
                await send_words(writer, {"proof": own_proof})
                await _join(channel, reader, writer)
            finally:
                channel.close()
        else:
            raise SandboxError(f"unknown call {word!r}")

    async def _open(self, call: dict[str, Any]) -> Channel:
        if call["word"] == "run":
            # Clients of older versions do not tell.
            limits = Limits.from_wire(call["limits"]) if "limits" in call else Limits()
            return await self._transport.open_run(read_profile(call["profile"]), limits)
        room = self._rooms.get(call["room"])
        if room is None:
            raise SandboxError("there is no such sandbox; it was stopped, or its client hung up")
        return await room.open_channel()

    async def _keep_room(
        self,
        spec: SandboxSpec,
        own_proof: str,
        reader: asyncio.StreamReader,
        writer: asyncio.StreamWriter,
    ) -> None:
        """Keep a room as long as this connection lasts."""
        room = await self._transport.open_room(spec)
        name = secrets.token_hex(16)
        self._rooms[name] = room
        try:
            await send_words(writer, {"proof": own_proof, "room": name})
            while await reader.read(1 << 16):
                pass
        finally:
            del self._rooms[name]
            room.close()


async def _join(
    channel: Channel, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
) -> None:
    """Carry frames in both directions until one side ends."""
    inwards = asyncio.create_task(_carry_in(channel, reader))
    outwards = asyncio.create_task(_carry_out(channel, writer))
    try:
        await asyncio.wait([inwards, outwards], return_when=asyncio.FIRST_COMPLETED)
    finally:
        for task in (inwards, outwards):
            task.cancel()
        await asyncio.gather(inwards, outwards, return_exceptions=True)


async def _carry_in(channel: Channel, reader: asyncio.StreamReader) -> None:
    with contextlib.suppress(asyncio.IncompleteReadError, OSError):
        while True:
            head = await reader.readexactly(HEADER.size)
            size = HEADER.unpack(head)[1]
            if size > LARGEST_FRAME_BYTES:
                return
            await channel.send(head + await reader.readexactly(size))


async def _carry_out(channel: Channel, writer: asyncio.StreamWriter) -> None:
    with contextlib.suppress(OSError):
        while (reply := await channel.receive()) is not None:
            writer.write(pack_frame(reply.tag, reply.payload))
            await writer.drain()


def describe(transport: Transport) -> dict[str, Any]:
    """Give a transport's name and capabilities as plain values."""
    found = transport.capabilities
    return {
        "name": transport.name,
        "isolation": int(found.isolation),
        "enforced": dict(found.enforced),
        "not_enforced": dict(found.not_enforced),
        "networks": sorted(found.networks),
        "has_snapshots": found.has_snapshots,
        "has_sessions": found.has_sessions,
        "has_base_folders": found.has_base_folders,
        "has_ports": found.has_ports,
        "has_images": found.has_images,
    }


def write_spec(spec: SandboxSpec) -> dict[str, Any]:
    """Give a specification as plain values."""
    plain: dict[str, Any] = json.loads(json.dumps(asdict(spec)))
    return plain


def read_spec(words: dict[str, Any]) -> SandboxSpec:
    """Read what `write_spec` has written."""
    return SandboxSpec(
        limits=Limits(**words["limits"]),
        network=words["network"],
        profile=read_profile(words["profile"]),
        env=words["env"],
        image=words["image"],
    )


def read_profile(words: dict[str, Any]) -> Profile:
    """Read a profile from plain values."""
    lists = ("preload", "python_paths", "mounts")
    return Profile(**{name: tuple(words[name]) for name in lists}, base_folder=words["base_folder"])
