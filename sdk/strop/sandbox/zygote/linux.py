"""Linux calls that the standard library does not offer, through ctypes; each raises OSError."""

import ctypes
import os
import platform
import struct
import sys

_LIBC = ctypes.CDLL(None, use_errno=True)
_KEEPING = ctypes.PyDLL(None, use_errno=True)
"""The same for calls that do not wait: they keep the interpreter's lock, and so may fork."""

NEWNS = 0x00020000
NEWUTS = 0x04000000
NEWIPC = 0x08000000
NEWUSER = 0x10000000
NEWPID = 0x20000000
NEWNET = 0x40000000
_SHARE_MEMORY, _SHARE_FILES, _SAME_PARENT = 0x100, 0x400, 0x8000
_MOST_HEAPS = -8
_SIGCHLD, _IGNORED, _ACTION_BYTES, _MASK_BYTES = 17, 1, 32, 8

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
    "x86_64": {
        "pivot_root": 155, "capset": 126, "seccomp": 317, "clone": 56, "dup3": 292, "mount": 165,
        "setsid": 112, "umask": 95, "chdir": 80, "setgroups": 116, "setresgid": 119,
        "setresuid": 117, "prctl": 157, "unshare": 272, "rt_sigaction": 13, "openat": 257,
        "write": 1, "close": 3, "setns": 308,
    },
    "aarch64": {
        "pivot_root": 41, "capset": 91, "seccomp": 277, "clone": 220, "dup3": 24, "mount": 40,
        "setsid": 157, "umask": 166, "chdir": 49, "setgroups": 159, "setresgid": 149,
        "setresuid": 147, "prctl": 167, "unshare": 97, "rt_sigaction": 134, "openat": 56,
        "write": 64, "close": 57, "setns": 268,
    },
}  # fmt: skip
"""Numbers that differ between machines."""
_NUMBERS_EVERYWHERE = {
    "move_mount": 429, "fsopen": 430, "fsconfig": 431, "fsmount": 432, "fspick": 433,
    "close_range": 436, "openat2": 437, "mount_setattr": 442,
}  # fmt: skip
_OPENAT2, _MOUNT_SETATTR = 437, 442
_FS_CLOSE_ON_EXEC, _FS_SET_TEXT, _FS_CREATE, _FS_CHANGE, _FS_OF_DESCRIPTOR = 1, 1, 6, 7, 8

Call = tuple[str, tuple[object, ...]]
"""A system call that is ready to be made: its name, its number and arguments."""


def number(name: str) -> int:
    """Give the number of a call on this machine.

    Raises:
        OSError: The machine is of a kind that the sandbox does not know.
    """
    if name in _NUMBERS_EVERYWHERE:
        return _NUMBERS_EVERYWHERE[name]
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


def call(name: str, *arguments: object) -> Call:
    """Put a system call together; integers of more than 31 bits have to be ctypes' own."""
    return name, (number(name), *arguments)


def perform(calls: "list[Call]") -> None:
    """Make system calls that were put together before, one after the other."""
    syscall_ = _KEEPING.syscall
    for name, arguments in calls:
        if syscall_(*arguments) < 0:
            code = ctypes.get_errno()
            raise OSError(code, f"{name}: {os.strerror(code)}")


def fork() -> int:
    """Fork without the hooks of `os.fork`, Python's own and those that modules have registered.

    They cost more than the fork itself, and mend locks that other threads hold: this is for
    processes that have a single one.
    """
    return _clone(_SIGCHLD)


def fork_sibling(flags: int) -> int:
    """Fork, as `fork` does, a child of this process's parent into new namespaces."""
    return _clone(flags | _SAME_PARENT | _SIGCHLD)


def _clone(flags: int) -> int:
    return _check(_KEEPING.syscall(number("clone"), flags, 0, 0, 0, 0), "clone")


def start_sleeper(stack_top: int) -> int:
    """Start a process that only is, as a child of this one's parent, and give its number.

    It shares this process's memory, so that nothing is copied, and sleeps in the kernel until it
    is killed; nothing of this program ever runs in it.
    """
    flags = _SHARE_MEMORY | _SHARE_FILES | _SAME_PARENT | _SIGCHLD
    return _check(_KEEPING.clone(_KEEPING.pause, ctypes.c_void_p(stack_top), flags, None), "clone")


def keep_one_heap() -> None:
    """Let all threads take memory from one heap, which then grows no larger than one needs."""
    _LIBC.mallopt(_MOST_HEAPS, 1)


def hush_signals() -> list[Call]:
    """Let no signal run anything in this process, and the kernel bury its children.

    Returns:
        What takes this back, in this process or a fork of it.
    """
    back = []
    nr = number("rt_sigaction")
    for signal in range(1, 65):
        old = ctypes.create_string_buffer(_ACTION_BYTES)
        if _KEEPING.syscall(nr, signal, None, old, _MASK_BYTES) < 0:
            continue
        handler = int.from_bytes(old.raw[: ctypes.sizeof(ctypes.c_void_p)], sys.byteorder)
        if handler > _IGNORED or signal == _SIGCHLD:
            new = struct.pack("P", _IGNORED if signal == _SIGCHLD else 0)
            new = new.ljust(_ACTION_BYTES, b"\0")
            perform([call("rt_sigaction", signal, new, None, _MASK_BYTES)])
            back.append(call("rt_sigaction", signal, old.raw, None, _MASK_BYTES))
    return back


def open_tmpfs(options: dict[str, str], attributes: int) -> int:
    """Make a file system in memory that is mounted nowhere yet, and give its descriptor."""
    fd = _kept("fsopen", b"tmpfs", _FS_CLOSE_ON_EXEC)
    try:
        for key, value in options.items():
            _kept("fsconfig", fd, _FS_SET_TEXT, key.encode(), value.encode(), 0)
        _kept("fsconfig", fd, _FS_CREATE, None, None, 0)
        return _kept("fsmount", fd, _FS_CLOSE_ON_EXEC, attributes)
    finally:
        os.close(fd)


def change_tmpfs(mount_fd: int, options: dict[str, str]) -> None:
    """Change the options of a file system, by a descriptor of its mount."""
    fd = _kept("fspick", mount_fd, b"", _FS_CLOSE_ON_EXEC | _FS_OF_DESCRIPTOR)
    try:
        for key, value in options.items():
            _kept("fsconfig", fd, _FS_SET_TEXT, key.encode(), value.encode(), 0)
        _kept("fsconfig", fd, _FS_CHANGE, None, None, 0)
    finally:
        os.close(fd)


def _kept(name: str, *arguments: object) -> int:
    return _check(_KEEPING.syscall(number(name), *arguments), name)


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
    perform([dropping_capabilities()])


def dropping_capabilities() -> Call:
    """Put together what `drop_capabilities` does."""
    return call("capset", struct.pack("Ii", _CAPABILITY_VERSION_3, 0), bytes(24))


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
