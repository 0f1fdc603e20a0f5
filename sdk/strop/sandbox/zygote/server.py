"""The zygote: a small, prepared Python that forks a sandbox in milliseconds."""

import gc
import importlib
import json
import os
import signal
import socket
import sys
from contextlib import suppress
from typing import Any, NoReturn

from strop.sandbox.zygote import (
    landlock,
    linux,
    meter,
    place,
    pool,
    python,
    rootfs,
    seccomp,
    untrusted,
    watcher,
)
from strop.sandbox.zygote.groups import Groups
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
_UIDS_APART = 61
_NAMESPACES = linux.NEWPID | linux.NEWNS | linux.NEWNET | linux.NEWIPC | linux.NEWUTS


def main(calls_fd: int) -> NoReturn:
    """Read the settings from the socket, prepare, and fork workers until the client leaves."""
    calls = socket.socket(fileno=calls_fd)
    settings = json.loads(calls.recv(1 << 16))
    try:
        groups = Groups(os.getpid(), settings["groups"])
        alive_fd = _become_zygote(settings, calls, groups)
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
    if ground.has_namespaces:
        watcher.serve(calls, alive_fd, ground, settings["pool_size"], groups)
    pool.Pool(calls, alive_fd, ground, settings["pool_size"]).serve()


def _refuse(calls: socket.socket, text: str, code: int | None) -> NoReturn:
    with suppress(OSError):
        calls.send(json.dumps({"error": text, "errno": code}).encode())
    os._exit(1)


def _freeze() -> None:
    gc.collect()
    gc.freeze()
    gc.disable()


def _become_zygote(settings: dict[str, Any], calls: socket.socket, groups: Groups) -> int:
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
    _become_reaper(has_namespaces=has_namespaces)
    alive_r, alive_w = os.pipe2(os.O_CLOEXEC)
    stub = os.getpid()
    pid = os.fork()
    if pid:
        os.close(alive_r)
        calls.close()
        _wait_as_stub(pid, settings, groups)
    os.close(alive_w)
    # A fork does not inherit this.
    _become_reaper(has_namespaces=has_namespaces)
    linux.prctl(linux.PR_SET_PDEATHSIG, signal.SIGKILL if has_namespaces else signal.SIGTERM)
    settings["number"] = stub
    return alive_r


def _become_reaper(*, has_namespaces: bool) -> None:
    if has_namespaces:
        linux.prctl(linux.PR_SET_CHILD_SUBREAPER, 1)
    else:
        meter.become_reaper()


def _load_modules(settings: dict[str, Any]) -> None:
    sys.path[:0] = [path for path in settings["python_paths"] if path not in sys.path]
    for name in (*_ALWAYS_LOADED, *settings["preload"]):
        importlib.import_module(name)


def _wait_as_stub(zygote: int, settings: dict[str, Any], groups: Groups) -> NoReturn:
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    os.waitpid(zygote, 0)
    groups.remove()
    if settings["tier"] in ("landlock", "plain"):
        meter.kill_below(os.getpid())
        place.remove(settings["scratch"])
    os._exit(0)


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
        first_slot=settings["number"] * _UIDS_APART,
    )
