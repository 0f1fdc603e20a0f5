"""Carry out a request: one run, or many of the same code in forks of one process."""

import os
import select
import signal
import socket
import time
from contextlib import suppress
from dataclasses import replace
from typing import Any

from strop.sandbox.wire import CASE, RESULT, pack_result
from strop.sandbox.zygote import meter, untrusted
from strop.sandbox.zygote.fork_bound import ForkBound
from strop.sandbox.zygote.supervisor import (
    Run,
    follow,
    measure,
    read_trouble,
    report,
    send,
    supervise_one,
)
from strop.sandbox.zygote.watch import Streams, Watch


def supervise(run: Run) -> None:
    """Carry out a request and report; whatever it has started is dead afterwards."""
    started_at = time.monotonic()
    cases = run.request.cases
    if cases is not None:
        # The process that forks the cases is none of theirs.
        limits = {**run.request.limits, "pid_count": run.request.limits["pid_count"] + 1}
        run.request = replace(run.request, limits=limits)
    with suppress(BrokenPipeError):
        run.child.send(untrusted.pack_task(run.request, _real_limits(run)))
    if cases is None:
        supervise_one(run, run.request.stdin, started_at)
    else:
        _supervise_cases(run, cases)


def _real_limits(run: Run) -> dict[str, float]:
    """Where the kernel counts all processes of a user, leave its limit as a last stop."""
    ground, limits = run.place.ground, dict(run.request.limits)
    if not ground.has_namespaces and not ground.switches_user:
        run.bound = ForkBound(int(limits["pid_count"]))
        limits.update(run.bound.words)
    return limits


def _supervise_cases(run: Run, cases: tuple[bytes, ...]) -> None:
    """Run the same code once for each stdin; a case that fails does not touch the others."""
    for stdin in cases:
        head, blobs = _supervise_case(run, stdin)
        if head is None:
            return
        send(run.job, pack_result(CASE, head, blobs))
    run.child.requests.close()
    meter.kill_below(run.root)
    send(run.job, pack_result(RESULT, {"status": "ok"}, []))


def _supervise_case(run: Run, stdin: bytes) -> tuple[dict[str, Any] | None, list[bytes]]:
    started_at = time.monotonic()
    stdin_r, stdin_w = os.pipe2(os.O_CLOEXEC)
    stdout_r, stdout_w = os.pipe2(os.O_CLOEXEC)
    stderr_r, stderr_w = os.pipe2(os.O_CLOEXEC)
    far = [stdin_r, stdout_w, stderr_w]
    requests, ledger = run.child.requests, meter.Ledger()
    with suppress(OSError):
        socket.send_fds(requests, [b"c"], far)
    for fd in far:
        os.close(fd)
    watch = Watch(
        run.job,
        Streams(stdin_w, stdout_r, stderr_r),
        requests.fileno(),
        run.request,
        stdin=stdin,
        started_at=started_at,
        measure=lambda: measure(run, ledger),
        send_signal=lambda _: None,
    )
    if run.place.group is not None:
        run.place.group.note()
    follow(run, watch)
    spared = frozenset([run.child.pid])
    wall_s = watch.wall_s
    if watch.ended_by is not None or len(meter.pids_below(run.root)) > 1:
        meter.kill_below(run.root, spared)
        meter.reap_orphans(spared)
    watch.close()
    for fd in (stdout_r, stderr_r):
        os.close(fd)
    if watch.ended_by == "client":
        return None, []
    head = _report_case(run, watch)
    head["wall_s"] = wall_s
    return head, [b"".join(output.kept) for output in watch.outputs.values()]


def _report_case(run: Run, watch: Watch) -> dict[str, Any]:
    """Read how the case ended from the process that forked it."""
    requests = run.child.requests
    is_ready = select.select([requests], [], [], 2.0)[0]
    told = requests.recv(untrusted.EXIT.size, socket.MSG_WAITALL) if is_ready else b""
    if len(told) < untrusted.EXIT.size:
        # Code can kill the process that forked it, to its own harm only.
        head = report(watch, signal.SIGKILL, run.box)
        trouble = read_trouble(run.child.trouble_fd)
        return {**head, "trouble": trouble} if trouble else head
    status, user_s, system_s, peak_kilobytes = untrusted.EXIT.unpack(told)
    head = report(watch, status, run.box)
    head["cpu_s"] = user_s + system_s
    head["peak_bytes"] = max(watch.peak_bytes, peak_kilobytes * 1024)
    trouble = read_trouble(run.child.trouble_fd)
    return {**head, "trouble": trouble} if trouble else head
