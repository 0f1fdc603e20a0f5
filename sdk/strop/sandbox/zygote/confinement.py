"""Turns a fork of the zygote into a confined process, by calls put together before the fork.

In a fresh fork each page of memory that is touched is copied first: to look nothing up, compute
nothing and allocate little there is what makes it quick.
"""

import ctypes
import os

from strop.sandbox.zygote import linux, rootfs, seccomp
from strop.sandbox.zygote.linux import Call, call
from strop.sandbox.zygote.place import Ground

TROUBLE_FD, REQUEST_FD = 3, 4
_FIRST_FREE_FD = 5
_HERE, _OF_DESCRIPTOR, _LAST_FD = -100, 0x4, 0x7FFFFFFF


class Confinement:
    """What a fork does to become the process that code runs in, in tiers with namespaces."""

    def __init__(self, ground: Ground, first: list[Call]) -> None:
        """Put the calls together; `first` are some that the zygote itself wants made."""
        self._ground = ground
        self._uid = ctypes.c_uint(ground.uid)
        self._fds: tuple[int, ...] = ()
        self._descriptors: list[Call] = []
        self._filter = seccomp.Filter(ground.filters["none"])
        self._rest = [*first, *_mounts(), *self._user(), *self._rights()]

    def prepare(self, fds: tuple[int, ...], uid: int) -> None:
        """Say before the fork which descriptors and which user the child is to have.

        Args:
            fds: What becomes 0, 1, 2, … in the child, the mount of its folder, and the entrances
                of its control groups.
            uid: The child's user and group, where users are switched.
        """
        self._uid.value = uid
        if fds != self._fds:
            self._fds = fds
            self._descriptors = _take_descriptors(fds)

    def enter(self) -> None:
        """Give up every right, for good.

        Raises:
            OSError: The kernel refused something.
        """
        linux.perform(self._descriptors)
        linux.perform(self._rest)

    def _user(self) -> list[Call]:
        """Become another user, or enter a second user namespace.

        The latter has a count of processes of its own, and no capability in it reaches the mounts
        of the first.
        """
        uid = self._uid
        if self._ground.tier == "root":
            return [
                call("setgroups", 0, None),
                call("setresgid", uid, uid, uid),
                call("setresuid", uid, uid, uid),
            ]
        own, group = self._ground.uid, self._ground.gid
        return [
            call("prctl", linux.PR_SET_DUMPABLE, 1, 0, 0, 0),
            call("unshare", linux.NEWUSER),
            *_write("/proc/self/setgroups", "deny"),
            *_write("/proc/self/uid_map", f"{own} {own} 1"),
            *_write("/proc/self/gid_map", f"{group} {group} 1"),
        ]

    def _rights(self) -> list[Call]:
        return [
            linux.dropping_capabilities(),
            call("prctl", linux.PR_SET_DUMPABLE, 1, 0, 0, 0),
            call("prctl", linux.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0),
            self._filter.installing(),
        ]


def _take_descriptors(fds: tuple[int, ...]) -> list[Call]:
    """Move the descriptors to their places, enter the groups, mount the folder, close all else."""
    *kept, box_fd = fds[: REQUEST_FD + 2]
    entering = [call("write", fd, b"0", 1) for fd in fds[REQUEST_FD + 2 :]]
    if min(fds) <= len(kept):
        raise OSError(9, f"descriptors {fds} lie where others are to be")
    moves = [
        call("dup3", fd, wanted, 0 if wanted < TROUBLE_FD else os.O_CLOEXEC)
        for wanted, fd in enumerate(kept)
    ]
    box = (box_fd, b"", _HERE, rootfs.BOX.encode(), _OF_DESCRIPTOR)
    return [
        *moves,
        *entering,
        call("move_mount", *box),
        call("close_range", _FIRST_FREE_FD, _LAST_FD, 0),
    ]


def _mounts() -> list[Call]:
    """Look at this process's own namespaces, from its own folder, as leader of a session."""
    return [
        rootfs.mounting_proc(),
        call("setsid"),
        call("umask", 0o022),
        call("chdir", rootfs.BOX.encode()),
    ]


def _write(path: str, text: str) -> list[Call]:
    """Write a file whose descriptor will be the first that is free."""
    return [
        call("openat", _HERE, path.encode(), os.O_WRONLY | os.O_CLOEXEC, 0),
        call("write", _FIRST_FREE_FD, text.encode(), ctypes.c_size_t(len(text))),
        call("close", _FIRST_FREE_FD),
    ]
