"""Find out by doing whether this process may bound others by control groups."""

from __future__ import annotations

import errno
import os
import subprocess
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from strop.sandbox.zygote.groups import remove

_CONTROLLERS: Mapping[str, Mapping[str, tuple[str, str]]] = {
    "cgroup": {
        "memory": ("memory.limit_in_bytes", str(64 << 20)),
        "pids": ("pids.max", "32"),
        "cpu": ("cpu.cfs_quota_us", "50000"),
    },
    "cgroup2": {
        "memory": ("memory.max", str(64 << 20)),
        "pids": ("pids.max", "32"),
        "cpu": ("cpu.max", "50000 100000"),
    },
}
"""By the kind of the hierarchy: which file of a group bounds what, and a bound to try."""
_EMPTY_S = 2.0


@dataclass(frozen=True, slots=True)
class Hierarchy:
    """One mounted tree of groups, and where this process is in it."""

    kind: str
    """``cgroup`` for version 1, ``cgroup2`` for version 2."""
    mount: Path
    own: Path

    @property
    def parents(self) -> list[Path]:
        """Where a group could be made: below this process's own one, or in version 2 beside it.

        A group of version 2 that has processes can pass no controllers on, so that one's own
        rarely will do; those above it can, where they were delegated to this user.
        """
        if self.kind == "cgroup":
            return [self.own]
        above = [path for path in self.own.parents if path.is_relative_to(self.mount)]
        return [self.own, *above]


@dataclass(frozen=True, slots=True)
class Found:
    """What could be bounded, by the version of control groups that does it."""

    bounds: Mapping[str, str]
    """``memory``, ``pids`` or ``cpu`` → ``v1`` or ``v2``."""
    refusals: Mapping[str, OSError]
    """Where no group could be made, or no process put into it."""

    def __str__(self) -> str:
        if self.bounds:
            return ", ".join(f"{name} ({version})" for name, version in sorted(self.bounds.items()))
        causes = {
            f"{path}: {error.strerror} [{errno.errorcode.get(error.errno or 0, error.errno)}]"
            for path, error in self.refusals.items()
        }
        return "none" + "".join(f"; {cause}" for cause in sorted(causes)[:2])


def probe() -> Found:
    """Make a group in each hierarchy, set bounds, put a process into it, and remove it again."""
    bounds: dict[str, str] = {}
    refusals: dict[str, OSError] = {}
    for hierarchy in hierarchies(Path("/proc/self")):
        version = "v2" if hierarchy.kind == "cgroup2" else "v1"
        for parent in hierarchy.parents:
            try:
                found = _try_in(parent, hierarchy.kind)
            except OSError as error:
                refusals[str(parent)] = error
                continue
            bounds |= {name: version for name in found if name not in bounds}
            if found:
                break
    return Found(bounds, refusals)


def folders(wanted: Mapping[str, Sequence[str]]) -> list[tuple[str, str, list[str]]]:
    """Find where groups can be made that bound what is `wanted`, each thing once.

    Args:
        wanted: By the kind of the hierarchy: names as in `Found.bounds`.

    Returns:
        Folders, the kinds of their hierarchies, and what groups below them bound.
    """
    found: list[tuple[str, str, list[str]]] = []
    missing = {name for names in wanted.values() for name in names}
    for hierarchy in hierarchies(Path("/proc/self")):
        for parent in hierarchy.parents:
            names = [name for name in wanted[hierarchy.kind] if name in missing]
            try:
                given = _try_in(parent, hierarchy.kind, names)
            except OSError:
                continue
            if given:
                missing -= set(given)
                found.append((str(parent), hierarchy.kind, given))
                break
    return found


def hierarchies(process: Path) -> Iterator[Hierarchy]:
    """Read which hierarchies are mounted; `process` is its folder below ``/proc``."""
    try:
        mounts = (process / "mountinfo").read_text().splitlines()
        groups = (process / "cgroup").read_text().splitlines()
    except OSError:
        return
    paths = {names: path for _, names, path in (line.split(":", 2) for line in groups)}
    for line in mounts:
        fields, _, rest = line.partition(" - ")
        kind, _, options = rest.split(" ", 2)
        words = set(options.split(","))
        if kind not in _CONTROLLERS or (kind == "cgroup" and not words & set(_CONTROLLERS[kind])):
            continue
        root, mount = fields.split()[3:5]
        names = "" if kind == "cgroup2" else next((n for n in paths if n in words), None)
        own = paths.get(names, "/") if names is not None else "/"
        below = own[len(root) :] if root != "/" and own.startswith(root) else own
        folder = Path(mount) / below.lstrip("/")
        yield Hierarchy(kind, Path(mount), folder if folder.is_dir() else Path(mount))


def _try_in(parent: Path, kind: str, names: Sequence[str] | None = None) -> list[str]:
    """Give what a new group below `parent` bounds, of all that there is or of `names`."""
    bounds = _CONTROLLERS[kind]
    tried = bounds if names is None else names
    # Threads may try at the same time.
    number = threading.get_native_id()
    group = parent / f"strop-probe-{os.stat('/proc/self/ns/pid').st_ino}-{os.getpid()}-{number}"
    group.mkdir()
    try:
        found = [name for name in tried if _set(group, *bounds[name])]
        if found:
            _move_one_into(group)
        return found
    finally:
        remove(str(group), None, time.monotonic() + _EMPTY_S)


def _set(group: Path, name: str, value: str) -> bool:
    try:
        # Opened without creating: a folder that is no group must not pass for one.
        with open(group / name, "r+") as file:
            file.write(value)
    except OSError:
        return False
    return True


def _move_one_into(group: Path) -> None:
    with subprocess.Popen(["cat"], stdin=subprocess.PIPE, stdout=subprocess.DEVNULL) as process:
        try:
            with open(group / "cgroup.procs", "r+") as file:
                file.write(str(process.pid))
            if group.name not in Path(f"/proc/{process.pid}/cgroup").read_text():
                raise OSError(errno.EIO, "a process did not arrive in its group")
        finally:
            process.kill()
