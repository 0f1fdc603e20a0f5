"""What every sandbox offers: limits, results, capabilities, and the protocols behind them."""

from __future__ import annotations

import enum
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, Protocol, Self, TypeAlias

from strop.errors import SettingsError
from strop.sandbox.wire import Reply, Request

MEBIBYTE = 1 << 20
_LEAST = {"open_file_count": 6, "inode_count": 3}
"""What the sandbox itself takes: the standard streams and what a session or a file operation holds
open, and the two folders that each sandbox begins with."""
_TOO_LARGE = 1 << 62

Status: TypeAlias = Literal[
    "ok",
    "nonzero",
    "signal",
    "timeout",
    "oom",
    "process_limit",
    "output_limit",
    "disk_full",
]
"""How code ended. A fault of the sandbox itself is no status: it raises `SandboxError`."""

Network: TypeAlias = Literal["none", "loopback", "host"]
"""``none``: no sockets but socketpairs. ``loopback``: the sandbox's own loopback only."""


class Level(enum.IntEnum):
    """How strongly code is kept apart from the host; greater is stronger."""

    NONE = 0
    """A plain child process: limits, but no isolation."""
    LANDLOCK = 1
    """Paths, TCP, signals and system calls; shares user, process list and disk with the host."""
    NAMESPACE = 2
    """Its own processes, files, network and users; shares the kernel."""
    CONTAINER = 3
    """A container engine's namespaces and control groups; shares the kernel."""
    GVISOR = 4
    """A kernel in user space answers its system calls."""
    MICROVM = 5
    """A kernel of its own."""


@dataclass(frozen=True, slots=True)
class Limits:
    """What one run, with everything that it starts, may use.

    Raises:
        SettingsError: A limit is not above 0, is lower than the sandbox itself needs, or is no
            number below 2**62.
    """

    wall_s: float = 10.0
    """From the first instruction on; waiting in a queue does not count."""
    cpu_s: float = 10.0
    """Of all its processes together, user and system time."""
    memory_bytes: int = 512 * MEBIBYTE
    """Of all its processes together; also the address space of each, see `address_space_bytes`."""
    pid_count: int = 64
    """Processes and threads at one time; dead ones count until somebody has waited for them."""
    open_file_count: int = 256
    """Of each process; 6 or more. A shell's redirections need 11."""
    output_bytes: int = MEBIBYTE
    """Kept of each of stdout and stderr; a run that writes four times as much is ended."""
    file_bytes: int = 16 * MEBIBYTE
    """Of one file."""
    disk_bytes: int = 64 * MEBIBYTE
    """Of all files together."""
    inode_count: int = 16384
    """Files and folders together; 3 or more, of which the sandbox's own two folders are two."""
    address_space_bytes: int | None = None
    """Of each process. None: as much as `memory_bytes`; 0: no bound, for runtimes that reserve
    much more than they use (JavaScript, Java, Go)."""

    def __post_init__(self) -> None:
        numbers = self.to_wire()
        wrong = [
            f"{name}={value!r}"
            for name, value in numbers.items()
            if not (0 < value < _TOO_LARGE or (name == "address_space_bytes" and value == 0))
        ]
        if wrong:
            raise SettingsError(
                f"Limits of a sandbox must be above 0 and below 2**62: {', '.join(wrong)}. Only "
                "`address_space_bytes` may be 0, for no bound."
            )
        low = [
            f"{name}={numbers[name]!r}, of which it needs {least}"
            for name, least in _LEAST.items()
            if numbers[name] < least
        ]
        if low:
            raise SettingsError(f"A sandbox cannot work with {' and '.join(low)} or more.")

    @classmethod
    def from_wire(cls, numbers: Mapping[str, Any]) -> Self:
        """Give back what `to_wire` has made plain."""
        return cls(**numbers)

    def to_wire(self) -> dict[str, float]:
        """Give every limit as a plain number."""
        bound = self.memory_bytes if self.address_space_bytes is None else self.address_space_bytes
        return {
            "wall_s": self.wall_s,
            "cpu_s": self.cpu_s,
            "memory_bytes": self.memory_bytes,
            "pid_count": self.pid_count,
            "open_file_count": self.open_file_count,
            "output_bytes": self.output_bytes,
            "file_bytes": self.file_bytes,
            "disk_bytes": self.disk_bytes,
            "inode_count": self.inode_count,
            "address_space_bytes": bound,
        }


@dataclass(frozen=True, slots=True)
class ExecResult:
    """How a run ended, and what it wrote."""

    status: Status
    exit_code: int | None
    """None when a signal ended it."""
    signal: int | None = None
    limit: str | None = None
    """Which limit ended it, by the name of a field of `Limits`."""
    stdout: bytes = b""
    """The first `Limits.output_bytes` of it."""
    stderr: bytes = b""
    stdout_bytes: int = 0
    """How much it wrote, kept or not."""
    stderr_bytes: int = 0
    wall_s: float = 0.0
    cpu_s: float = 0.0
    peak_bytes: int = 0
    """Most memory seen in use; sampled, save for that of a single process."""
    queue_s: float = 0.0
    """Spent waiting for its turn; never charged to the run."""
    setup_s: float = 0.0
    """Between its turn and its first instruction."""
    files: Mapping[str, bytes | OSError] = field(default_factory=dict)
    """What was asked to be collected, or why it could not be."""
    backend: str = ""
    isolation: Level = Level.NONE

    @property
    def is_ok(self) -> bool:
        """Whether it ended by itself with exit code 0."""
        return self.status == "ok"

    @property
    def text(self) -> str:
        """Stdout as text; bytes that are no UTF-8 are replaced."""
        return self.stdout.decode(errors="replace")

    @property
    def error_text(self) -> str:
        """Stderr as text; bytes that are no UTF-8 are replaced."""
        return self.stderr.decode(errors="replace")

    @property
    def is_truncated(self) -> bool:
        """Whether more was written than was kept."""
        return self.stdout_bytes > len(self.stdout) or self.stderr_bytes > len(self.stderr)


@dataclass(frozen=True, slots=True)
class Capabilities:
    """What a backend can do, and which limits it enforces how."""

    isolation: Level
    enforced: Mapping[str, str]
    """Field of `Limits` → by what."""
    not_enforced: Mapping[str, str]
    """Field of `Limits`, or threat → why, and what would mend it."""
    networks: frozenset[Network] = frozenset({"none"})
    has_snapshots: bool = False
    has_sessions: bool = False
    has_base_folders: bool = False
    """Whether a folder of the host can lie, unchanged, beneath a sandbox's own changes."""
    has_ports: bool = False
    """Whether servers inside, on a loopback of their own, can be reached from outside."""
    has_terminals: bool = False
    has_images: bool = False


@dataclass(frozen=True, slots=True)
class Profile:
    """What is ready before code arrives; sandboxes of one profile start from one zygote."""

    preload: tuple[str, ...] = ()
    """Modules imported once, before any run, besides a few of the standard library."""
    python_paths: tuple[str, ...] = ()
    """Folders that Python imports from, besides its standard library."""
    mounts: tuple[str, ...] = ()
    """Folders of the host, visible read-only at their own paths."""
    base_folder: str | None = None
    """Folder of the host that sandboxes see as a copy-on-write ``/box/work``."""


@dataclass(frozen=True, slots=True)
class SandboxSpec:
    """A sandbox that lives longer than one run."""

    limits: Limits = field(default_factory=Limits)
    """Of each run in it; `Limits.disk_bytes` and `Limits.memory_bytes` also of all together, and as
    root, where a sandbox has one user, `Limits.pid_count`."""
    network: Network = "none"
    profile: Profile = field(default_factory=Profile)
    env: Mapping[str, str] = field(default_factory=dict)
    """Variables of every run in it; nothing is inherited from the host."""
    image: str | None = None
    """For backends that have images."""


class Channel(Protocol):
    """One run's way in and out: a request, then frames in both directions."""

    async def send(self, frame: bytes) -> None:
        """Send one frame, made by `strop.sandbox.wire`."""
        ...

    async def receive(self) -> Reply | None:
        """Give the next frame; None when the other side is gone."""
        ...

    def close(self) -> None:
        """End the run if it has not ended; at once, and as often as one likes."""
        ...


class Room(Protocol):
    """A living sandbox as its backend sees it; runs enter through channels."""

    async def open_channel(self) -> Channel:
        """Open the way for one more run."""
        ...

    def close(self) -> None:
        """End every run in it and remove its files; as often as one likes."""
        ...


class Transport(Protocol):
    """What a backend has to provide; everything else is built on it, once for all backends."""

    name: str

    @property
    def capabilities(self) -> Capabilities:
        """What it can do."""
        ...

    async def open_run(self, profile: Profile, limits: Limits) -> Channel:
        """Open the way for one run in a sandbox of its own, which ends with it.

        Args:
            profile: What is prepared.
            limits: Those that the run's request will name.
        """
        ...

    async def open_room(self, spec: SandboxSpec) -> Room:
        """Start a sandbox that lives until it is closed."""
        ...

    async def close(self) -> None:
        """End everything; further calls fail."""
        ...


Argv: TypeAlias = Sequence[str]

__all__ = [
    "MEBIBYTE",
    "Argv",
    "Capabilities",
    "Channel",
    "ExecResult",
    "Level",
    "Limits",
    "Network",
    "Profile",
    "Reply",
    "Request",
    "Room",
    "SandboxSpec",
    "Status",
    "Transport",
]
