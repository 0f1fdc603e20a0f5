"""Processes that serve one environment: started, watched, started again, ended together."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import socket
import sys
import time
import traceback
from collections.abc import Callable
from dataclasses import dataclass
from typing import NoReturn

from strop.environment import Environment
from strop.errors import EnvironmentLoadError, StropError
from strop.serve.http.server import bind
from strop.serve.server import LEASE_S, EnvironmentServer

_READY = b"r"
_CAUSE_BYTES = 4_096
_QUICK_S = 5.0
"""A worker that ends sooner than this did not really start."""
_QUICK_END_COUNT = 3


@dataclass(frozen=True, slots=True)
class ServePlan:
    """How to serve."""

    secret: str
    host: str = "127.0.0.1"
    port: int = 0
    """Of the first worker, the others follow; 0 takes free ones."""
    worker_count: int = 1
    lease_s: float = LEASE_S
    """Seconds after which an episode whose client is silent is closed."""
    grace_s: float = 30.0
    """What live episodes get to end by themselves, once the server is asked to end."""


@dataclass(slots=True)
class _Worker:
    port: int
    pid: int
    ready: int
    """A pipe that tells when it listens."""
    started_at: float
    quick_end_count: int = 0


class Workers:
    """The supervisor: it loads nothing itself, so that it can always start another worker.

    Args:
        load: Makes the environment; runs in each worker.
        plan: How to serve.
        on_message: Told of workers that died.

    Raises:
        OSError: An address is taken.
    """

    def __init__(
        self,
        load: Callable[[], Environment],
        plan: ServePlan,
        on_message: Callable[[str], None] = lambda _: None,
    ) -> None:
        self._on_message = on_message
        self._load = load
        self._plan = plan
        self._life = os.pipe()
        self._workers: dict[int, _Worker] = {}
        self._is_ending = False
        listeners = [
            bind(plan.host, plan.port + number if plan.port else 0)
            for number in range(plan.worker_count)
        ]
        self.ports = tuple(int(listener.getsockname()[1]) for listener in listeners)
        self._listeners = listeners

    def run(self, on_ready: Callable[[], None]) -> None:
        """Serve until SIGTERM or SIGINT; a worker that dies is started again.

        A second signal ends at once what the first let go on.

        Raises:
            EnvironmentLoadError: A worker cannot start.
        """
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, self._on_signal)
        try:
            for listener in self._listeners:
                self._fork(listener)
            for worker in tuple(self._workers.values()):
                self._await_ready(worker)
            if not self._is_ending:
                on_ready()
            self._watch()
        finally:
            self._end()
            self._reap_all()

    def _fork(self, listener: socket.socket, quick_end_count: int = 0) -> None:
        port = listener.getsockname()[1]
        ready, telling = os.pipe()
        sys.stdout.flush()
        sys.stderr.flush()
        pid = os.fork()
        if pid == 0:
            for other in self._listeners:
                if other is not listener:
                    other.close()
            os.close(self._life[1])
            os.close(ready)
            _work(self._load, self._plan, listener, self.ports, (telling, self._life[0]))
        os.close(telling)
        # Nobody but the worker listens: its death refuses connections at once.
        listener.close()
        self._workers[pid] = _Worker(port, pid, ready, time.monotonic(), quick_end_count)

    def _await_ready(self, worker: _Worker) -> None:
        said = _said(worker)
        if said == _READY or self._is_ending:
            return
        raise EnvironmentLoadError(
            said.decode()
            or f"The worker at port {worker.port} could not start the environment; what it "
            "printed says why."
        )

    def _watch(self) -> None:
        while self._workers:
            pid, status = os.waitpid(-1, 0)
            worker = self._workers.pop(pid, None)
            if worker is None or self._is_ending:
                continue
            code = os.waitstatus_to_exitcode(status)
            is_quick = time.monotonic() - worker.started_at < _QUICK_S
            quick_end_count = worker.quick_end_count + 1 if is_quick else 0
            said = b"" if worker.ready < 0 else _said(worker)
            if quick_end_count >= _QUICK_END_COUNT:
                cause = "" if said == _READY else said.decode()
                raise EnvironmentLoadError(
                    f"The worker at port {worker.port} ended {quick_end_count} times as soon as "
                    f"it was started, at last with {code}; {cause or 'what it printed says why.'}"
                )
            self._on_message(
                f"The worker at port {worker.port} ended with {code}; another takes its place."
            )
            self._fork(bind(self._plan.host, worker.port), quick_end_count)

    def _on_signal(self, *_: object) -> None:
        # Whoever asks twice does not want to wait.
        self._end(signal.SIGKILL if self._is_ending else signal.SIGTERM)

    def _end(self, number: signal.Signals = signal.SIGTERM) -> None:
        self._is_ending = True
        for pid in tuple(self._workers):
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, number)

    def _reap_all(self) -> None:
        for worker in self._workers.values():
            with contextlib.suppress(ChildProcessError):
                os.waitpid(worker.pid, 0)
        for end in self._life:
            os.close(end)


def _work(
    load: Callable[[], Environment],
    plan: ServePlan,
    listener: socket.socket,
    ports: tuple[int, ...],
    pipes: tuple[int, int],
) -> NoReturn:
    code = 1
    try:
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, signal.SIG_DFL)
        # Ctrl-C goes to the whole group; the supervisor passes on what the workers need.
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        asyncio.run(_serve(load(), plan, listener, ports, pipes))
        code = 0
    except StropError as error:
        _tell_cause(pipes[0], error)
    except BaseException:  # noqa: BLE001 - the outermost boundary of a process
        traceback.print_exc()
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        # Threads of the author's that never end must not hold the worker.
        os._exit(code)


def _tell_cause(telling: int, error: StropError) -> None:
    try:
        # Less than a pipe takes, and cut between characters.
        os.write(telling, str(error).encode()[:_CAUSE_BYTES].decode(errors="ignore").encode())
    except OSError:
        # It was ready long ago: the supervisor listens no more.
        print(f"error: {error}", file=sys.stderr)  # noqa: T201


def _said(worker: _Worker) -> bytes:
    """What a worker told of its start, to the end: that it is ready, or the cause."""
    said = b""
    while said != _READY and (piece := os.read(worker.ready, _CAUSE_BYTES)):
        said += piece
    os.close(worker.ready)
    worker.ready = -1
    return said


async def _serve(
    environment: Environment,
    plan: ServePlan,
    listener: socket.socket,
    ports: tuple[int, ...],
    pipes: tuple[int, int],
) -> None:
    telling, life = pipes
    loop = asyncio.get_running_loop()
    asked = asyncio.Event()
    orphaned = asyncio.Event()
    loop.add_signal_handler(signal.SIGTERM, asked.set)

    def on_orphaned() -> None:
        loop.remove_reader(life)
        orphaned.set()
        asked.set()

    loop.add_reader(life, on_orphaned)
    server = EnvironmentServer(environment, plan.secret, lease_s=plan.lease_s, ports=ports)
    await server.start(listener)
    os.write(telling, _READY)
    os.close(telling)
    await asked.wait()
    # Without its supervisor nobody may wait for it any more.
    await server.close(0.0 if orphaned.is_set() else plan.grace_s)
