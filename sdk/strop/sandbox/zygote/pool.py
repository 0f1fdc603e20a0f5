"""Sandboxes that are ready before they are needed, in tiers without namespaces."""

import json
import os
import select
import signal
import socket
from contextlib import suppress
from typing import NoReturn

from strop.sandbox.zygote import linux, meter, place, worker
from strop.sandbox.zygote.place import Ground

_MOST_FAILURES = 5
_SWEEP_MS = 100


class Pool:
    """Keeps a number of prepared workers, each for one use.

    Calls go straight to a worker, so that nothing of a request ever enters this process.
    """

    def __init__(self, calls: socket.socket, alive_fd: int, ground: Ground, size: int) -> None:
        self._calls, self._alive_fd, self._ground, self._size = calls, alive_fd, ground, size
        self._idle: dict[int, int] = {}
        self._busy: dict[int, int] = {}
        self._slot = 0
        self._failure_count = 0
        self._notes, self._note_w = os.pipe2(os.O_CLOEXEC)
        os.set_blocking(self._notes, False)
        self._pidfds: dict[int, int] = {}
        self._poll = select.poll()

    def serve(self) -> NoReturn:
        """Refill and reap until the client or the stub goes away."""
        self._poll.register(self._notes, select.POLLIN)
        self._poll.register(self._alive_fd, select.POLLIN)
        self._poll.register(self._calls, select.POLLRDHUP)
        signal.signal(signal.SIGTERM, lambda *_: self._leave())
        while True:
            while len(self._idle) < self._size:
                self._fork_worker()
            # Orphans end without a descriptor's word.
            events = dict(self._poll.poll(_SWEEP_MS))
            if self._alive_fd in events or self._calls.fileno() in events:
                self._leave()
            self._note_taken()
            self._reap()

    def _fork_worker(self) -> None:
        self._slot += 1
        pid = linux.fork()
        if pid == 0:
            try:
                self._become_worker()
            except BaseException as error:  # noqa: BLE001 - the only way to tell is stderr
                os.write(2, f"sandbox worker: {error!r}\n".encode())
            finally:
                os._exit(1)
        self._idle[self._slot] = pid
        self._follow(pid)

    def _follow(self, pid: int) -> None:
        self._pidfds[pid] = os.pidfd_open(pid)
        self._poll.register(self._pidfds[pid], select.POLLIN)

    def _become_worker(self) -> NoReturn:
        signal.signal(signal.SIGTERM, signal.SIG_DFL)
        for fd in (self._notes, *self._pidfds.values()):
            os.close(fd)
        worker.serve(self._calls, self._note_w, self._slot, self._ground.place(self._slot))

    def _note_taken(self) -> None:
        try:
            notes = os.read(self._notes, 4096)
        except BlockingIOError:
            return
        self._failure_count = 0
        for start in range(0, len(notes), 4):
            slot = int.from_bytes(notes[start : start + 4], "little")
            pid = self._idle.pop(slot, None)
            if pid is not None:
                self._busy[pid] = slot

    def _reap(self) -> None:
        while True:
            try:
                pid, _ = os.waitpid(-1, os.WNOHANG)
            except ChildProcessError:
                return
            if pid == 0:
                return
            self._note_taken()
            pidfd = self._pidfds.pop(pid, None)
            if pidfd is not None:
                self._poll.unregister(pidfd)
                os.close(pidfd)
            slot = self._busy.pop(pid, None)
            for unused in [number for number, idle in self._idle.items() if idle == pid]:
                del self._idle[unused]
                self._count_failure()
            self._end_orphans()
            place.remove(self._ground.place(slot or 0).box)

    def _count_failure(self) -> None:
        """Give up when workers die before anybody has used them."""
        self._failure_count += 1
        if self._failure_count < _MOST_FAILURES:
            return
        text = f"{self._failure_count} prepared sandboxes died before their use"
        with suppress(OSError):
            self._calls.send(json.dumps({"error": text, "errno": None}).encode())
        os._exit(1)

    def _end_orphans(self) -> None:
        """End what a worker that was killed has left behind."""
        ours = {*self._idle.values(), *self._busy}
        me = os.getpid()

        def orphans() -> list[int]:
            tops = [pid for pid in meter.children(me) if pid not in ours]
            return [pid for top in tops for pid in (top, *meter.pids_below(top))]

        meter.kill_listed(orphans)

    def _leave(self) -> NoReturn:
        """Leave, and end all that is left."""
        meter.kill_below(os.getpid())
        place.remove(self._ground.scratch)
        os._exit(0)
