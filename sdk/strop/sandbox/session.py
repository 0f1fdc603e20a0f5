"""Sessions: a Python and a shell that keep their state from one piece of code to the next."""

from __future__ import annotations

import asyncio
import json
import secrets
import signal
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, Self, TypeAlias

from strop.errors import SandboxError
from strop.sandbox.base import Limits
from strop.sandbox.job import Job

_INSIDE = Path(__file__).with_name("inside")
_INTERRUPT_S = 5.0
"""How long code may take to heed an interrupt before the session is ended."""

SessionStatus: TypeAlias = Literal["ok", "error", "timeout", "dead"]


@dataclass(frozen=True, slots=True)
class SessionResult:
    """What one piece of code in a session did."""

    status: SessionStatus
    """``error``: it raised, or its command failed. ``timeout``: it was interrupted, and the session
    lives on. ``dead``: the session has ended, with this piece or before it."""
    stdout: str = ""
    stderr: str = ""
    """Of Python with the traceback, if there is one."""
    value: str | None = None
    """Of Python: the `repr` of the last expression; None when there is none."""
    exit_code: int | None = None
    """Of a shell: of the last command."""
    is_truncated: bool = False
    limit: str | None = None
    """Of a dead one: which limit ended it, by the name of a field of `Limits`; None for none."""


class _Session:
    """What both kinds have in common: one piece at a time, and a clock for each."""

    def __init__(self, job: Job, limits: Limits) -> None:
        self._job, self._limits = job, limits
        self._lock = asyncio.Lock()
        self._is_dead = False

    async def run(self, code: str, *, wall_s: float | None = None) -> SessionResult:
        """Run one piece of code and wait for its end.

        Args:
            code: Statements of Python, or commands of the shell.
            wall_s: Then it is interrupted. None: as long as a run of the sandbox may take.

        Raises:
            SandboxError: The sandbox failed.
        """
        async with self._lock:
            if self._is_dead:
                return SessionResult("dead", stderr="the session has ended")
            try:
                return await self._run_in_time(code, wall_s or self._limits.wall_s)
            except BaseException:
                self.stop()
                raise

    async def _run_in_time(self, code: str, wall_s: float) -> SessionResult:
        answer = asyncio.ensure_future(self._exchange(code))
        try:
            done, _ = await asyncio.wait([answer], timeout=wall_s)
            if done:
                return await answer
            await self._interrupt()
            done, _ = await asyncio.wait([answer], timeout=_INTERRUPT_S)
            if not done:
                self.stop()
                return SessionResult("dead", stderr=f"no end after {wall_s} s, and no interrupt")
            result = await answer
            status: SessionStatus = "dead" if result.status == "dead" else "timeout"
            return SessionResult(status, result.stdout, result.stderr)
        finally:
            answer.cancel()

    async def _exchange(self, code: str) -> SessionResult:
        raise NotImplementedError

    async def _interrupt(self) -> None:
        await self._job.signal(signal.SIGINT)

    def _bury(self, stdout: str = "") -> SessionResult:
        self.stop()
        words = self._job.take_errors().decode(errors="replace")
        result = self._job.result
        limit = None if result is None else result.limit
        return SessionResult("dead", stdout, words, limit=limit)

    @property
    def is_alive(self) -> bool:
        """Whether it takes more code."""
        return not self._is_dead

    def stop(self) -> None:
        """End it with all that it has started."""
        self._is_dead = True
        self._job.kill()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        self.stop()


class PythonSession(_Session):
    """A Python interpreter that remembers."""

    async def _exchange(self, code: str) -> SessionResult:
        words = {"code": code, "output_bytes": self._limits.output_bytes}
        await self._job.write(json.dumps(words).encode() + b"\n")
        # Escapes in JSON take up to six bytes for one.
        line = await self._job.read_line(8 * self._limits.output_bytes + (1 << 20))
        if not line.endswith(b"\n"):
            return self._bury()
        try:
            told = json.loads(line)
            return SessionResult(
                status="ok" if told["is_ok"] is True else "error",
                stdout=str(told["stdout"]),
                stderr=str(told["stderr"]),
                value=None if told["value"] is None else str(told["value"]),
                is_truncated=bool(told["is_truncated"]),
            )
        except (ValueError, KeyError, TypeError, RecursionError):
            # The code has the same streams as its interpreter and can only harm itself.
            return self._bury()


class BashSession(_Session):
    """A shell that remembers."""

    async def _exchange(self, code: str) -> SessionResult:
        # Unknown to the command, so that no output can pass for its end.
        mark = secrets.token_hex(16)
        # A shell that has a trap outlives the interrupt that ends its command.
        command = f"trap : INT\neval {_quote(code)} </dev/null\nprintf '\\n{mark} %d\\n' $?\n"
        command += f"printf '\\n{mark}\\n' >&2\n"
        await self._job.write(command.encode(errors="surrogateescape"))
        stdout, code_text, is_cut = await self._read_to(mark)
        if code_text is None:
            return self._bury(stdout)
        stderr = await self._errors_to(mark)
        exit_code = int(code_text)
        status: SessionStatus = "ok" if exit_code == 0 else "error"
        return SessionResult(status, stdout, stderr, exit_code=exit_code, is_truncated=is_cut)

    async def _read_to(self, mark: str) -> tuple[str, str | None, bool]:
        kept, is_cut, cap = bytearray(), False, self._limits.output_bytes
        start = f"{mark} ".encode()
        while line := await self._job.read_line(1 << 30):
            if line.startswith(start):
                text = bytes(kept[:-1] if not is_cut else kept).decode(errors="replace")
                return text, line[len(start) :].decode().strip(), is_cut
            room = cap - len(kept)
            is_cut = is_cut or len(line) > room
            kept += line[: max(0, room)]
        return kept.decode(errors="replace"), None, is_cut

    async def _errors_to(self, mark: str) -> str:
        collected = bytearray()
        end = f"\n{mark}\n".encode()
        while not collected.endswith(end):
            chunk = await self._job.read("stderr")
            if not chunk:
                break
            collected += chunk
        text = bytes(collected).removesuffix(end)
        return text[: self._limits.output_bytes].decode(errors="replace")


def _quote(text: str) -> str:
    return "'" + text.replace("'", "'\\''") + "'"


def session_source() -> bytes:
    """Give the program that keeps a Python session inside the sandbox.

    Raises:
        SandboxError: The installation is incomplete.
    """
    try:
        return (_INSIDE / "python_session.py").read_bytes()
    except OSError as error:
        raise SandboxError(f"strop is not installed completely: {error}") from error
