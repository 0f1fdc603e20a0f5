"""A sandbox's first process: it waits, prepared, for one run or for a room of runs."""

import json
import os
import resource
import select
import signal
import socket
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Any, NoReturn

from strop.sandbox.wire import HEADER, RESULT, Request, pack_result
from strop.sandbox.zygote import cases, groups, linux, meter, place, rootfs, supervisor, untrusted
from strop.sandbox.zygote.place import Place
from strop.sandbox.zygote.seccomp import SocketPolicy

RUN, ROOM, READY = b"run", b"room", b"ready"
_LARGEST_MESSAGE_BYTES = 1 << 16
_TICK_MS = 50
DEFAULT_BOX = (64 << 20, 16384)


def keep(fds: tuple[int, ...], home: Place) -> NoReturn:
    """With namespaces: be the first process of a call that asks for more than one plain run.

    Args:
        fds: The caller's socket, and a file with the call; for a run its request follows there.
            Where there are control groups, also what `groups.Groups.lend` gives.
        home: Where it takes place.
    """
    try:
        group = groups.of_memory(fds[3:])
        home = replace(home, group=group)
        linux.prctl(linux.PR_SET_PDEATHSIG, signal.SIGKILL)
        linux.unshare(linux.NEWNS)
        job = socket.socket(fileno=fds[0])
        with open(fds[1], "rb") as file:
            file.seek(0)
            content = file.read()
        if content.startswith(ROOM):
            spec = json.loads(content[len(ROOM) :])
            _fit(group, spec["limits"])
            place.prepare_box(home, _bounds_of_box(spec["limits"]))
            Room(job, home, spec).serve()
        else:
            request = Request.unpack(content[len(RUN) + HEADER.size :])
            _fit(group, request.limits)
            place.prepare_box(home, _bounds_of_box(request.limits))
            child = untrusted.spawn(home, "none")
            cases.supervise(supervisor.Run(job, home, child, request, "none"))
    finally:
        os._exit(0)


def serve(calls: socket.socket, notes_fd: int, number: int, home: Place) -> NoReturn:
    """Without namespaces: wait for one call, note that it was taken, and serve it to its end."""
    try:
        linux.prctl(linux.PR_SET_PDEATHSIG, signal.SIGKILL)
        meter.become_reaper()
        place.prepare_box(home, DEFAULT_BOX)
        child = untrusted.spawn(home, "none")
        linux.prctl(linux.PR_SET_DUMPABLE, 0)
        message, fds, _, _ = socket.recv_fds(calls, _LARGEST_MESSAGE_BYTES, 1)
        if message and fds:
            os.write(notes_fd, number.to_bytes(4, "little"))
            calls.close()
            os.close(notes_fd)
            _answer(message, socket.socket(fileno=fds[0]), home, child)
    finally:
        _leave_nothing(home)
        os._exit(0)


def _leave_nothing(home: Place) -> None:
    meter.kill_below(os.getpid())
    place.remove(home.box)


def _answer(message: bytes, sock: socket.socket, home: Place, child: untrusted.Child) -> None:
    word, _, rest = message.partition(b" ")
    if word == ROOM:
        os.kill(child.pid, signal.SIGKILL)
        os.waitpid(child.pid, 0)
        child.close()
        Room(sock, home, json.loads(rest)).serve()
        return
    received = supervisor.receive_request(sock)
    if received is not None:
        cases.supervise(supervisor.Run(sock, home, child, received[0], "none"))


def _fit(group: groups.Group | None, limits: Any) -> None:
    if group is not None:
        group.fit(int(limits["memory_bytes"]), int(limits["disk_bytes"]), int(limits["pid_count"]))


def _bounds_of_box(limits: Any) -> tuple[int, int]:
    return int(limits["disk_bytes"]), int(limits["inode_count"])


@dataclass(slots=True)
class _Job:
    sock: socket.socket
    was_too_large: bool = False


class Room:
    """A sandbox that lives until its client leaves; each run in it has its own processes."""

    def __init__(self, control: socket.socket, home: Place, spec: dict[str, Any]) -> None:
        self._control, self._home = control, home
        self._limits = spec["limits"]
        self._jobs: dict[int, _Job] = {}
        self._has_own_network = spec["network"] == "loopback" and home.ground.has_namespaces
        self._sockets: SocketPolicy = "local" if self._has_own_network else "none"
        self._namespace = os.open("/proc/self/ns/pid", os.O_RDONLY | os.O_CLOEXEC)
        self._wakes, wake_w = os.pipe2(os.O_CLOEXEC | os.O_NONBLOCK)
        os.set_blocking(self._wakes, False)
        signal.signal(signal.SIGCHLD, lambda *_: None)
        signal.set_wakeup_fd(wake_w, warn_on_full_buffer=False)

    def serve(self) -> None:
        """Take in jobs until the client goes away."""
        if self._has_own_network:
            linux.unshare(linux.NEWNET | linux.NEWIPC)
            linux.raise_loopback()
        _prepare_for_rooms(self._home)
        self._control.send(READY)
        poll = select.poll()
        poll.register(self._control, select.POLLIN | select.POLLRDHUP)
        poll.register(self._wakes, select.POLLIN)
        while True:
            events = dict(poll.poll(_TICK_MS if self._jobs else None))
            if self._wakes in events:
                with suppress(BlockingIOError):
                    os.read(self._wakes, 4096)
            self._reap()
            if self._control.fileno() in events and not self._take_in():
                return
            self._keep_total()

    def _take_in(self) -> bool:
        message, fds, _, _ = socket.recv_fds(self._control, 16, 1)
        if not message:
            return False
        for fd in fds:
            self._start(socket.socket(fileno=fd))
        return True

    def _start(self, sock: socket.socket) -> None:
        if not self._home.ground.has_namespaces:
            pid = linux.fork()
        else:
            linux.unshare(linux.NEWPID)
            pid = linux.fork()
        if pid == 0:
            self._become_job(sock)
        if self._home.ground.has_namespaces:
            linux.setns(self._namespace, linux.NEWPID)
        self._jobs[pid] = _Job(sock)

    def _become_job(self, sock: socket.socket) -> NoReturn:
        try:
            signal.set_wakeup_fd(-1)
            signal.signal(signal.SIGCHLD, signal.SIG_DFL)
            self._control.close()
            for job in self._jobs.values():
                job.sock.close()
            home = self._home
            linux.prctl(linux.PR_SET_PDEATHSIG, signal.SIGKILL)
            if home.ground.has_namespaces:
                linux.unshare(linux.NEWNS)
                rootfs.mount_proc()
            else:
                meter.become_reaper()
            received = supervisor.receive_request(sock)
            if received is not None:
                if home.group is not None:
                    memory_bytes = int(received[0].limits["memory_bytes"])
                    home.group.widen(memory_bytes, int(self._limits["disk_bytes"]))
                child = untrusted.spawn(home, self._sockets)
                run = supervisor.Run(sock, home, child, received[0], self._sockets)
                cases.supervise(run)
        finally:
            if not self._home.ground.has_namespaces:
                meter.kill_below(os.getpid())
            os._exit(0)

    def _reap(self) -> None:
        while True:
            try:
                pid, _ = os.waitpid(-1, os.WNOHANG)
            except ChildProcessError:
                return
            if pid == 0:
                return
            job = self._jobs.pop(pid, None)
            if job is None:
                continue
            if job.was_too_large:
                _report_too_large(job.sock)
            job.sock.close()

    def _keep_total(self) -> None:
        """End every job when all together use more memory than the sandbox may."""
        if len(self._jobs) < 2:
            return
        root = None if self._home.ground.has_namespaces else os.getpid()
        limit = int(self._limits["memory_bytes"])
        if meter.measure(meter.pids_below(root), limit).memory_bytes <= limit:
            return
        for pid, job in self._jobs.items():
            job.was_too_large = True
            os.kill(pid, signal.SIGKILL)


def _prepare_for_rooms(home: Place) -> None:
    if home.ground.has_base_folder:
        rootfs.mount_work(home.uid, home.gid, owns_all=home.ground.switches_user)


def _report_too_large(sock: socket.socket) -> None:
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    head = {
        "status": "oom",
        "limit": "memory_bytes",
        "exit_code": None,
        "signal": int(signal.SIGKILL),
        "stdout_bytes": 0,
        "stderr_bytes": 0,
        "wall_s": 0.0,
        "cpu_s": used.ru_utime + used.ru_stime,
        "peak_bytes": 0,
    }
    with suppress(OSError):
        sock.send(pack_result(RESULT, head, [b"", b""]))
