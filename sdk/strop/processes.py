"""Processes, which can be killed, for author code that may hang (step: reward)."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from strop.errors import RewardError
from strop.stopwatch import in_queue
from strop.trajectory import Trajectory
from strop.trajectory_json import to_json

if TYPE_CHECKING:
    from strop.threads import Threads

_SCRIPT = Path(__file__).with_name("process_worker.py")

Given = Trajectory | list[Trajectory]


class Processes:
    """At most one process a CPU; each is started when first needed and serves one call at a time.

    A call that its caller leaves, by a cancel or a time limit, ends with its process and all
    that this one started.
    """

    def __init__(self, threads: Threads) -> None:
        """Use threads to wait for replies."""
        self._threads = threads
        self._turns = asyncio.Semaphore(_cpu_count())
        self._idle: list[_Worker] = []

    async def call(self, function: Callable[..., Any], given: Given) -> Any:
        """What the function returns for a trajectory, or for the members of a group.

        Waiting for a process, and its start, are charged to no time limit.

        Raises:
            RewardError: The function raised, or its process ended.
        """
        with in_queue():
            await self._turns.acquire()
        try:
            worker = self._idle.pop() if self._idle else _Worker()
            try:
                value = await self._ask(worker, function, given)
            except BaseException:
                worker.kill()
                raise
            self._idle.append(worker)
        finally:
            self._turns.release()
        return value

    def close(self) -> None:
        """End those that have no call."""
        while self._idle:
            self._idle.pop().kill()

    async def _ask(self, worker: _Worker, function: Callable[..., Any], given: Given) -> Any:
        place = {"module": function.__module__, "name": function.__qualname__}
        with in_queue():
            await self._exchange(worker, place)
        members = given if isinstance(given, list) else [given]
        reply = await self._exchange(
            worker, {"members": [to_json(each) for each in members], "is_group": given is members}
        )
        return reply["value"]

    async def _exchange(self, worker: _Worker, request: dict[str, Any]) -> dict[str, Any]:
        # A thread that waits for a process ends with that process.
        reply = await self._threads.call_to_end(worker.ask, request)
        if "error" in reply:
            error = RewardError(reply["error"])
            error.add_note(reply["traceback"])
            raise error
        return reply


class _Worker:
    """One process in a group of its own, and its two pipes."""

    def __init__(self) -> None:
        self._child = subprocess.Popen(
            [sys.executable, "-P", str(_SCRIPT), str(os.getpid())],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            env={**os.environ, "PYTHONPATH": os.pathsep.join(path or "." for path in sys.path)},
            # Killed with all that it started; an interrupt from the terminal is for the caller.
            start_new_session=True,
        )

    def ask(self, request: dict[str, Any]) -> dict[str, Any]:
        """Send a request and wait for its reply; blocks.

        Raises:
            RewardError: The process ended instead.
        """
        assert self._child.stdin is not None
        assert self._child.stdout is not None
        line = b""
        with contextlib.suppress(BrokenPipeError):
            self._child.stdin.write(json.dumps(request).encode("ascii") + b"\n")
            self._child.stdin.flush()
            line = self._child.stdout.readline()
        if not line.endswith(b"\n"):
            raise RewardError(f"its process ended with {self._child.wait()}.")
        reply: dict[str, Any] = json.loads(line)
        return reply

    def kill(self) -> None:
        """End it with all that it started, and leave nothing behind."""
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self._child.pid, signal.SIGKILL)
        self._child.wait()
        for pipe in (self._child.stdin, self._child.stdout):
            assert pipe is not None
            with contextlib.suppress(BrokenPipeError):
                pipe.close()


def problem_of(function: Callable[..., Any]) -> str | None:
    """Why a function cannot be found by another process; None where it can."""
    name = getattr(function, "__qualname__", "")
    module = getattr(function, "__module__", None)
    if not name or module in (None, "__main__") or "<" in name:
        return "another process cannot import it. Define it at the top of a module with a name"
    return None


def _cpu_count() -> int:
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1
