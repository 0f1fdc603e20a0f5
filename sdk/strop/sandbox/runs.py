"""Running code, the same way in a sandbox for one run and in one that lives on."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace

from strop.errors import SandboxError
from strop.sandbox import language as languages
from strop.sandbox.base import Channel, ExecResult, Limits, Profile, Transport
from strop.sandbox.fair_queue import FairQueue
from strop.sandbox.language import Language, Program
from strop.sandbox.result import Origin, read_result
from strop.sandbox.wire import CASE, RESULT, Request

_SLACK_S = 60.0
"""How long after a run's own limit its supervisor may still take to report."""
_LARGEST_CACHE_BYTES = 256 << 20


@dataclass(slots=True)
class BinaryCache:
    """What compilers have made, by the content that it was made from."""

    found: dict[str, bytes] = field(default_factory=dict)
    pending: dict[str, asyncio.Lock] = field(default_factory=dict)

    def keep(self, key: str, binary: bytes) -> None:
        """Keep one more; the oldest give way."""
        self.found[key] = binary
        while sum(map(len, self.found.values())) > _LARGEST_CACHE_BYTES and len(self.found) > 1:
            del self.found[next(iter(self.found))]


class Runs:
    """What a backend and a living sandbox have in common."""

    def __init__(
        self, transport: Transport, queue: FairQueue, binaries: BinaryCache, limits: Limits
    ) -> None:
        self._transport, self._queue, self._binaries = transport, queue, binaries
        self._limits = limits

    async def _open(self, profile: Profile, limits: Limits) -> Channel:
        raise NotImplementedError

    def _variables(self, env: Mapping[str, str]) -> Mapping[str, str]:
        return env

    async def exec(
        self,
        command: str | Sequence[str],
        *,
        stdin: bytes = b"",
        env: Mapping[str, str] | None = None,
        cwd: str = "",
        files: Mapping[str, bytes] | None = None,
        collect: Sequence[str] = (),
        limits: Limits | None = None,
        profile: Profile | None = None,
        rollout: str = "",
    ) -> ExecResult:
        """Run a command and wait for its end.

        Args:
            command: A text for the shell, or a program and its arguments.
            stdin: All of its input.
            env: Variables besides the few that every run has; none come from the host.
            cwd: Folder below the sandbox's own.
            files: Written first, by their paths below the sandbox's folder.
            collect: Files to bring back in `ExecResult.files`.
            limits: Instead of the sandbox's own.
            profile: What is prepared; only for sandboxes of a single run.
            rollout: For whom; queued runs of different rollouts take turns.

        Raises:
            SandboxError: The sandbox failed; nothing is known about the command.
        """
        argv = ("sh", "-c", command) if isinstance(command, str) else tuple(command)
        request = Request(
            "argv",
            (limits or self._limits).to_wire(),
            argv=argv,
            env=self._variables(env or {}),
            cwd=cwd,
            stdin=stdin,
            files=files or {},
            collect=tuple(collect),
        )
        return await self._perform(request, profile or Profile(), rollout)

    async def run(
        self,
        code: str | bytes,
        language: Language = "python",
        *,
        argv: Sequence[str] = (),
        stdin: bytes = b"",
        env: Mapping[str, str] | None = None,
        files: Mapping[str, bytes] | None = None,
        collect: Sequence[str] = (),
        limits: Limits | None = None,
        profile: Profile | None = None,
        rollout: str = "",
    ) -> ExecResult:
        """Run a program and wait for its end; arguments as for `exec`.

        A program that does not compile gives its compiler's result, with `limit` ``compile``.

        Raises:
            SandboxError: The sandbox failed; nothing is known about the program.
        """
        program = await self._program(code, language, argv, rollout)
        if isinstance(program, ExecResult):
            return program
        request = self._request(program, limits, env)
        request = replace(
            request,
            stdin=stdin,
            files={**program.files, **(files or {})},
            collect=tuple(collect),
        )
        return await self._perform(request, profile or Profile(), rollout)

    async def run_many(
        self,
        code: str | bytes,
        inputs: Sequence[bytes],
        language: Language = "python",
        *,
        argv: Sequence[str] = (),
        env: Mapping[str, str] | None = None,
        limits: Limits | None = None,
        profile: Profile | None = None,
        rollout: str = "",
    ) -> list[ExecResult]:
        """Run one program once for each input: compiled once, each run in a fork of its own.

        Runs share files, nothing else; one that fails, hangs or floods does not touch the others.
        Limits are those of each.

        Raises:
            SandboxError: The sandbox failed; nothing is known about the program.
        """
        program = await self._program(code, language, argv, rollout)
        if isinstance(program, ExecResult):
            return [program] * len(inputs)
        request = self._request(program, limits, env)
        request = replace(request, cases=tuple(inputs))
        async with self._asked(request, profile or Profile(), rollout) as (channel, origin):
            results: list[ExecResult] = []
            while len(results) < len(inputs):
                payload = await self._next(channel, CASE, request)
                results.append(read_result(payload, origin))
            return results

    def _request(
        self, program: Program, limits: Limits | None, env: Mapping[str, str] | None
    ) -> Request:
        return Request(
            program.kind,
            program.fit(limits or self._limits).to_wire(),
            argv=program.argv,
            code=program.code,
            env=self._variables(env or {}),
            files=program.files,
            executables=program.executables,
        )

    async def _program(
        self, code: str | bytes, language: Language, argv: Sequence[str], rollout: str
    ) -> Program | ExecResult:
        """Give what is to be started, or the compiler's result if it failed."""
        source = code.encode(errors="surrogatepass") if isinstance(code, str) else code
        compiler = languages.compiler(language, source)
        if compiler is None:
            return languages.interpreted(language, source, argv)
        key = languages.cache_key(compiler)
        lock = self._binaries.pending.setdefault(key, asyncio.Lock())
        try:
            async with lock:
                binary = self._binaries.found.get(key)
                if binary is None:
                    outcome = await self._compile(compiler, rollout)
                    if isinstance(outcome, ExecResult):
                        return outcome
                    binary = outcome
                    self._binaries.keep(key, binary)
        finally:
            self._binaries.pending.pop(key, None)
        return languages.compiled(binary, argv)

    async def _compile(self, compiler: Program, rollout: str) -> bytes | ExecResult:
        name = languages.binary_name()
        request = Request(
            "argv",
            languages.COMPILE_LIMITS.to_wire(),
            argv=compiler.argv,
            files=compiler.files,
            collect=(name,),
            collect_bytes=languages.COMPILE_LIMITS.file_bytes,
        )
        result = await self._perform(request, Profile(), rollout, is_apart=True)
        if result.exit_code == 127:
            raise SandboxError(f"{compiler.argv[0]} is not installed where the sandbox runs")
        binary = result.files.get(name)
        if result.is_ok and isinstance(binary, bytes):
            return binary
        return replace(result, limit="compile", files={})

    async def _perform(
        self, request: Request, profile: Profile, rollout: str, *, is_apart: bool = False
    ) -> ExecResult:
        asked = self._asked(request, profile, rollout, is_apart=is_apart)
        async with asked as (channel, origin):
            started_at = time.monotonic()
            payload = await self._next(channel, RESULT, request)
            total_s = origin.total_s + time.monotonic() - started_at
        return read_result(payload, replace(origin, total_s=total_s))

    @asynccontextmanager
    async def _asked(
        self, request: Request, profile: Profile, rollout: str, *, is_apart: bool = False
    ) -> AsyncIterator[tuple[Channel, Origin]]:
        """Wait for a turn, open a channel and send the request; hang up afterwards."""
        async with self._queue.turn(rollout) as queue_s:
            started_at = time.monotonic()
            limits = Limits.from_wire(request.limits)
            open_ = self._transport.open_run if is_apart else self._open
            channel = await open_(profile, limits)
            try:
                await channel.send(request.pack())
                yield channel, self._origin(queue_s, time.monotonic() - started_at)
            finally:
                channel.close()

    def _origin(self, queue_s: float = 0.0, total_s: float = 0.0) -> Origin:
        isolation = self._transport.capabilities.isolation
        return Origin(self._transport.name, isolation, queue_s, total_s)

    async def _next(self, channel: Channel, tag: bytes, request: Request) -> bytes:
        wait_s = request.limits["wall_s"] + _SLACK_S
        try:
            async with asyncio.timeout(wait_s):
                reply = await channel.receive()
        except TimeoutError as error:
            raise SandboxError(
                f"{self._transport.name} did not report within {wait_s:.0f} s"
            ) from error
        if reply is None:
            raise SandboxError(
                f"{self._transport.name}: a run's supervisor died. Nothing is known about the "
                "code; run it again."
            )
        if reply.tag == RESULT and tag != RESULT:
            raise SandboxError(f"{self._transport.name} ended before the last case")
        return reply.payload
