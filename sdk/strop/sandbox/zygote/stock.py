"""Prepared sandboxes for one run each, seen from the process that watches them."""

import json
import os
import resource
import signal
import socket
import threading
from contextlib import suppress
from dataclasses import dataclass, replace

from strop.sandbox.zygote import meter, nursery, rootfs
from strop.sandbox.zygote.groups import Group, Groups
from strop.sandbox.zygote.place import Ground
from strop.sandbox.zygote.worker import DEFAULT_BOX

_MOST_FAILURES = 5
_EXITING = 0x4
"""Among the flags of a process: it is on its way out."""


@dataclass(slots=True)
class Prepared:
    """A sandbox that waits for its run, and this side's ends of everything."""

    stdin_fd: int
    stdout_fd: int
    stderr_fd: int
    trouble_fd: int
    requests: socket.socket
    box_fd: int
    group: Group | None = None
    first: int = -1
    """The namespace's first process; when it dies, all in the namespace dies."""
    pid: int = -1
    """The process that code runs in: a child of this process, for whoever forked it."""
    pidfd: int = -1

    def has_started(self, first: int, pid: int) -> bool:
        """Take note of its processes; False when they are dead already or never were."""
        self.first = first
        if pid < 0:
            return False
        # The number first: whatever happens next, it is to be buried.
        self.pid = pid
        self.pidfd = os.pidfd_open(pid)
        if os.waitpid(pid, os.WNOHANG)[0] == 0:
            return True
        self.pid = -1
        return False

    @property
    def has_lost_first(self) -> bool:
        """Whether its first process has ended or is about to, before it was told to."""
        try:
            with open(f"/proc/{self.first}/stat", "rb") as file:
                fields = file.read().rpartition(b")")[2].split()
        except OSError:
            return True
        return fields[0] in (b"Z", b"X") or bool(int(fields[6]) & _EXITING)

    def fit_box(self, size_bytes: int, inode_count: int) -> None:
        """Change how much its folder holds."""
        rootfs.fit_box(self.box_fd, size_bytes, inode_count)

    @property
    def has_run_out(self) -> bool:
        """Whether the kernel has killed in it for want of memory."""
        return self.group is not None and self.group.has_run_out

    def measure(self, limit_bytes: int, ledger: meter.Ledger) -> meter.Usage:
        """Add up what all in it use."""
        pids = [self.pid, *meter.pids_below(self.pid), *meter.pids_below(self.first)]
        # An orphan that changes its parent meanwhile is found twice.
        used = meter.measure(list(dict.fromkeys(pids)), limit_bytes, ledger)
        return replace(used, memory_bytes=limit_bytes + 1) if self.has_run_out else used

    def reap(self) -> tuple[int, resource.struct_rusage]:
        """Wait for the process that code runs in; how it ended, and what it used."""
        _, status, used = os.wait4(self.pid, 0)
        self.pid = -1
        return status, used

    def kill(self) -> None:
        """Kill all in it."""
        if self.first > 0:
            os.kill(self.first, signal.SIGKILL)

    def end(self) -> None:
        """Kill all in it, and wait until it is gone."""
        if self.first > 0:
            self.kill()
            if self.pid > 0:
                # The first process waits for all others, and this one is not its to bury.
                os.waitpid(self.pid, 0)
            os.waitpid(self.first, 0)
        for fd in (
            self.stdin_fd,
            self.stdout_fd,
            self.stderr_fd,
            self.trouble_fd,
            self.box_fd,
            self.pidfd,
        ):
            if fd >= 0:
                os.close(fd)
        self.requests.close()


class Stock:
    """Orders sandboxes from the zygote ahead of their use."""

    def __init__(
        self,
        orders: socket.socket,
        calls: socket.socket,
        ground: Ground,
        size: int,
        groups: Groups,
    ) -> None:
        self._orders, self._calls, self._ground, self._size = orders, calls, ground, size
        self._groups = groups
        self._ordered: dict[int, Prepared] = {}
        self._lock = threading.Lock()
        self._number = 0
        self._spare_count = 0
        """Orders that nobody waits for; below 0: so many wait for what is not ordered yet."""
        self._failure_count = 0

    def fill(self) -> None:
        """Order as many as are to be ready."""
        self._fill(self._size)

    def _fill(self, size: int) -> None:
        while self._count_one_more(size):
            try:
                self._order()
            except BaseException:
                self._count_one_less()
                raise

    def _count_one_more(self, size: int) -> bool:
        with self._lock:
            is_missing = self._spare_count < size
            self._spare_count += is_missing
            return is_missing

    def _count_one_less(self) -> None:
        with self._lock:
            self._spare_count -= 1

    def take(self) -> Prepared:
        """Take the next that is ready."""
        self._count_one_less()
        try:
            # A run is not held up by the making of what comes after it, unless little is left.
            self._fill(self._size // 2)
        except BaseException:
            with self._lock:
                self._spare_count += 1
            raise
        while True:
            message = self._orders.recv(nursery.REPLY.size)
            if not message:
                os._exit(0)
            number, first, pid = nursery.REPLY.unpack(message)
            found = self._ordered.pop(number)
            if self._has_started(found, first, pid):
                self._failure_count = 0
                return found
            self._note_failure(found, pid)
            self._order()

    def _has_started(self, found: Prepared, first: int, pid: int) -> bool:
        try:
            return found.has_started(first, pid)
        except BaseException:
            self.end(found)
            raise

    def _next_number(self) -> int:
        with self._lock:
            self._number += 1
            return self._number

    def _order(self) -> None:
        number = self._next_number()
        user = self._ground.user(number)
        gid = user if self._ground.switches_user else self._ground.gid
        fds: list[int] = []
        group = self._groups.take()
        try:
            fds += [end for _ in range(4) for end in os.pipe2(os.O_CLOEXEC)]
            stdin_r, stdin_w, stdout_r, stdout_w, stderr_r, stderr_w, trouble_r, trouble_w = fds
            near, far = socket.socketpair()
            box = rootfs.make_box(*DEFAULT_BOX, user, gid)
        except BaseException:
            for fd in fds:
                os.close(fd)
            if group is not None:
                self._groups.give_back(group)
            raise
        self._ordered[number] = Prepared(stdin_w, stdout_r, stderr_r, trouble_r, near, box, group)
        order = nursery.ORDER.pack(nursery.SINGLE, number)
        entrances = [] if group is None else group.entrances
        theirs = [stdin_r, stdout_w, stderr_w, trouble_w]
        socket.send_fds(self._orders, [order], [*theirs, far.fileno(), box, *entrances])
        for fd in theirs:
            os.close(fd)
        far.close()

    def end(self, prepared: Prepared) -> None:
        """End a sandbox; its group is for another one then."""
        prepared.end()
        if prepared.group is not None:
            self._groups.give_back(prepared.group)

    def order_keeper(self, call: bytes, job: socket.socket) -> None:
        """Leave a call to a sandbox of its own, which answers on `job`."""
        held = os.memfd_create("call", os.MFD_CLOEXEC)
        with open(held, "wb") as file:
            file.write(call)
            file.flush()
            order = nursery.ORDER.pack(nursery.KEEPER, self._next_number())
            lent = self._groups.lend()
            try:
                socket.send_fds(self._orders, [order], [job.fileno(), held, *lent])
            finally:
                if lent:
                    os.close(lent[0])

    def _note_failure(self, found: Prepared, pid: int) -> None:
        """Give up when sandboxes die, or cannot be made, before anybody has used them."""
        trouble = os.strerror(-pid) if pid < 0 else ""
        with suppress(OSError):
            os.set_blocking(found.trouble_fd, False)
            trouble = trouble or os.read(found.trouble_fd, 4096).decode(errors="replace")
        self.end(found)
        self._failure_count += 1
        if self._failure_count < _MOST_FAILURES:
            return
        text = f"{self._failure_count} prepared sandboxes died before their use: {trouble}"
        os.write(2, f"sandbox: {text}\n".encode())
        with suppress(OSError):
            self._calls.send(json.dumps({"error": text, "errno": None}).encode())
        os._exit(1)
