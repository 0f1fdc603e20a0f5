"""The local backend: zygotes on this machine, in the strongest tier that it offers."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import resource
import socket
from typing import Literal, TypeAlias

from strop.errors import SandboxError
from strop.sandbox.backends import capability
from strop.sandbox.backends.zygote_client import Interpreter, Zygote, default_python
from strop.sandbox.base import Capabilities, Limits, Profile, SandboxSpec
from strop.sandbox.channel import SocketChannel
from strop.sandbox.zygote.place import Tier

TierName: TypeAlias = Literal[
    "zygote-root", "zygote-userns", "zygote-landlock", "unsafe-subprocess"
]
_TIERS: dict[TierName, Tier] = {
    "zygote-root": "root",
    "zygote-userns": "userns",
    "zygote-landlock": "landlock",
    "unsafe-subprocess": "plain",
}
_MOST_ZYGOTES = 8
_ROOM_S = 30.0
_DESCRIPTORS_OF_ONE = 28
"""Room for a sandbox that is ready, and for those that are at work besides."""


class LocalTransport:
    """Sandboxes on this machine; see `strop.sandbox.open_backend` for the way to get one."""

    def __init__(
        self,
        tier: TierName,
        *,
        python: str | None = None,
        user: int | None = None,
        pool_size: int | None = None,
    ) -> None:
        """Prepare; nothing starts before it is needed.

        Args:
            tier: Which mechanism keeps code apart.
            python: Interpreter that code runs in. None: this one.
            user: Only as root: run the zygote, too, as this user.
            pool_size: Sandboxes that are ready at any time. None: twice the cores, as far as the
                hard limit of open files allows.
        """
        self.name: str = tier
        size = pool_size if pool_size is not None else _default_pool_size()
        python = python or default_python()
        self._interpreter = Interpreter(_TIERS[tier], python, user, size)
        self._zygotes: dict[Profile, Zygote] = {}
        self._starting: dict[Profile, asyncio.Task[Zygote]] = {}
        self._group_bounds: dict[str, str] = {}
        self._is_closed = False

    @property
    def capabilities(self) -> Capabilities:
        """What this tier can do and enforce; control groups are known once a zygote has started."""
        return capability.of_tier(self._interpreter.tier, self._group_bounds)

    @property
    def stub_pids(self) -> list[int]:
        """The process that stands for each living zygote, for diagnosis."""
        return [zygote.pid for zygote in self._zygotes.values() if zygote.is_alive]

    async def warm_up(self, profile: Profile) -> None:
        """Start the profile's zygote before it is needed."""
        await self._zygote(profile)

    async def open_run(self, profile: Profile, limits: Limits) -> SocketChannel:
        """Open the way for one run in a sandbox of its own; its request brings the limits along."""
        del limits
        near, far = socket.socketpair()
        with far:
            zygote = await self._call(profile, b"run", far, near)
        return SocketChannel(near, on_close=lambda: _release(zygote))

    async def open_room(self, spec: SandboxSpec) -> LocalRoom:
        """Start a sandbox that lives until it is closed."""
        own = self.capabilities.networks
        if spec.network not in own:
            raise SandboxError(
                f"{self.name} has no network {spec.network!r}. Choose one of {sorted(own)}."
            )
        if spec.image is not None:
            raise SandboxError(
                f"{self.name} has no images; {spec.image!r} needs the backend `docker`."
            )
        near, far = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        words = {"network": spec.network, "limits": spec.limits.to_wire()}
        with far:
            message = b"room " + json.dumps(words).encode()
            zygote = await self._call(spec.profile, message, far, near)
        room = LocalRoom(near, zygote)
        try:
            await room.wait_until_ready()
        except BaseException:
            room.close()
            raise
        return room

    async def _call(
        self, profile: Profile, message: bytes, far: socket.socket, near: socket.socket
    ) -> Zygote:
        """Call a sandbox; a zygote that has died is replaced once."""
        try:
            zygote = await self._zygote(profile)
            try:
                await zygote.call(message, far.fileno())
            except SandboxError:
                zygote = await self._zygote(profile)
                await zygote.call(message, far.fileno())
        except BaseException:
            near.close()
            raise
        zygote.use_count += 1
        return zygote

    async def _zygote(self, profile: Profile) -> Zygote:
        if self._is_closed:
            raise SandboxError(f"{self.name} is closed. Open another backend.")
        zygote = self._zygotes.get(profile)
        if zygote is not None and zygote.is_alive:
            return zygote
        task = self._starting.get(profile)
        if task is None:
            task = asyncio.create_task(self._start(profile))
            self._starting[profile] = task
        return await asyncio.shield(task)

    async def _start(self, profile: Profile) -> Zygote:
        try:
            dead = self._zygotes.pop(profile, None)
            if dead is not None:
                await asyncio.to_thread(dead.close)
            await self._make_room()
            zygote = await asyncio.to_thread(Zygote.start, self._interpreter, profile)
            if self._is_closed:
                zygote.close()
                raise SandboxError(f"{self.name} was closed while it started.")
            self._zygotes[profile] = zygote
            self._group_bounds = zygote.group_bounds
            return zygote
        finally:
            del self._starting[profile]

    async def _make_room(self) -> None:
        unused = [key for key, zygote in self._zygotes.items() if zygote.use_count == 0]
        while len(self._zygotes) >= _MOST_ZYGOTES and unused:
            await asyncio.to_thread(self._zygotes.pop(unused.pop(0)).close)

    async def close(self) -> None:
        """End every sandbox; nothing is left of them afterwards."""
        self._is_closed = True
        for task in list(self._starting.values()):
            with contextlib.suppress(SandboxError):
                await task
        zygotes = list(self._zygotes.values())
        self._zygotes.clear()
        await asyncio.gather(*(asyncio.to_thread(zygote.close) for zygote in zygotes))


class LocalRoom:
    """A living sandbox of a zygote."""

    def __init__(self, control: socket.socket, zygote: Zygote) -> None:
        control.setblocking(False)
        self._control, self._zygote = control, zygote
        self._is_closed = False

    async def wait_until_ready(self) -> None:
        """Wait for its first sign of life.

        Raises:
            SandboxError: It died while it was prepared.
        """
        loop = asyncio.get_running_loop()
        try:
            async with asyncio.timeout(_ROOM_S):
                word = await loop.sock_recv(self._control, 64)
        except (TimeoutError, OSError) as error:
            raise SandboxError(f"a sandbox was not ready in {_ROOM_S:.0f} s") from error
        if not word:
            raise SandboxError(f"a sandbox died at its start: {self._zygote.log_text()}")

    async def open_channel(self) -> SocketChannel:
        """Open the way for one more run."""
        if self._is_closed:
            raise SandboxError("this sandbox is stopped. Create another one.")
        near, far = socket.socketpair()
        with far:
            try:
                socket.send_fds(self._control, [b"job"], [far.fileno()])
            except OSError as error:
                near.close()
                raise SandboxError(f"this sandbox has died: {error}") from error
        return SocketChannel(near)

    def close(self) -> None:
        """End it, with every run and file in it."""
        if not self._is_closed:
            self._is_closed = True
            self._control.close()
            _release(self._zygote)


def _release(zygote: Zygote) -> None:
    zygote.use_count -= 1


def _default_pool_size() -> int:
    wanted = 2 * (os.cpu_count() or 1)
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if hard == resource.RLIM_INFINITY:
        return wanted
    return max(1, min(wanted, hard // _DESCRIPTORS_OF_ONE))
