"""What each local tier can do, which limits it enforces how, and what it leaves open."""

from __future__ import annotations

from collections.abc import Mapping

from strop.sandbox.base import Capabilities, Level
from strop.sandbox.zygote.place import Tier

_EVERYWHERE = {
    "wall_s": "the supervisor's clock",
    "cpu_s": "RLIMIT_CPU for each process; the watchdog, every 50 ms, for all together",
    "open_file_count": "RLIMIT_NOFILE",
    "output_bytes": "the supervisor",
    "file_bytes": "RLIMIT_FSIZE",
    "address_space_bytes": "RLIMIT_AS",
    "memory_bytes": "RLIMIT_AS for each process; the watchdog, every 50 ms, for all together",
}
_IN_NAMESPACES = {
    "pid_count": "RLIMIT_NPROC of a user, or user namespace, of its own",
    "disk_bytes": "the size of the sandbox's tmpfs",
    "inode_count": "the inodes of the sandbox's tmpfs",
}
_OF_A_SHARED_USER = {
    "pid_count": "the watchdog, every 50 ms, which ends the run; RLIMIT_NPROC counts the whole "
    "user and is only a last stop"
}
_KERNEL_MEMORY = (
    "buffers of pipes and sockets are counted only by a control group, and none is used; they are "
    "bounded by `open_file_count` times `pid_count`"
)
_KERNEL_MEMORY_IN_GROUPS = (
    "buffers of sockets are bounded by `open_file_count` times `pid_count` alone"
)
_MEMORY_BETWEEN_LOOKS = (
    "several processes together can pass `memory_bytes` until the watchdog looks, every 50 ms and "
    "later on a busy machine; only a control group stops them at once, and none is used"
)
UNWAITED = (
    "of children that live shorter than 50 ms, and that nobody waits for, is missed; `wall_s` "
    "bounds it"
)
_SHARED_KERNEL = "a fault of the kernel is not contained; use gVisor or a micro-VM against that"
_OPEN_EVERYWHERE = {
    "processor time": UNWAITED,
    "kernel memory": _KERNEL_MEMORY,
    "memory between two looks": _MEMORY_BETWEEN_LOOKS,
    "shared kernel": _SHARED_KERNEL,
}
_LIMIT_OF_GROUP = {"memory": "memory_bytes", "pids": "pid_count"}
_BY_GROUP = {
    "memory": "a control group ({}), with room for `disk_bytes` and 64 MiB, is the last stop",
    "pids": "in plain runs also a control group ({})",
}
_NO_GROUPS: Mapping[str, str] = {}
_NO_MOUNT = "there is no mount of its own to bound it; use a tier with namespaces"


def of_tier(tier: Tier, group_bounds: Mapping[str, str] = _NO_GROUPS) -> Capabilities:
    """Give what sandboxes of a tier can do.

    Args:
        tier: Which one.
        group_bounds: ``memory`` and ``pids``, where control groups bound them → their version.
    """
    if tier in ("root", "userns"):
        return Capabilities(
            isolation=Level.NAMESPACE,
            enforced=_with_groups({**_EVERYWHERE, **_IN_NAMESPACES}, group_bounds),
            not_enforced=_open_with_groups(group_bounds),
            networks=frozenset({"none", "loopback"}),
            has_base_folders=True,
            has_ports=True,
            has_snapshots=True,
            has_sessions=True,
        )
    open_ends = {
        "disk_bytes": _NO_MOUNT,
        "inode_count": _NO_MOUNT,
        **_OPEN_EVERYWHERE,
    }
    if tier == "landlock":
        return Capabilities(
            isolation=Level.LANDLOCK,
            enforced={**_EVERYWHERE, **_OF_A_SHARED_USER},
            not_enforced={
                **open_ends,
                "user": "unless started as root, code has the user of this process; other "
                "processes of it are protected by Landlock alone",
                "all killed at once": "when two of our processes are killed together, a sandbox's "
                "processes may survive; only namespaces or control groups exclude that",
            },
            has_snapshots=True,
            has_sessions=True,
        )
    return Capabilities(
        isolation=Level.NONE,
        enforced={**_EVERYWHERE, **_OF_A_SHARED_USER},
        not_enforced={**open_ends, "isolation": "none: code can do all that this process can"},
        networks=frozenset({"host"}),
        has_snapshots=True,
        has_sessions=True,
    )


def _with_groups(enforced: Mapping[str, str], bounds: Mapping[str, str]) -> dict[str, str]:
    """Say where a control group stands behind a limit."""
    said = dict(enforced)
    for name, version in bounds.items():
        said[_LIMIT_OF_GROUP[name]] += "; " + _BY_GROUP[name].format(version)
    return said


def _open_with_groups(bounds: Mapping[str, str]) -> dict[str, str]:
    """Say what is left open where control groups bound what is told."""
    said = dict(_OPEN_EVERYWHERE)
    if "memory" in bounds:
        said["kernel memory"] = _KERNEL_MEMORY_IN_GROUPS
        del said["memory between two looks"]
    return said
