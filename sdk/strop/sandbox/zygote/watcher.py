"""The first process of a zygote's namespaces: it joins calls with prepared sandboxes and watches.

It lives as long as the zygote and sees the requests of all runs, which is why nothing that is not
trusted is ever forked from it: code runs in forks of the zygote, which sees no request.
"""

import errno
import os
import resource
import select
import signal
import socket
import threading
import time
from contextlib import suppress
from typing import NoReturn

from strop.sandbox.wire import RESULT, Request, pack_result
from strop.sandbox.zygote import linux, meter, nursery, supervisor, untrusted
from strop.sandbox.zygote.groups import GroupError, Groups
from strop.sandbox.zygote.place import Ground
from strop.sandbox.zygote.stock import Prepared, Stock
from strop.sandbox.zygote.watch import Streams, Watch
from strop.sandbox.zygote.worker import DEFAULT_BOX, ROOM, RUN

_IDLE_COUNT = 64
"""Threads that wait for calls; there are more while more runs go on."""
_LARGEST_MESSAGE_BYTES = 1 << 16
_KILLED = int(signal.SIGKILL)
_TOO_MANY = "Raise `ulimit -Hn`, or choose a smaller pool or concurrency."


def serve(
    calls: socket.socket, alive_fd: int, ground: Ground, size: int, groups: Groups
) -> NoReturn:
    """Answer calls until the client, the stub or the zygote goes away; then all in here ends."""
    near, far = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    zygote = os.fork()
    if zygote == 0:
        try:
            near.close()
            calls.close()
            os.close(alive_fd)
            nursery.serve(far, ground)
        except BaseException as error:  # noqa: BLE001 - the only way to tell is stderr
            os.write(2, f"sandbox zygote: {error!r}\n".encode())
        finally:
            os._exit(1)
    far.close()
    zygote_end = os.pidfd_open(zygote)
    linux.prctl(linux.PR_SET_DUMPABLE, 0)
    linux.keep_one_heap()
    _raise_descriptor_limit()
    stock = Stock(near, calls, ground, size, groups)
    stock.fill()
    crew = _Crew(calls, stock)
    for _ in range(_IDLE_COUNT):
        crew.add_one()
    select.select([alive_fd, zygote_end], [], [])
    os._exit(0)


def _raise_descriptor_limit() -> None:
    """Allow this process all that it may have; runs are forks of the zygote, and set their own."""
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))


class _Crew:
    """Threads that each take calls themselves, so that none is handed from thread to thread."""

    def __init__(self, calls: socket.socket, stock: Stock) -> None:
        self._calls, self._stock = calls, stock
        self._lock = threading.Lock()
        self._idle_count = 0

    def add_one(self) -> None:
        """Start one more; where the kernel allows none, calls wait for those that there are."""
        self._count(1)
        try:
            threading.Thread(target=self._take_calls, daemon=True).start()
        except RuntimeError:
            self._count(-1)

    def _count(self, change: int) -> int:
        with self._lock:
            self._idle_count += change
            return self._idle_count

    def _take_calls(self) -> None:
        while True:
            message, fds, _, _ = socket.recv_fds(self._calls, _LARGEST_MESSAGE_BYTES, 1)
            if not message:
                os._exit(0)
            if self._count(-1) == 0:
                self.add_one()
            try:
                self._answer(message, fds)
            except BaseException as error:  # noqa: BLE001 - one run's trouble must not end others
                os.write(2, f"sandbox watcher: {error!r}\n".encode())
            if self._count(1) > _IDLE_COUNT:
                self._count(-1)
                return

    def _answer(self, message: bytes, fds: list[int]) -> None:
        if not fds:
            raise OSError(errno.EMFILE, _TOO_MANY)
        with socket.socket(fileno=fds[0]) as job:
            _answer_or_tell(message, job, self._stock)


def _answer_or_tell(message: bytes, job: socket.socket, stock: Stock) -> None:
    try:
        _answer(message, job, stock)
    except GroupError as error:
        if not message.startswith(ROOM):
            supervisor.send(job, pack_result(RESULT, {"trouble": str(error)}, []))
        raise
    except OSError as error:
        if error.errno in (errno.EMFILE, errno.ENFILE):
            supervisor.send(job, pack_result(RESULT, {"trouble": f"{error}. {_TOO_MANY}"}, []))
        raise


def _answer(message: bytes, job: socket.socket, stock: Stock) -> None:
    if message.startswith(ROOM):
        stock.order_keeper(message, job)
        return
    received = supervisor.receive_request(job)
    if received is None:
        return
    request, frame = received
    if request.cases is not None or request.collect or request.is_streaming:
        stock.order_keeper(RUN + frame, job)
        return
    prepared = stock.take()
    try:
        _watch(job, prepared, request)
    finally:
        stock.end(prepared)
        stock.fill()


def _watch(job: socket.socket, prepared: Prepared, request: Request) -> None:
    box = int(request.limits["disk_bytes"]), int(request.limits["inode_count"])
    if box != DEFAULT_BOX:
        prepared.fit_box(*box)
    if prepared.group is not None:
        limits = request.limits
        prepared.group.fit(int(limits["memory_bytes"]), box[0], int(limits["pid_count"]))
    started_at = time.monotonic()
    with suppress(OSError):
        prepared.requests.sendall(untrusted.pack_task(request, request.limits))
    limit_bytes, ledger = int(request.limits["memory_bytes"]), meter.Ledger()
    watch = Watch(
        job,
        Streams(prepared.stdin_fd, prepared.stdout_fd, prepared.stderr_fd),
        prepared.pidfd,
        request,
        stdin=request.stdin,
        started_at=started_at,
        measure=lambda: prepared.measure(limit_bytes, ledger),
        send_signal=lambda _: None,
    )
    prepared.stdin_fd = -1
    try:
        watch.run()
    finally:
        watch.close()
    wall_s = watch.wall_s
    if watch.ended_by == "client":
        return
    _report(job, prepared, watch, wall_s)


def _report(job: socket.socket, prepared: Prepared, watch: Watch, wall_s: float) -> None:
    """Kill what is left of the run, then tell: a client may take long to read."""
    status, cpu_s, peak_bytes = _KILLED, watch.cpu_s, watch.peak_bytes
    if watch.ended_by is not None:
        prepared.kill()
    else:
        status, used = prepared.reap()
        if status == _KILLED and prepared.has_lost_first:
            # Not the code's doing: the socket closes without a word, which is a fault of ours.
            return
        if prepared.has_run_out:
            watch.ended_by = "memory_bytes"
        prepared.kill()
        cpu_s = used.ru_utime + used.ru_stime
        peak_bytes = max(peak_bytes, used.ru_maxrss * 1024)
    head = supervisor.report(watch, status, prepared.box_fd if status else None)
    head.update(wall_s=wall_s, cpu_s=cpu_s, peak_bytes=peak_bytes)
    if trouble := supervisor.read_trouble(prepared.trouble_fd):
        head["trouble"] = trouble
    blobs = [b"".join(output.kept) for output in watch.outputs.values()]
    supervisor.send(job, pack_result(RESULT, head, blobs))
