"""The sandbox's file tree: the system read-only, one writable folder in memory, no more."""

import os
import sys
from collections.abc import Iterable

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
    linux.mount("tmpfs", _STAGE, "tmpfs", _FIXED, "size=4m,mode=755")
    for path in (*readable_paths(mounts), *_CONFIGURATION):
        _bind(path, path)
    for name in _DEVICES:
        _bind(f"/dev/{name}", f"/dev/{name}", is_device=True)
    for folder in ("etc", "proc", "box", "lower", "old"):
        os.makedirs(f"{_STAGE}/{folder}", exist_ok=True)
    if base_folder is not None:
        _bind(base_folder, LOWER)
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
        os.symlink(target, _STAGE + link)


def _bind(source: str, target: str, *, is_device: bool = False) -> None:
    """Show a path of the host in the new tree; a missing one is passed over."""
    place = _STAGE + target
    if source == target and os.path.islink(source):
        if not os.path.lexists(place):
            os.makedirs(os.path.dirname(place), exist_ok=True)
            os.symlink(os.readlink(source), place)
        return
    if not os.path.exists(source):
        return
    if os.path.isdir(source):
        os.makedirs(place, exist_ok=True)
    elif not os.path.exists(place):
        os.makedirs(os.path.dirname(place), exist_ok=True)
        with open(place, "w"):
            pass
    linux.mount(source, place, None, linux.MS_BIND | linux.MS_REC)
    if not is_device:
        linux.make_read_only(place)


def mount_box(size_bytes: int, inode_count: int, uid: int, gid: int) -> None:
    """Mount this sandbox's own writable folder and its own ``/proc``."""
    options = f"mode=700,uid={uid},gid={gid},{_bounds(size_bytes, inode_count)}"
    linux.mount("tmpfs", BOX, "tmpfs", _FIXED, options)
    mount_proc()
    temporary = os.path.join(BOX, "tmp")
    os.mkdir(temporary)
    os.chmod(temporary, 0o1777)  # noqa: S103 - one user, and the parent is 0700


def mount_proc() -> None:
    """Mount a ``/proc`` that shows only this process namespace."""
    linux.mount("proc", "/proc", "proc", _PROC, "subset=pid")


def resize_box(size_bytes: int, inode_count: int) -> None:
    """Change how much the writable folder holds."""
    bounds = _bounds(size_bytes, inode_count)
    linux.mount(None, BOX, None, linux.MS_REMOUNT | _FIXED, bounds)


def _bounds(size_bytes: int, inode_count: int) -> str:
    return f"size={size_bytes},nr_inodes={inode_count}"


def is_box_full(box: str) -> bool:
    """Tell whether the writable folder has no block or no inode left."""
    try:
        state = os.statvfs(box)
    except OSError:
        return False
    return state.f_bfree == 0 or (state.f_files > 0 and state.f_ffree == 0)


def mount_work(uid: int, gid: int) -> None:
    """Show the base folder as a writable ``work`` in the box; changes stay in memory."""
    upper, scratch, work = f"{BOX}/.upper", f"{BOX}/.scratch", f"{BOX}/work"
    for folder in (upper, scratch, work):
        os.mkdir(folder, 0o755)
        os.chown(folder, uid, gid)
    options = f"lowerdir={LOWER},upperdir={upper},workdir={scratch},userxattr"
    linux.mount("overlay", work, "overlay", _FIXED, options)
