"""Control groups that runs sit in, where the machine gives them: the kernel's own last stop.

A group is made once and used by one run after the other. Processes enter theirs before they give
up their rights, ahead of the run, so that no run waits for the kernel's moving of processes.
"""

import errno
import os
import re
import select
import threading
import time
from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass

_ROOM_BYTES = 64 << 20
"""Beyond a run's memory and files: tables and buffers of the kernel, and pages being given back."""
_LEFT_BYTES = 16 << 20
"""A group that holds more after its run is not used again: it might not fit the next one."""
_NAME = re.compile(r"strop-(?:run|probe)-(\d+)-(\d+)-\d+")
_EMPTY_S, _DYING_S = 2.0, 30.0
_MOST_BYTES, _MOST_PIDS = 1 << 62, 1 << 22
"""What the kernel takes as a bound."""
FILES: Mapping[str, Mapping[str, tuple[str, ...]]] = {
    "cgroup": {
        "memory": ("memory.limit_in_bytes", "memory.oom_control", "memory.usage_in_bytes"),
        "pids": ("pids.max",),
    },
    "cgroup2": {"memory": ("memory.max", "memory.events", "memory.current"), "pids": ("pids.max",)},
}
"""By the kind of the hierarchy: which file of a group bounds what; of memory also which one counts
kills, and which one tells the use."""
_KILLS = re.compile(rb"^oom_kill (\d+)$", re.MULTILINE)


class GroupError(OSError):
    """A group could not be made; code that is to be bounded by it does not run."""


@dataclass(slots=True)
class Group:
    """What one run's processes are bounded by, in one hierarchy or several."""

    name: str
    entrances: list[int]
    """Descriptors; a process that writes ``0`` to all of them is in."""
    bounds: dict[str, int]
    """``memory`` and ``pids`` → descriptor of the file that holds the bound."""
    kills_fd: int = -1
    usage_fd: int = -1
    entrance: int = -1
    """The one of them that leads to where memory is bounded."""
    _held: tuple[int, int] = (-1, -1)
    _kill_count: int = 0

    @property
    def is_empty(self) -> bool:
        """Whether no process is where its memory is bounded, or somebody else has removed it."""
        try:
            return not os.pread(self.entrance, 1, 0)
        except OSError:
            return True

    def enter(self) -> None:
        """Put this process in."""
        for fd in self.entrances:
            os.write(fd, b"0")

    def widen(self, memory_bytes: int, disk_bytes: int) -> None:
        """Let a run that is allowed more than the others in it have that."""
        wanted = _bound(memory_bytes, disk_bytes)
        if wanted > int(os.pread(self.bounds["memory"], 32, 0)):
            os.pwrite(self.bounds["memory"], str(wanted).encode(), 0)
        self.note()

    def fit(self, memory_bytes: int, disk_bytes: int, pid_count: int) -> None:
        """Set the bounds for the run that comes next; files in its folder are memory, too."""
        wanted = _bound(memory_bytes, disk_bytes), min(pid_count, _MOST_PIDS)
        if wanted != self._held:
            for name, value in zip(("memory", "pids"), wanted, strict=True):
                if name in self.bounds:
                    os.pwrite(self.bounds[name], str(value).encode(), 0)
            self._held = wanted
        self.note()

    def hand_over(self) -> None:
        """Leave its bounds to another process, for which processes are not bounded here."""
        if "pids" in self.bounds:
            os.pwrite(self.bounds["pids"], b"max", 0)
        self._held = (-1, -1)

    def note(self) -> None:
        """Begin to look out for kills."""
        self._kill_count = self._kills()

    @property
    def has_run_out(self) -> bool:
        """Whether the kernel has killed in it, for want of memory, since that was last noted."""
        return self._kills() > self._kill_count

    @property
    def is_reusable(self) -> bool:
        """Whether it is there, and next to nothing left in it that is still being given back."""
        try:
            return self.usage_fd < 0 or int(os.pread(self.usage_fd, 32, 0)) <= _LEFT_BYTES
        except OSError:
            return False

    def close(self) -> None:
        """Close what is open of it."""
        for fd in (*self.entrances, *self.bounds.values(), self.kills_fd, self.usage_fd):
            if fd >= 0:
                os.close(fd)

    def _kills(self) -> int:
        if self.kills_fd < 0:
            return 0
        found = _KILLS.search(os.pread(self.kills_fd, 4096, 0))
        return int(found[1]) if found else 0


def _bound(memory_bytes: int, disk_bytes: int) -> int:
    return min(memory_bytes + disk_bytes + _ROOM_BYTES, _MOST_BYTES)


def of_memory(fds: tuple[int, ...]) -> Group | None:
    """Put together what `Groups.lend` gave, after its first descriptor, in another process."""
    if not fds:
        return None
    entrance, bound, kills = fds
    return Group("", [entrance], {"memory": bound}, kills_fd=kills, entrance=entrance)


class Groups:
    """The groups of one zygote."""

    def __init__(self, number: int, folders: Iterable[tuple[str, str, list[str]]]) -> None:
        """Open the folders, and remove groups that dead zygotes have left there.

        Args:
            number: Of the process with whose death these groups lose their use.
            folders: As `control_groups.folders` gives them.
        """
        self._prefix = prefix(number)
        self._parents: list[tuple[int, str, list[str]]] = []
        self._free: list[Group] = []
        self._lent: list[tuple[int, Group]] = []
        self._count = 0
        self._lock = threading.Lock()
        for folder, kind, names in folders:
            fd = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
            self._parents.append((fd, kind, names))
            _sweep(fd)

    def take(self) -> Group | None:
        """Give a group that is empty; None where there are none to have."""
        if not self._parents:
            return None
        self._take_back_lent()
        with self._lock:
            if self._free:
                return self._free.pop(0)
            self._count += 1
            name = f"{self._prefix}{self._count}"
        return self._make(name)

    def lend(self) -> list[int]:
        """Give a group away to a process that looks after its own runs, by descriptors for it.

        Returns:
            Nothing where memory cannot be bounded. Otherwise what that process has to keep open
            as long as it lives, which is for the caller to close, and what `of_memory` takes.
        """
        group = self.take()
        if group is None:
            return []
        if group.entrance < 0:
            self.give_back(group)
            return []
        group.hand_over()
        over_r, over_w = os.pipe2(os.O_CLOEXEC)
        with self._lock:
            self._lent.append((over_r, group))
        return [over_w, group.entrance, group.bounds["memory"], group.kills_fd]

    def _take_back_lent(self) -> None:
        with self._lock:
            over = [entry for entry in self._lent if _has_hung_up(entry[0]) and entry[1].is_empty]
            self._lent = [entry for entry in self._lent if entry not in over]
        for over_fd, group in over:
            os.close(over_fd)
            self.give_back(group)

    def give_back(self, group: Group) -> None:
        """Take back a group whose processes are all gone."""
        if group.is_reusable:
            with self._lock:
                self._free.append(group)
            return
        group.close()
        for parent, _, _ in self._parents:
            remove(group.name, parent, time.monotonic() + _EMPTY_S)

    def _make(self, name: str) -> Group:
        group = Group(name, [], {})
        try:
            for parent, kind, names in self._parents:
                os.mkdir(name, dir_fd=parent)
                _join_up(group, parent, {what: FILES[kind][what] for what in names})
        except OSError as error:
            group.close()
            text = f"a control group cannot be made: {error.strerror}"
            raise GroupError(error.errno, text) from error
        return group

    def remove(self) -> None:
        """Remove them all, once nothing is left in them."""
        for parent, _, _ in self._parents:
            _remove_all(self._prefix, parent, _EMPTY_S)


def _has_hung_up(fd: int) -> bool:
    poll = select.poll()
    poll.register(fd, 0)
    return bool(poll.poll(0))


def prefix(number: int) -> str:
    """Give what the names of groups begin with that belong to a process of this namespace."""
    return f"strop-run-{os.stat('/proc/self/ns/pid').st_ino}-{number}-"


def remove_left(number: int, folders: Iterable[tuple[str, str, list[str]]]) -> None:
    """Remove what a zygote has left that could not do so itself."""
    for folder, _, _ in folders:
        with suppress(OSError):
            fd = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
            try:
                _remove_all(prefix(number), fd, _DYING_S)
            finally:
                os.close(fd)


def _remove_all(beginning: str, parent: int, most_s: float) -> None:
    end = time.monotonic() + most_s
    for name in os.listdir(parent):
        if name.startswith(beginning):
            remove(name, parent, end)


def remove(name: str, parent: int | None, end: float) -> None:
    """Remove a group, by when it must be empty; what is in it may still be dying."""
    while True:
        try:
            os.rmdir(name, dir_fd=parent)
        except OSError as error:
            if error.errno == errno.ENOENT or time.monotonic() > end:
                return
            time.sleep(0.01)
        else:
            return


def _join_up(group: Group, parent: int, files: Mapping[str, tuple[str, ...]]) -> None:
    """Open what `group` needs of its part in one hierarchy."""
    at = os.open(group.name, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC, dir_fd=parent)
    try:
        group.entrances.append(_open(at, "cgroup.procs", os.O_RDWR))
        for what, (bound, *others) in files.items():
            group.bounds[what] = _open(at, bound, os.O_RDWR)
            if what == "memory":
                group.entrance = group.entrances[-1]
                kills, usage = others
                group.kills_fd = _open(at, kills, os.O_RDONLY)
                group.usage_fd = _open(at, usage, os.O_RDONLY)
                _keep_from_swap(at)
    finally:
        os.close(at)


def _open(at: int, name: str, flags: int) -> int:
    return os.open(name, flags | os.O_CLOEXEC, dir_fd=at)


def _keep_from_swap(at: int) -> None:
    """Let a run's memory not go to disk instead of meeting its bound; swap may not be there."""
    for name in ("memory.swappiness", "memory.swap.max"):
        with suppress(OSError):
            fd = _open(at, name, os.O_WRONLY)
            try:
                os.write(fd, b"0")
            finally:
                os.close(fd)


def _sweep(parent: int) -> None:
    """Remove groups of processes of this namespace that are dead."""
    own = str(os.stat("/proc/self/ns/pid").st_ino)
    for name in os.listdir(parent):
        found = _NAME.fullmatch(name)
        if found and found[1] == own and not os.path.exists(f"/proc/{found[2]}"):
            with suppress(OSError):
                os.rmdir(name, dir_fd=parent)
