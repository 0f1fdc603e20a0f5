"""A sandbox that lives on: files, commands, jobs and sessions until it is stopped."""

from __future__ import annotations

import asyncio
import errno
import json
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Literal, Self

from strop.errors import SandboxError, SpoiledWorkspaceError
from strop.sandbox.base import (
    MEBIBYTE,
    Channel,
    Limits,
    Profile,
    Room,
    SandboxSpec,
    Transport,
)
from strop.sandbox.fair_queue import FairQueue
from strop.sandbox.job import Job
from strop.sandbox.result import read_result
from strop.sandbox.runs import BinaryCache, Runs
from strop.sandbox.wire import RESULT, Request

if TYPE_CHECKING:
    from strop.sandbox.ports import ExposedPort
    from strop.sandbox.session import BashSession, PythonSession

_FOREVER_S = 1e9
_UNBOUNDED_BYTES = 1 << 40
_OPERATION_S = 60.0
"""Far more than files within a sandbox's limits take: what takes longer is made to."""
_LIMITS_OF_ALL = ("memory_bytes", "pid_count", "output_bytes", "file_bytes", "disk_bytes")
"""What a file operation reaches because of all else in its sandbox."""


@dataclass(frozen=True, slots=True)
class Entry:
    """One line of a folder's list."""

    name: str
    kind: Literal["file", "folder", "link", "other"]
    size_bytes: int


class Sandbox(Runs):
    """A folder, and the right to run things in it, until it is stopped.

    Everything that a run starts ends with that run; what is to live on is a job or a session.
    """

    def __init__(
        self,
        room: Room,
        spec: SandboxSpec,
        transport: Transport,
        queue: FairQueue,
        *,
        binaries: BinaryCache,
    ) -> None:
        super().__init__(transport, queue, binaries, spec.limits)
        self._room = room
        self._jobs: set[Job] = set()
        """Held, since a job that nobody holds ends with its channel."""
        self._ports: set[ExposedPort] = set()
        self.spec = spec

    async def _open(self, profile: Profile, limits: Limits) -> Channel:
        if profile != Profile():
            raise SandboxError("a sandbox has its profile from its start; name it in `SandboxSpec`")
        return await self._room.open_channel()

    def _variables(self, env: Mapping[str, str]) -> Mapping[str, str]:
        return {**self.spec.env, **env}

    async def start(
        self,
        command: str | Sequence[str],
        *,
        env: Mapping[str, str] | None = None,
        cwd: str = "",
        limits: Limits | None = None,
    ) -> Job:
        """Start a command and return while it runs; its time is not limited by default.

        It lives until it ends, is killed, or the sandbox is stopped, whoever keeps the job.
        """
        argv = ("sh", "-c", command) if isinstance(command, str) else tuple(command)
        bounds = limits or self._lasting_limits()
        return await self._start(
            Request("argv", bounds.to_wire(), argv=argv, env=self._variables(env or {}), cwd=cwd)
        )

    async def _start(self, request: Request) -> Job:
        channel = await self._room.open_channel()
        job = Job(channel, self._origin())
        self._jobs = {other for other in self._jobs if not other.is_over} | {job}
        try:
            await channel.send(replace(request, is_streaming=True).pack())
        except BaseException:
            job.kill()
            raise
        return job

    def _lasting_limits(self) -> Limits:
        return replace(
            self._limits, wall_s=_FOREVER_S, cpu_s=_FOREVER_S / 2, output_bytes=_UNBOUNDED_BYTES
        )

    async def python_session(self, *, cwd: str = "") -> PythonSession:
        """Start a Python that keeps its variables from one piece of code to the next.

        Args:
            cwd: Folder below the sandbox's own.
        """
        from strop.sandbox.session import PythonSession, session_source

        limits = self._lasting_limits().to_wire()
        env = self._variables({})
        code = session_source()
        job = await self._start(Request("python", limits, code=code, env=env, cwd=cwd))
        return PythonSession(job, self._limits)

    async def bash_session(self, *, cwd: str = "") -> BashSession:
        """Start a shell that keeps its folder, variables and background jobs.

        Args:
            cwd: Folder below the sandbox's own, to begin in.
        """
        from strop.sandbox.session import BashSession

        command = ["bash", "--noprofile", "--norc"]
        job = await self.start(command, cwd=cwd, limits=self._lasting_limits())
        return BashSession(job, self._limits)

    async def expose(self, port: int) -> ExposedPort:
        """Let a server inside be reached from this machine's loopback.

        Args:
            port: Where the server listens, or will listen, on the sandbox's own loopback.

        Raises:
            SandboxError: The backend has no ports, or the sandbox has no network.
        """
        from strop.sandbox.ports import ExposedPort, relay_source

        if not self._transport.capabilities.has_ports:
            raise SandboxError(f"{self._transport.name} has no ports; see its capabilities")
        if self.spec.network != "loopback":
            raise SandboxError("only a sandbox with `SandboxSpec(network='loopback')` has ports")
        limits = replace(self._lasting_limits(), address_space_bytes=0).to_wire()
        request = Request("python", limits, code=relay_source(), argv=(str(port),))
        exposed = ExposedPort(lambda: self._start(request))
        await exposed.listen()
        self._ports.add(exposed)
        return exposed

    async def write(self, path: str, content: bytes, *, is_executable: bool = False) -> None:
        """Write a file, with the folders that lead to it.

        Raises:
            OSError: The path leads out of the sandbox's folder, or there is no space.
        """
        mode = "executable" if is_executable else "plain"
        await self._operate(path, ("write", path, mode), stdin=content)

    async def read(self, path: str, *, offset: int = 0, most_bytes: int = 16 * MEBIBYTE) -> bytes:
        """Read a part of a regular file.

        Raises:
            OSError: There is no such file, or the path leads through a link.
        """
        return await self._operate(path, ("read", path, str(offset), str(most_bytes)))

    async def list(self, path: str = "") -> list[Entry]:
        """List a folder.

        Raises:
            OSError: There is no such folder, or the path leads through a link.
        """
        rows = json.loads(await self._operate(path, ("list", path)))
        return [Entry(*row) for row in rows]

    async def upload(self, source: Path, path: str) -> None:
        """Copy a file from here into the sandbox."""
        content = await asyncio.to_thread(source.read_bytes)
        await self.write(path, content, is_executable=os.access(source, os.X_OK))

    async def download(self, path: str, target: Path) -> None:
        """Copy a file from the sandbox to here."""
        content = await self.read(path, most_bytes=self._limits.disk_bytes)
        await asyncio.to_thread(target.write_bytes, content)

    async def snapshot(self, path: str = "") -> bytes:
        """Give a tar archive of the sandbox's files, or of a folder in it.

        Processes are not part of it. The archive is as trustworthy as the code that ran: restore
        it in a sandbox, never unpack it on a host.

        Raises:
            SpoiledWorkspaceError: The code left it so that it cannot be packed.
        """
        try:
            return await self._operate(path, ("pack", path))
        except OSError as error:
            raise SpoiledWorkspaceError(f"the files cannot be taken out: {error}") from error

    async def restore(self, snapshot: bytes, path: str = "") -> None:
        """Unpack a tar archive into the sandbox's folder; files of the same names give way."""
        await self._operate(path, ("unpack", path), stdin=snapshot)

    async def _operate(self, path: str, argv: tuple[str, ...], stdin: bytes = b"") -> bytes:
        limits = replace(
            self._limits,
            wall_s=_OPERATION_S,
            cpu_s=_OPERATION_S,
            output_bytes=2 * self._limits.disk_bytes + MEBIBYTE,
            file_bytes=self._limits.disk_bytes,
            memory_bytes=1024 * MEBIBYTE,
            address_space_bytes=0,
        )
        request = Request("files", limits.to_wire(), argv=argv, stdin=stdin)
        channel = await self._room.open_channel()
        try:
            await channel.send(request.pack())
            result = read_result(await self._next(channel, RESULT, request), self._origin())
        finally:
            channel.close()
        if result.status == "ok" and not result.is_truncated:
            return result.stdout
        try:
            code, text = json.loads(result.stderr)
        except ValueError:
            if result.limit in ("wall_s", "cpu_s"):
                text = f"{result.limit} of {_OPERATION_S:g} s was reached"
                raise OSError(errno.ETIMEDOUT, text, path) from None
            if result.is_ok or result.limit in _LIMITS_OF_ALL:
                limit = result.limit or "output_bytes"
                raise OSError(errno.ENOSPC, f"{limit} was reached", path) from None
            raise SandboxError(
                f"{argv[0]} {path!r} ended with {result.status}: {result.error_text[-500:]}"
            ) from None
        raise OSError(code, text, path)

    async def stop(self) -> None:
        """End everything in it and remove its files; as often as one likes."""
        for port in list(self._ports):
            port.close()
        for job in list(self._jobs):
            job.kill()
        self._room.close()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.stop()
