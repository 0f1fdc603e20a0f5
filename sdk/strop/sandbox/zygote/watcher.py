"""One process beside the zygote that watches plain runs, so that each need not have its own.

It lives as long as the zygote and sees the requests of all runs, which is why nothing that is not
trusted is ever forked from it: code runs in processes that were prepared before, and elsewhere.
"""

import os
import select
import signal
import socket
import threading
import time
from contextlib import suppress
from dataclasses import dataclass
from typing import NoReturn

from strop.sandbox.wire import RESULT, Request, pack_result
from strop.sandbox.zygote import linux, meter, supervisor, untrusted
from strop.sandbox.zygote.watch import Streams, Watch
from strop.sandbox.zygote.worker import DEFAULT_BOX, ROOM, RUN

_MOST_AT_ONCE = 64
_LARGEST_MESSAGE_BYTES = 1 << 16
_NUMBER_BYTES = 4
_FD_COUNT = 7


@dataclass(slots=True)
class Prepared:
    """A sandbox that waits: its first process, and the code's ends of everything."""

    number: int
    control: socket.socket
    """To the first process, which tells here how the code ended."""
    pidfd: int
    """Of the first process; when it dies, all in its namespace dies."""
    stdin_fd: int
    stdout_fd: int
    stderr_fd: int
    trouble_fd: int
    requests: socket.socket

    @classmethod
    def take(cls, ready: socket.socket) -> "Prepared | None":
        """Take the next; None when the zygote has gone away."""
        while True:
            message, fds, _, _ = socket.recv_fds(ready, _NUMBER_BYTES, _FD_COUNT)
            if not message:
                return None
            number = int.from_bytes(message, "little")
            control, pidfd, stdin, stdout, stderr, trouble, requests = fds
            found = cls(
                number,
                socket.socket(fileno=control),
                pidfd,
                stdin,
                stdout,
                stderr,
                trouble,
                socket.socket(fileno=requests),
            )
            if found.is_alive:
                return found
            found.end()

    @property
    def is_alive(self) -> bool:
        """Whether its first process still lives."""
        return not select.select([self.pidfd], [], [], 0)[0]

    @property
    def pid(self) -> int:
        """The first process's number, as this process sees it."""
        with open(f"/proc/self/fdinfo/{self.pidfd}") as file:
            return next(int(line.split()[1]) for line in file if line.startswith("Pid:"))

    def measure(self, limit_bytes: int) -> meter.Usage:
        """Add up what all in it use."""
        return meter.measure(meter.pids_below(self.pid), limit_bytes)

    def hand_over(self, message: bytes, *more: int) -> None:
        """Leave a call to the first process, with all that belongs to it."""
        own = (self.stdin_fd, self.stdout_fd, self.stderr_fd, self.trouble_fd)
        fds = [*more, *own, self.requests.fileno()]
        with suppress(OSError):
            socket.send_fds(self.control, [message], fds)
        self.close()

    def end(self) -> None:
        """Kill all in it."""
        with suppress(OSError):
            signal.pidfd_send_signal(self.pidfd, signal.SIGKILL)
        self.close()

    def close(self) -> None:
        """Close this side's descriptors; the sandbox lives on."""
        fds = (self.pidfd, self.stdin_fd, self.stdout_fd, self.stderr_fd, self.trouble_fd)
        for fd in fds:
            if fd >= 0:
                os.close(fd)
        self.control.close()
        self.requests.close()


def serve(calls: socket.socket, ready: socket.socket, notes_fd: int) -> NoReturn:
    """Join calls with prepared sandboxes until the client or the zygote goes away."""
    linux.prctl(linux.PR_SET_PDEATHSIG, signal.SIGKILL)
    linux.prctl(linux.PR_SET_DUMPABLE, 0)
    # Each takes calls itself, so that none is handed from thread to thread.
    for _ in range(_MOST_AT_ONCE - 1):
        threading.Thread(target=_take_calls, args=(calls, ready, notes_fd), daemon=True).start()
    _take_calls(calls, ready, notes_fd)


def _take_calls(calls: socket.socket, ready: socket.socket, notes_fd: int) -> NoReturn:
    while True:
        message, fds, _, _ = socket.recv_fds(calls, _LARGEST_MESSAGE_BYTES, 1)
        prepared = Prepared.take(ready) if message else None
        if prepared is None:
            os._exit(0)
        os.write(notes_fd, prepared.number.to_bytes(_NUMBER_BYTES, "little"))
        try:
            _answer(message, socket.socket(fileno=fds[0]), prepared)
        except BaseException as error:  # noqa: BLE001 - one run's trouble must not end others
            os.write(2, f"sandbox watcher: {error!r}\n".encode())


def _answer(message: bytes, job: socket.socket, prepared: Prepared) -> None:
    with job:
        if message.startswith(ROOM):
            prepared.hand_over(message, job.fileno())
            return
        received = supervisor.receive_request(job)
        if received is None:
            prepared.end()
        elif _is_plain(received[0]):
            try:
                _watch(job, prepared, *received)
            finally:
                prepared.end()
        else:
            held = os.memfd_create("request", os.MFD_CLOEXEC)
            with open(held, "wb") as file:
                file.write(received[1])
                file.flush()
                prepared.hand_over(RUN, job.fileno(), held)


def _is_plain(request: Request) -> bool:
    """Whether nothing of it needs the sandbox's own first process."""
    box = (int(request.limits["disk_bytes"]), int(request.limits["inode_count"]))
    is_single = request.cases is None and not request.collect and not request.is_streaming
    return is_single and box == DEFAULT_BOX


def _watch(job: socket.socket, prepared: Prepared, request: Request, frame: bytes) -> None:
    started_at = time.monotonic()
    with suppress(OSError):
        prepared.requests.sendall(frame)
    limit_bytes = int(request.limits["memory_bytes"])
    watch = Watch(
        job,
        Streams(prepared.stdin_fd, prepared.stdout_fd, prepared.stderr_fd),
        prepared.control.fileno(),
        request,
        stdin=request.stdin,
        started_at=started_at,
        measure=lambda: prepared.measure(limit_bytes),
        send_signal=lambda _: None,
    )
    prepared.stdin_fd = -1
    watch.run()
    wall_s = watch.wall_s
    watch.close()
    status, cpu_s, peak_bytes = int(signal.SIGKILL), watch.cpu_s, watch.peak_bytes
    if watch.ended_by is None:
        told = prepared.control.recv(untrusted.EXIT.size)
        if len(told) < untrusted.EXIT.size:
            return
        status, user_s, system_s, peak_kilobytes = untrusted.EXIT.unpack(told)
        cpu_s, peak_bytes = user_s + system_s, max(peak_bytes, peak_kilobytes * 1024)
    if watch.ended_by == "client":
        return
    box = os.path.join(f"/proc/{prepared.pid}/root", "box") if status else None
    head = supervisor.report(watch, status, box)
    head.update(wall_s=wall_s, cpu_s=cpu_s, peak_bytes=peak_bytes)
    if trouble := supervisor.read_trouble(prepared.trouble_fd):
        head["trouble"] = trouble
    blobs = [b"".join(output.kept) for output in watch.outputs.values()]
    supervisor.send(job, pack_result(RESULT, head, blobs))
