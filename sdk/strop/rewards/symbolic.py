"""Symbolic equality in killable processes, off the event loop (step: reward).

Expressions that a model wrote may spin or eat memory. Each comparison runs in a worker that the
kernel ends when its CPU time is spent; whoever waits for a free worker spends none.
"""

from __future__ import annotations

import asyncio
import atexit
import json
import os
import select
import signal
import subprocess
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass
from pathlib import Path

from strop.errors import RewardError
from strop.stopwatch import in_queue

_SCRIPT = Path(__file__).with_name("symbolic_worker.py")
_MEMORY_LIMIT_BYTES = 2 * 1024**3
_STALL_LIMIT_S = 600.0
"""A worker that neither answers nor spends CPU, for example a stopped one, is given up."""


@dataclass(frozen=True, slots=True)
class Request:
    """One comparison, as the worker reads it."""

    answer: str
    reference: str
    cpu_limit_s: float


class WorkerDiedError(Exception):
    """A worker ended instead of answering."""

    def __init__(self, exit_code: int) -> None:
        super().__init__(f"ended with {exit_code}")
        self.exit_code = exit_code
        """As `subprocess` gives it: negative for a signal."""


async def are_equal(answer: str, reference: str, cpu_limit_s: float) -> bool:
    """Whether two expressions in LaTeX are equal as mathematics.

    Args:
        answer: What a model wrote.
        reference: What it should equal; `math-verify` reads it first.
        cpu_limit_s: Seconds of CPU that the comparison may take.

    Raises:
        RewardError: It took more time or memory than allowed, or the workers keep dying.
    """
    return await pool().are_equal(answer, reference, cpu_limit_s)


def pool() -> Pool:
    """This process's workers; a forked child gets its own."""
    with _lock:
        own = _pools.get(os.getpid())
        if own is None:
            own = _pools[os.getpid()] = Pool()
        return own


class Pool:
    """At most one worker a CPU, each behind a thread of its own, started when first needed."""

    def __init__(self, size: int | None = None) -> None:
        self._executor = ThreadPoolExecutor(size or _cpu_count(), thread_name_prefix="strop-math")
        self._thread = threading.local()
        self._workers: dict[int, Worker] = {}

    @property
    def worker_pids(self) -> list[int]:
        """Of the workers that were started and have not been dropped."""
        return list(self._workers)

    async def are_equal(self, answer: str, reference: str, cpu_limit_s: float) -> bool:
        """See the function of this name."""
        request = Request(answer, reference, cpu_limit_s)
        reply = await self._turn(request)
        problem = reply.get("problem")
        if problem is not None:
            raise RewardError(f"{_shown(answer)} cannot be compared: {problem}.")
        return bool(reply["is_equal"])

    async def _turn(self, request: Request) -> dict[str, object]:
        loop = asyncio.get_running_loop()
        has_begun = asyncio.Event()

        def ask() -> dict[str, object]:
            loop.call_soon_threadsafe(has_begun.set)
            return self._ask(request)

        asked = loop.run_in_executor(self._executor, ask)
        asked.add_done_callback(lambda _: has_begun.set())
        try:
            # Whoever waits for a worker is charged nothing.
            with in_queue():
                await has_begun.wait()
        except BaseException:
            asked.cancel()
            raise
        return await asked

    def close(self) -> None:
        """End every worker."""
        self._executor.shutdown(wait=False, cancel_futures=True)
        for worker in list(self._workers.values()):
            self._drop(worker)

    def _ask(self, request: Request) -> dict[str, object]:
        for is_last_try in (False, True):
            worker = self._own_worker()
            try:
                reply = worker.ask(request)
            except WorkerDiedError as death:
                self._drop(worker)
                if death.exit_code == -signal.SIGPROF:
                    return {"problem": f"it took more than {request.cpu_limit_s:g} s of CPU"}
                # Anybody may end a worker, the kernel first: the expression gets a second try.
                if is_last_try:
                    return {"problem": f"its worker {death} twice"}
            else:
                if "problem" in reply:
                    self._drop(worker)
                return reply
        raise AssertionError("unreachable")

    def _own_worker(self) -> Worker:
        worker: Worker | None = getattr(self._thread, "worker", None)
        if worker is None:
            worker = self._thread.worker = Worker()
            self._workers[worker.pid] = worker
        return worker

    def _drop(self, worker: Worker) -> None:
        self._workers.pop(worker.pid, None)
        self._thread.worker = None
        worker.kill()


class Worker:
    """One process that compares, and its two pipes."""

    def __init__(self) -> None:
        self._child = subprocess.Popen(
            [sys.executable, "-P", str(_SCRIPT), str(os.getpid()), str(_MEMORY_LIMIT_BYTES)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            bufsize=0,
            # Nothing secret goes in; a fixed hash seed gives sets the same order everywhere.
            env={"PYTHONPATH": os.pathsep.join(filter(None, sys.path)), "PYTHONHASHSEED": "0"},
            # An interrupt from the terminal is for the caller, who then ends the workers.
            process_group=0,
        )
        self.pid = self._child.pid

    def ask(self, request: Request) -> dict[str, object]:
        """Compare, however long the limits allow.

        Raises:
            WorkerDiedError: It ended before it answered.
        """
        assert self._child.stdin is not None
        assert self._child.stdout is not None
        try:
            _write(self._child.stdin.fileno(), json.dumps(asdict(request)).encode() + b"\n")
        except BrokenPipeError:
            raise self._died() from None
        poll = select.poll()
        poll.register(self._child.stdout.fileno(), select.POLLIN)
        if not poll.poll(_STALL_LIMIT_S * 1000):
            raise self._died()
        line = self._child.stdout.readline()
        if not line.endswith(b"\n"):
            raise self._died()
        reply: dict[str, object] = json.loads(line)
        return reply

    def kill(self) -> None:
        """End it now, and leave nothing behind."""
        self._child.kill()
        self._child.wait()
        for pipe in (self._child.stdin, self._child.stdout):
            if pipe is not None:
                pipe.close()

    def _died(self) -> WorkerDiedError:
        try:
            return WorkerDiedError(self._child.wait(timeout=1.0))
        except subprocess.TimeoutExpired:
            self._child.kill()
            return WorkerDiedError(self._child.wait())


def _write(descriptor: int, content: bytes) -> None:
    while content:
        content = content[os.write(descriptor, content) :]


def _cpu_count() -> int:
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def _shown(answer: str) -> str:
    return repr(answer if len(answer) <= 60 else answer[:60] + "…")


def _close_own() -> None:
    own = _pools.pop(os.getpid(), None)
    if own is not None:
        own.close()


_lock = threading.Lock()
_pools: dict[int, Pool] = {}
atexit.register(_close_own)
