"""Linux calls that the standard library does not offer, through ctypes; each raises OSError."""

import ctypes
import os
import platform
import resource
import struct
from collections.abc import Callable

_LIBC = ctypes.CDLL(None, use_errno=True)

NEWNS = 0x00020000
NEWUTS = 0x04000000
NEWIPC = 0x08000000
NEWUSER = 0x10000000
NEWPID = 0x20000000
NEWNET = 0x40000000

MS_RDONLY, MS_NOSUID, MS_NODEV, MS_NOEXEC, MS_REMOUNT = 1, 2, 4, 8, 32
MS_BIND, MS_REC, MS_PRIVATE = 4096, 16384, 1 << 18
MNT_DETACH = 2

PR_SET_PDEATHSIG = 1
PR_SET_DUMPABLE = 4
PR_SET_CHILD_SUBREAPER = 36
PR_SET_NO_NEW_PRIVS = 38

_AT_FDCWD, _AT_RECURSIVE, _AT_EMPTY_PATH = -100, 0x8000, 0x1000
_RESOLVE_NO_MAGICLINKS, _RESOLVE_NO_SYMLINKS, _RESOLVE_BENEATH = 0x02, 0x04, 0x08
_CAPABILITY_VERSION_3 = 0x20080522

NUMBERS: dict[str, dict[str, int]] = {
    "x86_64": {"pivot_root": 155, "capset": 126, "seccomp": 317},
    "aarch64": {"pivot_root": 41, "capset": 91, "seccomp": 277},
}
"""Numbers that differ between machines; those of new calls are the same everywhere."""
_OPENAT2, _MOUNT_SETATTR = 437, 442


def number(name: str) -> int:
    """Give the number of a call on this machine.

    Raises:
        OSError: The machine is of a kind that the sandbox does not know.
    """
    try:
        return NUMBERS[platform.machine()][name]
    except KeyError:
        raise OSError(38, f"no system call numbers for {platform.machine()}") from None


def _check(result: int, call: str) -> int:
    if result < 0:
        code = ctypes.get_errno()
        raise OSError(code, f"{call}: {os.strerror(code)}")
    return result


def syscall(call: str, nr: int, *arguments: object) -> int:
    """Make a raw system call; `call` names it in the error."""
    return _check(_LIBC.syscall(ctypes.c_long(nr), *arguments), call)


def unshare(flags: int) -> None:
    """Move this process (with NEWPID: its future children) into new namespaces."""
    _check(_LIBC.unshare(flags), f"unshare({flags:#x})")


def setns(fd: int, flags: int) -> None:
    """Enter the namespace that `fd` stands for."""
    _check(_LIBC.setns(fd, flags), "setns")


def mount(
    source: str | None, target: str, kind: str | None, flags: int, options: str | None = None
) -> None:
    """Mount, bind or change a mount."""
    encoded = [text and text.encode() for text in (source, target, kind)]
    result = _LIBC.mount(*encoded, ctypes.c_ulong(flags), options and options.encode())
    _check(result, f"mount {kind or 'bind'} {target}")


def unmount(target: str) -> None:
    """Detach a mount, busy or not."""
    _check(_LIBC.umount2(target.encode(), MNT_DETACH), f"umount {target}")


def make_read_only(target: str, *, allow_devices: bool = False) -> None:
    """Make a mount and all mounts below it read-only, without set-user-id programs."""
    attributes = 0x1 | 0x2 | (0 if allow_devices else 0x4)
    packed = struct.pack("QQQQ", attributes, 0, 0, 0)
    call = f"mount_setattr {target}"
    path = target.encode()
    syscall(call, _MOUNT_SETATTR, _AT_FDCWD, path, _AT_RECURSIVE, packed, len(packed))


def pivot_root(new_root: str, put_old: str) -> None:
    """Make `new_root` the root and hang the old one below it."""
    syscall("pivot_root", number("pivot_root"), new_root.encode(), put_old.encode())


def set_hostname(name: str) -> None:
    """Name this namespace's host."""
    _check(_LIBC.sethostname(name.encode(), len(name)), "sethostname")


def prctl(option: int, value: int = 0) -> None:
    """Set a property of this process."""
    arguments = [ctypes.c_ulong(number) for number in (option, value, 0, 0, 0)]
    _check(_LIBC.prctl(*arguments), f"prctl({option})")


def drop_capabilities() -> None:
    """Give up every capability; for good, once no new privileges may be gained either."""
    header = struct.pack("Ii", _CAPABILITY_VERSION_3, 0)
    syscall("capset", number("capset"), header, bytes(24))


def map_own_ids(uid: int, gid: int) -> None:
    """Map this user and group to themselves in a user namespace just entered."""
    for name, line in (
        ("setgroups", "deny"),
        ("uid_map", f"{uid} {uid} 1"),
        ("gid_map", f"{gid} {gid} 1"),
    ):
        with open(f"/proc/self/{name}", "w") as file:
            file.write(line)


def open_beneath(folder_fd: int, path: str, flags: int, mode: int = 0) -> int:
    """Open `path` below a folder; links, and ways out of the folder, are refused."""
    resolve = _RESOLVE_BENEATH | _RESOLVE_NO_SYMLINKS | _RESOLVE_NO_MAGICLINKS
    how = struct.pack("QQQ", flags | os.O_CLOEXEC, mode, resolve)
    return syscall(f"open {path}", _OPENAT2, folder_fd, path.encode(), how, len(how))


def raise_loopback() -> None:
    """Switch on the loopback interface of a new network namespace."""
    import fcntl
    import socket

    set_flags, is_up = 0x8914, 0x1
    request = struct.pack("16sh14x", b"lo", is_up)
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sock:
        fcntl.ioctl(sock.fileno(), set_flags, request)


def set_resource_limits(limits: dict[int, int]) -> None:
    """Lower soft and hard limits; a hard limit that is lower already stays."""
    for kind, value in limits.items():
        hard = resource.getrlimit(kind)[1]
        bound = value if hard == resource.RLIM_INFINITY else min(value, hard)
        resource.setrlimit(kind, (bound, bound))


def attempt(action: Callable[[], object]) -> None:
    """Do something that may fail without harm."""
    try:
        action()
    except OSError:
        return
