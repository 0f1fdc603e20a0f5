"""The zygote's own work, where there are namespaces: it forks what the watcher orders.

It does as little as it can: what it touches between two forks is copied after each of them.
"""

import ctypes
import mmap
import os
import socket
import struct
from typing import NoReturn

from strop.sandbox.zygote import linux, untrusted, worker
from strop.sandbox.zygote.confinement import REQUEST_FD, Confinement
from strop.sandbox.zygote.place import Ground

SINGLE, KEEPER = 0, 1
ORDER = struct.Struct("=II")
"""What is ordered, and its running number."""
REPLY = struct.Struct("=Iii")
"""The running number, the namespace's first process, the confined one; below 0: an errno."""
_MOST_FDS = 10
"""Six of a single sandbox, and where it enters its groups."""
_STACK_BYTES, _STACK_COUNT = 1024, 64
"""Of sleepers, which all leave the same there, so that more of them than stacks do no harm."""


def serve(orders: socket.socket, ground: Ground) -> NoReturn:
    """Fork what is ordered until the watcher goes away; its end ends this process, too."""
    linux.prctl(linux.PR_SET_DUMPABLE, 0)
    _take_low_places()
    nursery = _Nursery(orders, ground)
    room = socket.CMSG_SPACE(4 * _MOST_FDS)
    while True:
        message, ancillary, _, _ = orders.recvmsg(ORDER.size, room)
        if not message:
            os._exit(0)
        kind, number = ORDER.unpack(message)
        fds = struct.unpack(f"={len(ancillary[0][2]) // 4}i", ancillary[0][2])
        if kind == SINGLE:
            nursery.fork_single(number, fds)
        else:
            nursery.fork_keeper(number, fds)
        for fd in fds:
            os.close(fd)


def _take_low_places() -> None:
    """Leave no descriptor free where a confined process is to have its own."""
    while (fd := os.open("/dev/null", os.O_RDONLY | os.O_CLOEXEC)) <= REQUEST_FD:
        pass
    os.close(fd)


class _Nursery:
    def __init__(self, orders: socket.socket, ground: Ground) -> None:
        self._orders, self._ground = orders, ground
        # A signal that a sandbox sends to its first process must not run anything there, since
        # that process shares the memory of this one.
        self._restoring = linux.hush_signals()
        self._confinement = Confinement(ground, self._restoring)
        self._namespace = os.open("/proc/self/ns/pid", os.O_RDONLY | os.O_CLOEXEC)
        self._leaving = [linux.call("unshare", linux.NEWPID)]
        self._coming_back = [linux.call("setns", self._namespace, linux.NEWPID)]
        self._home = ground.place(0)
        flags = mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS
        self._stacks = mmap.mmap(-1, _STACK_BYTES * (_STACK_COUNT + 1), flags)
        self._stacks.madvise(mmap.MADV_DONTFORK)
        self._stacks_at = ctypes.addressof(ctypes.c_char.from_buffer(self._stacks))

    def fork_single(self, number: int, fds: tuple[int, ...]) -> None:
        """Fork a sandbox for one run: a first process that only is, and one to be confined."""
        self._confinement.prepare(fds, self._ground.user(number))
        first = second = -1
        try:
            linux.perform(self._leaving)
            try:
                top = self._stacks_at + _STACK_BYTES * (number % _STACK_COUNT + 1)
                first = linux.start_sleeper(top)
                second = linux.fork_sibling(linux.NEWNS)
                if second == 0:
                    self._become_confined()
            finally:
                linux.perform(self._coming_back)
        except OSError as error:
            second = -(error.errno or 1)
        self._orders.send(REPLY.pack(number, first, second))

    def _become_confined(self) -> NoReturn:
        try:
            self._confinement.enter()
            untrusted.serve(self._home)
        except BaseException as error:  # noqa: BLE001 - whatever it is, it is told and ends here
            untrusted.tell_trouble(error)
        finally:
            os._exit(untrusted.SETUP_FAILED)

    def fork_keeper(self, number: int, fds: tuple[int, ...]) -> None:
        """Fork the first process of a sandbox that has more to do than to run once."""
        try:
            linux.perform(self._leaving)
            try:
                if linux.fork() == 0:
                    self._become_keeper(number, fds)
            finally:
                linux.perform(self._coming_back)
        except OSError as error:
            # Its caller sees that nobody has its socket any more.
            os.write(2, f"sandbox: cannot fork a keeper: {error}\n".encode())

    def _become_keeper(self, number: int, fds: tuple[int, ...]) -> NoReturn:
        try:
            linux.perform(self._restoring)
            self._orders.close()
            os.close(self._namespace)
            worker.keep(fds, self._ground.place(number))
        except BaseException as error:  # noqa: BLE001 - the only way to tell is stderr
            os.write(2, f"sandbox keeper: {error!r}\n".encode())
        finally:
            os._exit(1)
