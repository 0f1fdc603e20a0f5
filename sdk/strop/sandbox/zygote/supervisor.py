"""The trusted process beside a run: it hands over the request, watches, kills and reports."""

import os
import resource
import signal
import socket
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Any

from strop.sandbox.wire import HEADER, REQUEST, RESULT, Request, pack_result
from strop.sandbox.zygote import meter, rootfs, untrusted
from strop.sandbox.zygote.fork_bound import ForkBound
from strop.sandbox.zygote.place import Place
from strop.sandbox.zygote.seccomp import SocketPolicy
from strop.sandbox.zygote.untrusted import Child
from strop.sandbox.zygote.watch import Streams, Watch

_SIGXFSZ, _SIGXCPU = signal.SIGXFSZ, signal.SIGXCPU
_OF_A_SHELL = 128
"""Added by a shell to the signal that ended its last command."""
_REQUEST_S = 60.0
_STATUS_OF_LIMIT = {
    "wall_s": "timeout",
    "cpu_s": "timeout",
    "memory_bytes": "oom",
    "pid_count": "process_limit",
    "output_bytes": "output_limit",
    "file_bytes": "disk_full",
    "disk_bytes": "disk_full",
}


@dataclass(slots=True)
class Run:
    """One request in one place."""

    job: socket.socket
    place: Place
    child: Child
    request: Request
    sockets: SocketPolicy
    bound: ForkBound | None = None
    """Where the kernel counts others' processes, too."""

    @property
    def box(self) -> str | None:
        """Its folder, where that is a mount of its own."""
        return self.place.box if self.place.ground.has_namespaces else None

    @property
    def has_run_out(self) -> bool:
        """Whether the kernel has killed in it for want of memory."""
        return self.place.group is not None and self.place.group.has_run_out

    @property
    def root(self) -> int | None:
        """Below which process everything of this run is; None: this is its namespace's first."""
        return None if self.place.ground.has_namespaces else os.getpid()


def receive_request(job: socket.socket) -> tuple[Request, bytes] | None:
    """Read a request from a job's socket, and its frame; None when the client has gone away."""
    job.settimeout(_REQUEST_S)
    try:
        head = _receive_exactly(job, HEADER.size)
        tag, size = HEADER.unpack(head)
        if tag != REQUEST:
            return None
        payload = _receive_exactly(job, size)
        return Request.unpack(payload), head + payload
    except (EOFError, OSError):
        return None
    finally:
        job.settimeout(None)


def _receive_exactly(job: socket.socket, size: int) -> bytes:
    buffer = bytearray(size)
    view = memoryview(buffer)
    while view:
        count = job.recv_into(view)
        if count == 0:
            raise EOFError
        view = view[count:]
    return bytes(buffer)


def supervise_one(run: Run, stdin: bytes, started_at: float) -> None:
    """Follow the one run that was asked for, and report."""
    child, ledger = run.child, meter.Ledger()
    watch = Watch(
        run.job,
        Streams(child.stdin_fd, child.stdout_fd, child.stderr_fd),
        child.pidfd,
        run.request,
        stdin=stdin,
        started_at=started_at,
        measure=lambda: measure(run, ledger),
        send_signal=lambda number: _signal_group(child.pid, number),
    )
    child.stdin_fd = -1
    follow(run, watch)
    wall_s = watch.wall_s
    status, used = _reap(run, watch)
    if watch.ended_by == "client":
        return
    head = report(watch, status, run.box)
    head["wall_s"] = wall_s
    head["cpu_s"] = max(head["cpu_s"], used.ru_utime + used.ru_stime)
    head["peak_bytes"] = max(watch.peak_bytes, used.ru_maxrss * 1024)
    trouble = read_trouble(child.trouble_fd)
    if trouble:
        head["trouble"] = trouble
    blobs = [b"".join(output.kept) for output in watch.outputs.values()]
    if run.request.collect and not trouble:
        blobs.append(_collect(run))
    send(run.job, pack_result(RESULT, head, blobs))


def follow(run: Run, watch: Watch) -> None:
    """Watch a run to its end, or until a limit is passed."""
    with meter.burying_orphans(frozenset([run.child.pid])):
        watch.run()
    if watch.ended_by is None and run.has_run_out:
        watch.ended_by = "memory_bytes"


def _reap(run: Run, watch: Watch) -> tuple[int, resource.struct_rusage]:
    """Wait for the run's first process, and kill all that is left of the run."""
    if watch.ended_by is not None:
        meter.kill_below(run.root)
    _, status, used = os.wait4(run.child.pid, 0)
    if meter.pids_below(run.root):
        meter.kill_below(run.root)
    meter.reap_orphans(frozenset())
    return status, used


def report(watch: Watch, status: int, box: str | int | None) -> dict[str, Any]:
    """Put how a run ended into words.

    Args:
        watch: What was seen of it.
        status: As `os.wait` gives it.
        box: The sandbox's folder, by path or descriptor, where it is a mount that may be full.
    """
    stdout, stderr = watch.outputs.values()
    code = os.waitstatus_to_exitcode(status)
    limit = watch.ended_by or _limit_behind(code, stderr.kept, box)
    if limit is not None:
        word = _STATUS_OF_LIMIT[limit]
    else:
        word = "ok" if code == 0 else "nonzero" if code > 0 else "signal"
    totals = resource.getrusage(resource.RUSAGE_CHILDREN)
    return {
        "status": word,
        "limit": limit,
        "exit_code": code if code >= 0 else None,
        "signal": -code if code < 0 else None,
        "stdout_bytes": stdout.count,
        "stderr_bytes": stderr.count,
        "wall_s": watch.wall_s,
        "cpu_s": totals.ru_utime + totals.ru_stime,
        "peak_bytes": watch.peak_bytes,
    }


def _limit_behind(code: int, stderr: list[bytes], box: str | int | None) -> str | None:
    """Tell which limit the run itself ran into, where its end shows that."""
    if code == 0:
        return None
    if code in (-_SIGXCPU, _OF_A_SHELL + _SIGXCPU):
        return "cpu_s"
    if code in (-_SIGXFSZ, _OF_A_SHELL + _SIGXFSZ):
        return "file_bytes"
    last_line = b"".join(stderr[-2:]).rstrip().rpartition(b"\n")[2]
    if last_line.startswith(b"MemoryError"):
        return "memory_bytes"
    if box is not None and rootfs.is_box_full(box):
        return "disk_bytes"
    return None


def measure(run: Run, ledger: meter.Ledger) -> meter.Usage:
    """Add up what all of a run use; once there are too many of them, only those few are looked at.

    Among hundreds of busy processes this one gets too little of the processor to look at all, and
    memory that is being copied by forks takes long to add up exactly.
    """
    limits = run.request.limits
    most = int(limits["pid_count"])
    pids = meter.pids_below(run.root, most=most)
    is_crowd = len(pids) > most
    dead = resource.getrusage(resource.RUSAGE_CHILDREN)
    used = meter.measure(
        pids,
        meter.UNBOUNDED if is_crowd else int(limits["memory_bytes"]),
        # Of a crowd not all are seen, which would pass for dead.
        None if is_crowd else ledger,
        dead.ru_utime + dead.ru_stime,
    )
    if run.bound is not None:
        run.bound.follow(pids, used.thread_count)
    if run.has_run_out:
        return replace(used, memory_bytes=int(limits["memory_bytes"]) + 1)
    return used


def _signal_group(pid: int, number: int) -> None:
    with suppress(OSError):
        try:
            os.killpg(pid, number)
        except ProcessLookupError:
            # It has not come to lead a group yet.
            os.kill(pid, number)


def read_trouble(fd: int) -> str:
    """Give why a run could not be prepared; empty when it could."""
    os.set_blocking(fd, False)
    with suppress(BlockingIOError):
        return os.read(fd, 4096).decode(errors="replace")
    return ""


def _collect(run: Run) -> bytes:
    """Read the wanted files through a new confined process, now that all others are dead."""
    child = untrusted.spawn(run.place, run.sockets)
    largest = run.request.collect_bytes
    argv = ("collect", str(largest), *run.request.collect)
    limits = {**run.request.limits, "address_space_bytes": 0, "wall_s": 10.0, "cpu_s": 10.0}
    child.send(untrusted.pack_task(Request("files", limits, argv=argv), limits))
    parts = []
    while chunk := os.read(child.stdout_fd, 1 << 16):
        parts.append(chunk)
    os.waitpid(child.pid, 0)
    child.close()
    return b"".join(parts)[HEADER.size :]


def send(job: socket.socket, frame: bytes) -> None:
    """Report to the client; one that has gone away, or reads nothing for long, misses it."""
    job.settimeout(_REQUEST_S)
    with suppress(OSError):
        job.sendall(frame)
