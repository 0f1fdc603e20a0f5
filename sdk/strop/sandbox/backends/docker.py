"""Containers of Docker or Podman, driven by their command; runs speak the common protocol."""

from __future__ import annotations

import asyncio
import contextlib
import shutil
import tempfile
import uuid
from pathlib import Path
from typing import IO, Self
from weakref import WeakSet

from strop.errors import SandboxError, SandboxUnavailableError
from strop.sandbox.backends import capability
from strop.sandbox.base import MEBIBYTE, Capabilities, Level, Limits, Profile, SandboxSpec
from strop.sandbox.wire import HEADER, Reply

DEFAULT_IMAGE = "python:3.11-slim"
"""Any image will do whose ``python3`` is 3.11 or newer."""
_SDK = str(Path(__file__).resolve().parents[3])
_SDK_INSIDE = "/opt/strop"
_BOOT = (
    f"import sys; sys.path.insert(0, {_SDK_INSIDE!r}); "
    "from strop.sandbox.zygote.stdio import main; main()"
)
_KEEPER = ("python3", "-I", "-S", "-c", "import sys; print(flush=True); sys.stdin.read()")
"""Keeps a container as long as its standard input: that ends with whoever has started it."""
_REFUSALS = (125, 126, 127)
"""Exit codes of an engine's own, where no program of ours has run."""
_LABEL = "strop.sandbox=1"
_ENGINE_S = 60.0
_USER = "60001:60001"
_OWN_BYTES = 64 * MEBIBYTE
_HELD = {
    "memory_bytes": "RLIMIT_AS for each process; the watchdog, every 50 ms, for all together; the "
    "engine's control group, which counts files too, is the last stop",
    "pid_count": "the engine's control group",
    "disk_bytes": "the size of the container's tmpfs",
    "wall_s": "the supervisor's clock",
    "cpu_s": "RLIMIT_CPU for each process; the watchdog, every 50 ms, for all together",
    "file_bytes": "RLIMIT_FSIZE",
    "open_file_count": "RLIMIT_NOFILE",
    "output_bytes": "the supervisor",
    "address_space_bytes": "RLIMIT_AS",
}
_NOT_HELD = {
    "processor time": capability.UNWAITED,
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
        self._removals: set[asyncio.Task[None]] = set()
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

    async def open_run(self, profile: Profile, limits: Limits) -> PipeChannel:
        """Open the way for one run in a container of its own."""
        _check_profile(self.name, profile)
        name = _new_name()
        options = container_options(name, limits, profile, self._runtime)
        return await self._pipe(["run", "--interactive", "--rm", *options, self._image])

    async def _pipe(self, argv: list[str]) -> PipeChannel:
        program = ["python3", "-I", "-S", "-c", _BOOT]
        channel = await PipeChannel.open([self._command, *argv, *program])
        self._channels.add(channel)
        return channel

    async def open_room(self, spec: SandboxSpec) -> DockerRoom:
        """Start a container that lives until it is closed."""
        own = self.capabilities.networks
        if spec.network not in own:
            raise SandboxError(
                f"{self.name} has no network {spec.network!r}. Choose one of {sorted(own)}."
            )
        _check_profile(self.name, spec.profile)
        name = _new_name()
        options = container_options(name, spec.limits, spec.profile, self._runtime)
        image = spec.image or self._image
        argv = ["run", "--interactive", "--rm", *options, image, *_KEEPER]
        channel = await PipeChannel.open([self._command, *argv])
        self._channels.add(channel)
        self._names.add(name)
        try:
            await channel.wait_for_word()
        except BaseException:
            channel.close()
            self.remove(name)
            raise
        return DockerRoom(self, name, channel)

    async def open_job(self, name: str) -> PipeChannel:
        """Open the way for one more run in a container."""
        return await self._pipe(["exec", "--interactive", name])

    def remove(self, name: str) -> None:
        """Remove a container with all that is in it, once; `close` waits for that."""
        if name in self._names:
            self._names.remove(name)
            task = asyncio.ensure_future(self._remove(name))
            self._removals.add(task)
            task.add_done_callback(self._removals.discard)

    async def _remove(self, name: str) -> None:
        await _engine(self._command, "rm", "--force", name)

    async def close(self) -> None:
        """Remove every container that was started from here."""
        for name in list(self._names):
            self.remove(name)
        await asyncio.gather(*self._removals)
        channels = list(self._channels)
        for channel in channels:
            channel.close()
        await asyncio.gather(*(channel.wait_closed() for channel in channels))


def container_options(
    name: str, limits: Limits, profile: Profile, runtime: str | None
) -> list[str]:
    """Give the engine's options for a container that may do nothing beyond its limits."""
    # Files in a tmpfs and our own supervisor are memory as well.
    memory_bytes = limits.memory_bytes + limits.disk_bytes + _OWN_BYTES
    mounts = [(_SDK, _SDK_INSIDE), *((path, path) for path in profile.mounts)]
    return [
        *("--name", name, "--label", _LABEL, "--network", "none", "--user", _USER),
        *("--cap-drop", "ALL", "--security-opt", "no-new-privileges", "--read-only"),
        *("--memory", str(memory_bytes), "--memory-swap", str(memory_bytes)),
        # Our own supervisor is among the processes that the engine counts.
        *("--pids-limit", str(limits.pid_count + 8)),
        *("--tmpfs", f"/box:rw,exec,nosuid,nodev,mode=1777,size={limits.disk_bytes}"),
        *("--workdir", "/box", "--init"),
        *(part for source, target in mounts for part in ("--volume", f"{source}:{target}:ro")),
        *(("--runtime", runtime) if runtime else ()),
    ]


def _check_profile(name: str, profile: Profile) -> None:
    """Refuse what a container would quietly go without; modules load there when code asks."""
    if profile.python_paths or profile.base_folder is not None:
        raise SandboxError(
            f"{name} has neither `python_paths` nor a `base_folder`. Take `mounts` and the "
            "variable PYTHONPATH, or put the files in an image."
        )


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

    def __init__(self, process: asyncio.subprocess.Process, log: IO[bytes]) -> None:
        self._process, self._log = process, log
        self._reaper: asyncio.Task[None] | None = None

    @classmethod
    async def open(cls, argv: list[str]) -> PipeChannel:
        """Start the process that carries the frames."""
        pipe = asyncio.subprocess.PIPE
        log = tempfile.TemporaryFile()  # noqa: SIM115 - lives as long as the channel
        process = await asyncio.create_subprocess_exec(*argv, stdin=pipe, stdout=pipe, stderr=log)
        return cls(process, log)

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
            await self._raise_refusal()
            return None

    async def wait_for_word(self) -> None:
        """Wait until the process has said something, which is no frame.

        Raises:
            SandboxError: It ended before, or says nothing.
        """
        assert self._process.stdout is not None
        try:
            async with asyncio.timeout(_ENGINE_S):
                if await self._process.stdout.readline():
                    return
        except TimeoutError as error:
            raise SandboxError(f"a container was not ready in {_ENGINE_S:.0f} s") from error
        await self._raise_refusal()
        raise SandboxError("a container ended at its start")

    async def _raise_refusal(self) -> None:
        """Say why the engine has started nothing, where that is so."""
        if self._reaper is not None:
            return
        if await self._process.wait() in _REFUSALS:
            self._log.seek(0)
            cause = self._log.read(1 << 16).decode(errors="replace").strip()
            raise SandboxError(f"the engine started no container: {cause[-500:]}")

    def close(self) -> None:
        """Hang up; the run ends at once if it has not ended."""
        assert self._process.stdin is not None
        self._process.stdin.close()
        if self._reaper is None:
            self._reaper = asyncio.ensure_future(self._end())

    async def _end(self) -> None:
        await self._process.wait()
        self._log.close()

    async def wait_closed(self) -> None:
        """Wait until the process has ended, after `close`."""
        if self._reaper is not None:
            await self._reaper


class DockerRoom:
    """A living container."""

    def __init__(self, transport: DockerTransport, name: str, keeper: PipeChannel) -> None:
        self._transport, self._name, self._keeper = transport, name, keeper
        self._is_closed = False

    async def open_channel(self) -> PipeChannel:
        """Open the way for one more run."""
        if self._is_closed:
            raise SandboxError("this sandbox is stopped. Create another one.")
        return await self._transport.open_job(self._name)

    def close(self) -> None:
        """Remove the container, with every run and file in it."""
        self._is_closed = True
        self._keeper.close()
        self._transport.remove(self._name)
