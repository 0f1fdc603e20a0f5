"""Containers of Docker or Podman, driven by their command; runs speak the common protocol."""

from __future__ import annotations

import asyncio
import contextlib
import shutil
import uuid
from pathlib import Path
from typing import Self
from weakref import WeakSet

from strop.errors import SandboxError, SandboxUnavailableError
from strop.sandbox.base import Capabilities, Level, Limits, Profile, SandboxSpec
from strop.sandbox.wire import HEADER, Reply

DEFAULT_IMAGE = "python:3.11-slim"
"""Any image will do whose ``python3`` is 3.11 or newer."""
_SDK = str(Path(__file__).resolve().parents[3])
_SDK_INSIDE = "/opt/strop"
_BOOT = (
    f"import sys; sys.path.insert(0, {_SDK_INSIDE!r}); "
    "from strop.sandbox.zygote.stdio import main; main()"
)
_LABEL = "strop.sandbox=1"
_ENGINE_S = 60.0
_USER = "60001:60001"
_HELD = {
    "memory_bytes": "the engine's control group",
    "pid_count": "the engine's control group",
    "disk_bytes": "the size of the container's tmpfs",
    "wall_s": "the supervisor's clock",
    "cpu_s": "RLIMIT_CPU for each process; the watchdog, every 50 ms, for all together",
    "file_bytes": "RLIMIT_FSIZE",
    "open_file_count": "RLIMIT_NOFILE",
    "output_bytes": "the supervisor",
}
_NOT_HELD = {
    "inode_count": "tmpfs options of the engine do not bound it",
    "shared kernel": "unless the engine offers gVisor, a fault of the kernel is not contained",
}


class DockerTransport:
    """Each run or room has a container of its own, without network and rights."""

    def __init__(self, command: str, runtime: str | None, image: str = DEFAULT_IMAGE) -> None:
        """Use `connect` instead, which asks the engine what it offers."""
        self.name = Path(command).name
        self._command, self._runtime, self._image = command, runtime, image
        self._names: set[str] = set()
        self._channels: WeakSet[PipeChannel] = WeakSet()

    @classmethod
    async def connect(cls, image: str = DEFAULT_IMAGE) -> Self:
        """Find an engine that answers; its gVisor is used where it has it.

        Raises:
            SandboxUnavailableError: None answers.
        """
        causes = []
        for name in ("docker", "podman"):
            command = shutil.which(name)
            if command is None:
                causes.append(f"{name} is not installed")
                continue
            code, output = await _engine(command, "info", "--format", "{{json .}}")
            if code == 0:
                return cls(command, "runsc" if '"runsc"' in output else None, image)
            causes.append(f"{name}: {output.strip().rpartition(chr(10))[2]}")
        raise SandboxUnavailableError("; ".join(causes))

    @property
    def capabilities(self) -> Capabilities:
        """What containers of this engine can do."""
        return Capabilities(
            isolation=Level.GVISOR if self._runtime else Level.CONTAINER,
            enforced=_HELD,
            not_enforced=_NOT_HELD,
            networks=frozenset({"none", "loopback"}),
            has_snapshots=True,
            has_sessions=True,
            has_ports=True,
            has_images=True,
        )

    async def open_run(self, profile: Profile) -> PipeChannel:
        """Open the way for one run in a container of its own."""
        name = _new_name()
        options = container_options(name, Limits(), profile, self._runtime)
        return await self._pipe(["run", "--interactive", "--rm", *options, self._image])

    async def _pipe(self, argv: list[str]) -> PipeChannel:
        program = ["python3", "-I", "-S", "-c", _BOOT]
        channel = await PipeChannel.open([self._command, *argv, *program])
        self._channels.add(channel)
        return channel

    async def open_room(self, spec: SandboxSpec) -> DockerRoom:
        """Start a container that lives until it is closed."""
        name = _new_name()
        options = container_options(name, spec.limits, spec.profile, self._runtime)
        image = spec.image or self._image
        argv = ["run", "--detach", "--rm", *options, image, "sleep", "infinity"]
        code, output = await _engine(self._command, *argv)
        if code != 0:
            raise SandboxError(f"{self.name} started no container: {output.strip()[-500:]}")
        self._names.add(name)
        return DockerRoom(self, name)

    async def open_job(self, name: str) -> PipeChannel:
        """Open the way for one more run in a container."""
        return await self._pipe(["exec", "--interactive", name])

    async def remove(self, name: str) -> None:
        """Remove a container with all that is in it."""
        self._names.discard(name)
        await _engine(self._command, "rm", "--force", name)

    async def close(self) -> None:
        """Remove every container that was started from here."""
        await asyncio.gather(*(self.remove(name) for name in list(self._names)))
        channels = list(self._channels)
        for channel in channels:
            channel.close()
        await asyncio.gather(*(channel.wait_closed() for channel in channels))


def container_options(
    name: str, limits: Limits, profile: Profile, runtime: str | None
) -> list[str]:
    """Give the engine's options for a container that may do nothing beyond its limits."""
    mounts = [(_SDK, _SDK_INSIDE), *((path, path) for path in profile.mounts)]
    return [
        *("--name", name, "--label", _LABEL, "--network", "none", "--user", _USER),
        *("--cap-drop", "ALL", "--security-opt", "no-new-privileges", "--read-only"),
        *("--memory", str(limits.memory_bytes), "--memory-swap", str(limits.memory_bytes)),
        # Our own supervisor is among the processes that the engine counts.
        *("--pids-limit", str(limits.pid_count + 8)),
        *("--tmpfs", f"/box:rw,exec,nosuid,nodev,mode=1777,size={limits.disk_bytes}"),
        *("--workdir", "/box", "--init"),
        *(part for source, target in mounts for part in ("--volume", f"{source}:{target}:ro")),
        *(("--runtime", runtime) if runtime else ()),
    ]


def _new_name() -> str:
    return f"strop-{uuid.uuid4().hex[:16]}"


async def _engine(*argv: str) -> tuple[int, str]:
    process = await asyncio.create_subprocess_exec(
        *argv,
        stdin=asyncio.subprocess.DEVNULL,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.STDOUT,
    )
    try:
        async with asyncio.timeout(_ENGINE_S):
            output, _ = await process.communicate()
    except TimeoutError:
        process.kill()
        await process.wait()
        return 1, f"{argv[0]} {argv[1]} did not end within {_ENGINE_S:.0f} s"
    return process.returncode or 0, output.decode(errors="replace")


class PipeChannel:
    """A run's frames over the pipes of a child process."""

    def __init__(self, process: asyncio.subprocess.Process) -> None:
        self._process = process
        self._reaper: asyncio.Task[int] | None = None

    @classmethod
    async def open(cls, argv: list[str]) -> PipeChannel:
        """Start the process that carries the frames."""
        pipe = asyncio.subprocess.PIPE
        discard = asyncio.subprocess.DEVNULL
        process = await asyncio.create_subprocess_exec(
            *argv, stdin=pipe, stdout=pipe, stderr=discard
        )
        return cls(process)

    async def send(self, frame: bytes) -> None:
        """Send one frame; when the other side is gone, `receive` tells."""
        assert self._process.stdin is not None
        with contextlib.suppress(OSError):
            self._process.stdin.write(frame)
            await self._process.stdin.drain()

    async def receive(self) -> Reply | None:
        """Give the next frame; None when the other side is gone."""
        assert self._process.stdout is not None
        try:
            tag, size = HEADER.unpack(await self._process.stdout.readexactly(HEADER.size))
            return Reply(tag, await self._process.stdout.readexactly(size))
        except (asyncio.IncompleteReadError, OSError):
            return None

    def close(self) -> None:
        """Hang up; the run ends at once if it has not ended."""
        assert self._process.stdin is not None
        self._process.stdin.close()
        if self._reaper is None:
            self._reaper = asyncio.ensure_future(self._process.wait())

    async def wait_closed(self) -> None:
        """Wait until the process has ended, after `close`."""
        if self._reaper is not None:
            await self._reaper


class DockerRoom:
    """A living container."""

    def __init__(self, transport: DockerTransport, name: str) -> None:
        self._transport, self._name = transport, name
        self._removal: asyncio.Task[None] | None = None

    async def open_channel(self) -> PipeChannel:
        """Open the way for one more run."""
        if self._removal is not None:
            raise SandboxError("this sandbox is stopped. Create another one.")
        return await self._transport.open_job(self._name)

    def close(self) -> None:
        """Remove the container, with every run and file in it."""
        if self._removal is None:
            self._removal = asyncio.ensure_future(self._transport.remove(self._name))
