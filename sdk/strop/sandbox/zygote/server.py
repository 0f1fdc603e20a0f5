"""The zygote: a small, prepared Python that forks a sandbox in milliseconds."""

import gc
import importlib
import json
import os
import select
import signal
import socket
import sys
from contextlib import suppress
from typing import Any, NoReturn

from strop.sandbox.zygote import (
    fork_hooks,
    landlock,
    linux,
    meter,
    place,
    python,
    rootfs,
    seccomp,
    untrusted,
    worker,
)
from strop.sandbox.zygote.place import Ground

_ALWAYS_LOADED = (
    "array", "bisect", "collections", "copy", "dataclasses", "datetime", "decimal", "fractions",
    "functools", "heapq", "io", "itertools", "json", "math", "operator", "random", "re",
    "string", "threading", "traceback", "typing",
)  # fmt: skip
_NAMES = {
    "passwd": "root:x:0:0::/:/bin/sh\nsandbox:x:{uid}:{gid}::/box:/bin/sh\n",
    "group": "root:x:0:\nsandbox:x:{gid}:\n",
    "hosts": "127.0.0.1 localhost\n::1 localhost\n",
}
_MOST_FAILURES = 5
_SWEEP_MS = 100
_NAMESPACES = linux.NEWPID | linux.NEWNS | linux.NEWNET | linux.NEWIPC | linux.NEWUTS


def main(calls_fd: int) -> NoReturn:
    """Read the settings from the socket, prepare, and fork workers until the client leaves."""
    calls = socket.socket(fileno=calls_fd)
    settings = json.loads(calls.recv(1 << 16))
    try:
        alive_fd = _become_zygote(settings, calls)
        ground = _prepare(settings)
    except OSError as error:
        _refuse(calls, error.strerror or str(error), error.errno)
    except BaseException as error:  # noqa: BLE001 - told to the client, then this process ends
        _refuse(calls, str(error) or repr(error), None)
    python.prepare(settings["python_paths"])
    os.environ.clear()
    os.environ.update(untrusted.variables(rootfs.BOX))
    _freeze()
    calls.send(json.dumps({"pid": os.getpid()}).encode())
    _Pool(calls, alive_fd, ground, settings["pool_size"]).serve()


def _refuse(calls: socket.socket, text: str, code: int | None) -> NoReturn:
    with suppress(OSError):
        calls.send(json.dumps({"error": text, "errno": code}).encode())
    os._exit(1)


def _freeze() -> None:
    gc.collect()
    gc.freeze()
    gc.disable()


def _become_zygote(settings: dict[str, Any], calls: socket.socket) -> int:
    """Enter the namespaces; what stays behind is a stub that waits.

    Returns:
        A descriptor that hangs up when the stub dies.
    """
    linux.prctl(linux.PR_SET_DUMPABLE, 1)
    tier = settings["tier"]
    uid, gid = os.getuid(), os.getgid()
    has_namespaces = tier in ("root", "userns")
    _load_modules(settings)
    if has_namespaces:
        linux.unshare(_NAMESPACES | (linux.NEWUSER if tier == "userns" else 0))
    if tier == "userns":
        linux.map_own_ids(uid, gid)
    linux.prctl(linux.PR_SET_CHILD_SUBREAPER, 1)
    alive_r, alive_w = os.pipe2(os.O_CLOEXEC)
    stub = os.getpid()
    pid = os.fork()
    if pid:
        os.close(alive_r)
        calls.close()
        _wait_as_stub(pid, settings)
    os.close(alive_w)
    # A fork does not inherit this.
    linux.prctl(linux.PR_SET_CHILD_SUBREAPER, 1)
    linux.prctl(linux.PR_SET_PDEATHSIG, signal.SIGKILL if has_namespaces else signal.SIGTERM)
    settings["number"] = stub
    return alive_r


def _load_modules(settings: dict[str, Any]) -> None:
    sys.path[:0] = [path for path in settings["python_paths"] if path not in sys.path]
    for name in (*_ALWAYS_LOADED, *settings["preload"]):
        importlib.import_module(name)
    fork_hooks.stop_deferring()


def _wait_as_stub(zygote: int, settings: dict[str, Any]) -> NoReturn:
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    os.waitpid(zygote, 0)
    if settings["tier"] in ("landlock", "plain"):
        meter.kill_below(os.getpid())
        _remove(settings["scratch"])
    os._exit(0)


def _remove(folder: str) -> None:
    import shutil

    shutil.rmtree(folder, ignore_errors=True)


def _prepare(settings: dict[str, Any]) -> Ground:
    tier = settings["tier"]
    uid, gid = os.getuid(), os.getgid()
    mounts, base = settings["mounts"], settings["base_folder"]
    readable = rootfs.readable_paths(mounts)
    first_uid, uid_count = place.user_range(settings["number"])
    confines = tier != "plain"
    may_fork = True
    if tier == "landlock" and landlock.version() < landlock.LEAST_VERSION:
        raise OSError(95, f"landlock version {landlock.version()} < {landlock.LEAST_VERSION}")
    if tier in ("root", "userns"):
        names = {name: text.format(uid=uid, gid=gid) for name, text in _NAMES.items()}
        rootfs.build(mounts, base, names)
        linux.set_hostname("sandbox")
    return Ground(
        tier=tier,
        uid=uid,
        gid=gid,
        scratch=settings["scratch"],
        filters={
            "none": seccomp.build("none", may_fork=may_fork) if confines else b"",
            "local": seccomp.build("local", may_fork=may_fork) if confines else b"",
        },
        readable=tuple(readable),
        python_paths=tuple(settings["python_paths"]),
        first_uid=first_uid,
        uid_count=uid_count,
        has_base_folder=base is not None,
    )


class _Pool:
    """Keeps a number of prepared workers, each for one use.

    A worker takes its call straight from the client's socket, so that nothing of a request ever
    enters this process.
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
        self._namespace = os.open("/proc/self/ns/pid", os.O_RDONLY | os.O_CLOEXEC)

    def serve(self) -> NoReturn:
        """Refill and reap until the client or the stub goes away."""
        self._poll.register(self._notes, select.POLLIN)
        self._poll.register(self._alive_fd, select.POLLIN)
        self._poll.register(self._calls, select.POLLRDHUP)
        if not self._ground.has_namespaces:
            signal.signal(signal.SIGTERM, lambda *_: self._leave())
        while True:
            while len(self._idle) < self._size:
                self._fork_worker()
            # Orphans, which only tiers without namespaces have, end without a descriptor's word.
            events = dict(self._poll.poll(None if self._ground.has_namespaces else _SWEEP_MS))
            if self._alive_fd in events or self._calls.fileno() in events:
                self._leave()
            self._note_taken()
            self._reap()

    def _fork_worker(self) -> None:
        self._slot += 1
        if self._ground.has_namespaces:
            linux.unshare(linux.NEWPID)
        pid = os.fork()
        if pid == 0:
            try:
                self._become_worker()
            except BaseException as error:  # noqa: BLE001 - the only way to tell is stderr
                os.write(2, f"sandbox worker: {error!r}\n".encode())
            finally:
                os._exit(1)
        self._idle[self._slot] = pid
        self._pidfds[pid] = os.pidfd_open(pid)
        self._poll.register(self._pidfds[pid], select.POLLIN)
        if self._ground.has_namespaces:
            linux.setns(self._namespace, linux.NEWPID)

    def _become_worker(self) -> NoReturn:
        if not self._ground.has_namespaces:
            signal.signal(signal.SIGTERM, signal.SIG_DFL)
        for fd in (self._notes, self._namespace, *self._pidfds.values()):
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
            if not self._ground.has_namespaces:
                self._end_orphans()
                _remove(self._ground.place(slot or 0).box)

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
        """Without namespaces: end what a worker that was killed has left behind."""
        ours = {*self._idle.values(), *self._busy}
        for pid in meter.pids_below(os.getpid()):
            if pid not in ours and _parent(pid) == os.getpid():
                for victim in (pid, *meter.pids_below(pid)):
                    with suppress(OSError):
                        os.kill(victim, signal.SIGKILL)

    def _leave(self) -> NoReturn:
        """Leave; the kernel, or without namespaces this process, ends all that is left."""
        if not self._ground.has_namespaces:
            meter.kill_below(os.getpid())
            _remove(self._ground.scratch)
        os._exit(0)


def _parent(pid: int) -> int:
    try:
        with open(f"/proc/{pid}/stat", "rb") as file:
            return int(file.read().rpartition(b")")[2].split()[1])
    except (OSError, IndexError, ValueError):
        return 0
