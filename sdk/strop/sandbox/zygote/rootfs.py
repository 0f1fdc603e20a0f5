"""The sandbox's file tree: the system read-only, one writable folder in memory, no more."""

import os
import stat
import sys
from collections.abc import Iterable
from dataclasses import dataclass

from strop.sandbox.zygote import linux

BOX = "/box"
"""The writable folder: home, working directory and, in ``tmp``, temporary files."""
LOWER = "/lower"
"""Where the folder that serves as copy-on-write base is mounted, if there is one."""

_SYSTEM = ("/usr", "/lib", "/lib32", "/lib64", "/bin", "/sbin")
_CONFIGURATION = ("/etc/ld.so.cache", "/etc/alternatives", "/etc/localtime")
_DEVICES = ("null", "zero", "full", "random", "urandom")
_STAGE = "/tmp"  # noqa: S108 - only a mount point, hidden by a mount of our own
_FIXED = linux.MS_NOSUID | linux.MS_NODEV
_PROC = _FIXED | linux.MS_NOEXEC


def readable_paths(mounts: Iterable[str]) -> list[str]:
    """List what code may read: the system, this Python, and the profile's own mounts."""
    prefixes = {os.path.realpath(sys.base_prefix), os.path.realpath(sys.prefix)}
    return list(dict.fromkeys([*_SYSTEM, *sorted(prefixes), *mounts]))


def build(mounts: Iterable[str], base_folder: str | None, names: dict[str, str]) -> None:
    """Replace this process's view of the file system, once for each zygote.

    Args:
        mounts: Further folders of the host, visible read-only at their own paths.
        base_folder: Folder of the host to be visible at `LOWER`.
        names: Contents of files in ``/etc``.
    """
    linux.mount(None, "/", None, linux.MS_REC | linux.MS_PRIVATE)
    devices = [f"/dev/{name}" for name in _DEVICES]
    paths = [*readable_paths(mounts), *_CONFIGURATION, *devices]
    held = [_hold(path, path) for path in paths]
    if base_folder is not None:
        held.append(_hold(base_folder, LOWER))
    linux.mount("tmpfs", _STAGE, "tmpfs", _FIXED, "size=4m,mode=755")
    for source in held:
        if source is not None:
            _bind(source)
    for folder in ("etc", "proc", "box", "lower", "old"):
        os.makedirs(f"{_STAGE}/{folder}", exist_ok=True)
    for name, text in names.items():
        with open(f"{_STAGE}/etc/{name}", "w") as file:
            file.write(text)
    _link_devices()
    # In a user namespace a fresh /proc may only be mounted while the old one is still in sight.
    linux.mount("proc", f"{_STAGE}/proc", "proc", _PROC)
    os.chdir(_STAGE)
    linux.pivot_root(".", "old")
    os.chdir("/")
    linux.unmount("/old")
    os.rmdir("/old")
    linux.mount(None, "/", None, linux.MS_REMOUNT | linux.MS_BIND | linux.MS_RDONLY | _FIXED)


def _link_devices() -> None:
    links = {
        "/dev/stdin": "/proc/self/fd/0",
        "/dev/stdout": "/proc/self/fd/1",
        "/dev/stderr": "/proc/self/fd/2",
        "/dev/fd": "/proc/self/fd",
        "/dev/shm": f"{BOX}/tmp",  # noqa: S108 - inside the sandbox
        "/tmp": f"{BOX}/tmp",  # noqa: S108 - inside the sandbox
    }
    for link, target in links.items():
        # What is shown below /tmp, such as an interpreter, stays in sight there.
        if not os.path.lexists(_STAGE + link):
            os.symlink(target, _STAGE + link)


@dataclass(frozen=True, slots=True)
class _Source:
    """A path of the host, held before a mount of ours may hide it."""

    path: str
    target: str
    link: str | None
    fd: int
    is_folder: bool


def _hold(path: str, target: str) -> _Source | None:
    if path == target and os.path.islink(path):
        return _Source(path, target, os.readlink(path), -1, False)
    try:
        fd = os.open(path, os.O_PATH | os.O_CLOEXEC)
    except OSError:
        return None
    return _Source(path, target, None, fd, stat.S_ISDIR(os.fstat(fd).st_mode))


def _bind(source: _Source) -> None:
    """Show a path of the host in the new tree, read-only if it is no device."""
    place = _STAGE + source.target
    if source.link is not None:
        if not os.path.lexists(place):
            os.makedirs(os.path.dirname(place), exist_ok=True)
            os.symlink(source.link, place)
        return
    if source.is_folder:
        os.makedirs(place, exist_ok=True)
    elif not os.path.exists(place):
        os.makedirs(os.path.dirname(place), exist_ok=True)
        with open(place, "w"):
            pass
    linux.mount(f"/proc/self/fd/{source.fd}", place, None, linux.MS_BIND | linux.MS_REC)
    os.close(source.fd)
    if not source.target.startswith("/dev/"):
        linux.make_read_only(place)


def mount_box(size_bytes: int, inode_count: int, uid: int, gid: int) -> None:
    """Mount this sandbox's own writable folder and its own ``/proc``."""
    options = f"mode=700,uid={uid},gid={gid},{_bounds(size_bytes, inode_count)}"
    linux.mount("tmpfs", BOX, "tmpfs", _FIXED, options)
    mount_proc()
    temporary = os.path.join(BOX, "tmp")
    os.mkdir(temporary)
    os.chmod(temporary, 0o1777)  # noqa: S103 - one user, and the parent is 0700


def make_box(size_bytes: int, inode_count: int, uid: int, gid: int) -> int:
    """Make a writable folder that is mounted nowhere yet, and give its descriptor."""
    owner = {"mode": "700", "uid": str(uid), "gid": str(gid)}
    fd = linux.open_tmpfs(owner | _bounds_by_name(size_bytes, inode_count), _FIXED)
    os.mkdir("tmp", dir_fd=fd)
    os.chmod("tmp", 0o1777, dir_fd=fd)  # noqa: S103 - one user, and the parent is 0700
    return fd


def fit_box(fd: int, size_bytes: int, inode_count: int) -> None:
    """Change how much a folder of `make_box` holds."""
    linux.change_tmpfs(fd, _bounds_by_name(size_bytes, inode_count))


def _bounds_by_name(size_bytes: int, inode_count: int) -> dict[str, str]:
    return {"size": str(size_bytes), "nr_inodes": str(inode_count)}


def mount_proc() -> None:
    """Mount a ``/proc`` that shows only this process namespace."""
    linux.perform([mounting_proc()])


def mounting_proc() -> linux.Call:
    """Put together what `mount_proc` does."""
    return linux.call("mount", b"proc", b"/proc", b"proc", _PROC, b"subset=pid")


def _bounds(size_bytes: int, inode_count: int) -> str:
    return f"size={size_bytes},nr_inodes={inode_count}"


def is_box_full(box: str | int) -> bool:
    """Tell whether a writable folder, by path or descriptor, has no block or no inode left."""
    try:
        state = os.statvfs(box)
    except OSError:
        return False
    return state.f_bfree == 0 or (state.f_files > 0 and state.f_ffree == 0)


def mount_work(uid: int, gid: int, *, owns_all: bool) -> None:
    """Show the base folder as a writable ``work`` in the box; changes stay in memory.

    Args:
        uid: The sandbox's user.
        gid: The sandbox's group.
        owns_all: Whether the sandbox's user is not the one that the files belong to, so that they
            have to be given to it.
    """
    upper, scratch, work = f"{BOX}/.upper", f"{BOX}/.scratch", f"{BOX}/work"
    for folder in (upper, scratch, work):
        os.mkdir(folder, 0o755)
        os.chown(folder, uid, gid)
    # With `metacopy` a file that is only given away stays where it is; its contents are not copied.
    kind = "metacopy=on" if owns_all else "userxattr"
    options = f"lowerdir={LOWER},upperdir={upper},workdir={scratch},{kind}"
    linux.mount("overlay", work, "overlay", _FIXED, options)
    if not owns_all:
        return
    for folder, folders, names in os.walk(work):
        for name in (*folders, *names):
            os.lchown(os.path.join(folder, name), uid, gid)
    os.lchown(work, uid, gid)
