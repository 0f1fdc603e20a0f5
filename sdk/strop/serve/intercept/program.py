"""A program that plays an episode: started, watched, and removed with all that it started."""

from __future__ import annotations

import asyncio
import contextlib
import os
import sys
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

from strop.errors import EnvironmentFaultError

_KEEPER = Path(__file__).with_name("keeper.py")
_INHERITED = ("PATH", "LANG", "LC_ALL", "TZ")
_TAIL_BYTES = 16_000
_KEEPER_LIMIT_S = 4.0


@dataclass(frozen=True, slots=True)
class Program:
    """What to run, and how.

    It gets a folder of its own as working directory, ``HOME`` and ``TMPDIR``, and of this
    process's variables only ``PATH`` and the language: no secrets. It is no sandbox: what the
    model makes the program do, it does as this user.
    """

    argv: Sequence[str]
    """The program and its arguments."""
    env: Mapping[str, str] = field(default_factory=dict)
    """Further variables."""
    cwd: str | None = None
    """Where it starts; None for the episode's folder."""
    limit_s: float | None = 1800.0
    """Seconds from its start to its end, beyond which the attempt is truncated; None for ever."""
    ok_exit_codes: Sequence[int] | None = (0,)
    """Any other fails the attempt; None takes all. A signal's code is its negative number."""
    callers: Literal["program", "any"] = "program"
    """Whose calls count: only those of the started process itself, or also those of processes
    that it started. A wrapper that does not ``exec`` the agent needs ``any``."""


class RunningProgram:
    """A program and the keeper that holds it."""

    def __init__(self, keeper: asyncio.subprocess.Process, pid: int, output: Path) -> None:
        self.pid = pid
        """Of the started process."""
        self.ended = asyncio.ensure_future(_ended(keeper))
        """Gives its exit code once nothing of it is left; None when its keeper was killed."""
        self._keeper = keeper
        self._output = output

    @classmethod
    async def start(
        cls, program: Program, folder: Path, variables: Mapping[str, str]
    ) -> RunningProgram:
        """Start a program in a folder.

        Raises:
            EnvironmentFaultError: It cannot be started.
        """
        inherited = {name: os.environ[name] for name in _INHERITED if name in os.environ}
        places = {"HOME": str(folder), "TMPDIR": str(folder)}
        descriptor, name = tempfile.mkstemp(prefix="strop-output-")
        output = Path(name)
        keeper = None
        try:
            keeper = await asyncio.create_subprocess_exec(
                *(sys.executable, "-I", "-S", str(_KEEPER), *program.argv),
                stdin=asyncio.subprocess.PIPE,
                stdout=asyncio.subprocess.PIPE,
                stderr=descriptor,
                cwd=program.cwd or folder,
                env={**inherited, **places, **variables, **program.env},
            )
            pid = await _read_pid(keeper, program)
        except BaseException as error:
            if keeper is not None:
                await _close(keeper)
            os.unlink(name)
            if isinstance(error, OSError):
                raise EnvironmentFaultError(
                    f"`{program.argv[0]}` cannot be started in {program.cwd or folder}: {error}."
                ) from error
            raise
        finally:
            os.close(descriptor)
        return cls(keeper, pid, output)

    @property
    def is_ended(self) -> bool:
        """Whether it has ended by itself or was stopped."""
        return self.ended.done()

    def tail(self) -> str:
        """The end of what it printed."""
        with self._output.open("rb") as file:
            file.seek(max(0, self._output.stat().st_size - _TAIL_BYTES))
            return file.read().decode("utf-8", "replace")

    async def stop(self, grace_s: float = 0.0) -> None:
        """End it, its children and theirs.

        Args:
            grace_s: Seconds that it gets to end by itself, half of them before a SIGTERM.
        """
        if grace_s:
            await asyncio.wait([self.ended], timeout=grace_s / 2)
        if grace_s and not self.is_ended and self._keeper.stdin is not None:
            self._keeper.stdin.write(b"T")
            await asyncio.wait([self.ended], timeout=grace_s / 2)
        await _close(self._keeper)
        await self.ended

    def forget(self) -> None:
        """Remove what it printed."""
        self._output.unlink(missing_ok=True)


async def _read_pid(keeper: asyncio.subprocess.Process, program: Program) -> int:
    assert keeper.stdout is not None
    word, _, number = (await keeper.stdout.readline()).decode().strip().partition(" ")
    if word == "started":
        return int(number)
    cause = os.strerror(int(number)) if word == "failed" else "its keeper ended"
    raise EnvironmentFaultError(
        f"`{program.argv[0]}` cannot be started: {cause}. Is it installed where the rollout runs?"
    )


async def _ended(keeper: asyncio.subprocess.Process) -> int | None:
    assert keeper.stdout is not None
    line = (await keeper.stdout.readline()).decode()
    await keeper.wait()
    word, _, code = line.strip().partition(" ")
    return int(code) if word == "ended" else None


async def _close(keeper: asyncio.subprocess.Process) -> None:
    assert keeper.stdin is not None
    keeper.stdin.close()
    try:
        async with asyncio.timeout(_KEEPER_LIMIT_S):
            await keeper.wait()
    except TimeoutError:
        with contextlib.suppress(ProcessLookupError):
            keeper.kill()
        await keeper.wait()
