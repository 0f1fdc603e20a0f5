"""Choose the strongest backend that this machine offers, or refuse and say why."""

from __future__ import annotations

import errno
import os
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, TypeAlias, cast

from strop.errors import SandboxError, SandboxUnavailableError
from strop.sandbox.backends.docker import DEFAULT_IMAGE, DockerTransport
from strop.sandbox.backends.local import LocalTransport, TierName
from strop.sandbox.base import Capabilities, Level, Limits, Transport
from strop.sandbox.client import Backend

BackendName: TypeAlias = Literal[
    "auto", "zygote-root", "zygote-userns", "zygote-landlock", "docker", "unsafe-subprocess"
]
ALLOW_UNSAFE = "STROP_ALLOW_UNSAFE_SANDBOX"
"""Must be 1 for the backend ``unsafe-subprocess``, which isolates nothing."""

_LEVELS: dict[str, Level] = {
    "zygote-root": Level.NAMESPACE,
    "zygote-userns": Level.NAMESPACE,
    "docker": Level.GVISOR,
    "zygote-landlock": Level.LANDLOCK,
    "unsafe-subprocess": Level.NONE,
}
"""Of each the strongest that it can be; what it is here, its capabilities tell."""
_FIRST_WORDS = "import colorsys; print(6 * 7)"
"""Imports a module that nothing has loaded, so that an unreadable Python is noticed."""
_USERNS_REMEDY = (
    "allow user namespaces: sysctl user.max_user_namespaces=10000, on Ubuntu "
    "kernel.apparmor_restrict_unprivileged_userns=0, on old Debian "
    "kernel.unprivileged_userns_clone=1; in a container start it with "
    "--security-opt seccomp=unconfined --security-opt apparmor=unconfined"
)
_PROC_REMEDY = (
    "the container hides parts of /proc: start it with --security-opt systempaths=unconfined"
)
_READ_REMEDY = (
    "the sandbox's user cannot read this Python: install one outside a private home folder and "
    "name it as `python`"
)


@dataclass(frozen=True, slots=True)
class Probe:
    """What came of trying one backend."""

    name: str
    is_usable: bool
    message: str = ""
    errno: int | None = None
    remedy: str = ""

    def __str__(self) -> str:
        if self.is_usable:
            return f"{self.name}: works"
        code = f" [{errno.errorcode.get(self.errno, self.errno)}]" if self.errno else ""
        return f"{self.name}: {self.message}{code}. Remedy: {self.remedy}"


async def open_backend(
    name: BackendName = "auto",
    *,
    min_isolation: Level | None = None,
    concurrency: int | None = None,
    limits: Limits | None = None,
    python: str | None = None,
    user: int | None = None,
) -> Backend:
    """Open a backend that has been seen to run code.

    Args:
        name: One backend, or ``auto`` for the strongest that works.
        min_isolation: Nothing weaker is opened. `Level.LANDLOCK` lets ``auto`` fall back to the
            tier without namespaces, which does not bound the disk. None: `Level.NAMESPACE` for
            ``auto``; a backend that is named is taken as it is.
        concurrency: Runs at the same time. None: twice the cores.
        limits: Of runs that name none.
        python: Interpreter that Python code runs in. None: this one.
        user: Only as root: the user that the local backend itself runs as.

    Raises:
        SandboxUnavailableError: None works; every attempt is named with its remedy.
    """
    least = min_isolation
    if least is None:
        least = Level.NAMESPACE if name == "auto" else Level.NONE
    probes: list[Probe] = []
    for candidate in candidates(least) if name == "auto" else [name]:
        transport, probe = await attempt(candidate, python=python, user=user, least=least)
        if transport is not None:
            return Backend(transport, concurrency=concurrency, limits=limits)
        probes.append(probe)
    tried = "\n".join(f"  - {probe}" for probe in probes) or "  no backend can be that strong"
    raise SandboxUnavailableError(
        f"no sandbox of isolation {least.name} or stronger works here:\n{tried}",
        errno=probes[-1].errno if probes else None,
    )


def candidates(min_isolation: Level) -> list[str]:
    """List what ``auto`` tries, the best first."""
    zygote = "zygote-root" if os.geteuid() == 0 else "zygote-userns"
    order = [zygote, "docker", "zygote-landlock"]
    return [name for name in order if _LEVELS[name] >= min_isolation]


async def attempt(
    name: str,
    *,
    python: str | None = None,
    user: int | None = None,
    least: Level = Level.NONE,
) -> tuple[Transport | None, Probe]:
    """Try a backend by running code in it; give it open if it works and is as strong as asked."""
    if name == "unsafe-subprocess" and os.environ.get(ALLOW_UNSAFE) != "1":
        remedy = f"set {ALLOW_UNSAFE}=1 if you trust all code, or choose another backend"
        return None, Probe(name, False, "it isolates nothing and is not allowed", remedy=remedy)
    try:
        transport = await _open(name, python, user)
    except SandboxUnavailableError as error:
        text = str(error)
        return None, Probe(name, False, text, error.errno, _remedy(name, text, error.errno))
    found = transport.capabilities.isolation
    if found < least:
        await transport.close()
        text = f"its isolation is {found.name}, and {least.name} is the least that is asked for"
        return None, Probe(name, False, text, remedy=_strength_remedy(name))
    try:
        result = await Backend(transport).run(_FIRST_WORDS, limits=Limits(wall_s=20.0))
    except SandboxError as error:
        await transport.close()
        code = getattr(error, "errno", None)
        text = str(error)
        return None, Probe(name, False, text, code, _remedy(name, text, code))
    if result.is_ok and result.stdout == b"42\n":
        return transport, Probe(name, True)
    await transport.close()
    last_line = result.error_text.strip().rpartition("\n")[2]
    text = f"a first run ended with {result.status}: {last_line[-300:]}"
    return None, Probe(name, False, text, remedy=_READ_REMEDY)


async def _open(name: str, python: str | None, user: int | None) -> Transport:
    if name == "docker":
        return await DockerTransport.connect()
    return LocalTransport(cast("TierName", name), python=python, user=user)


def _remedy(name: str, text: str, code: int | None) -> str:
    if name == "docker" and "started no container" in text:
        return f"pull {DEFAULT_IMAGE}, or see the engine's message"
    if name == "docker":
        return "start a Docker or Podman daemon, and let this user reach it"
    if name == "zygote-landlock":
        return "use a kernel from 6.12 on with Landlock enabled (lsm=landlock,…)"
    rules: Sequence[tuple[bool, str]] = (
        ("proc" in text, _PROC_REMEDY),
        ("does not start" in text, _READ_REMEDY),
        (name == "zygote-userns", _USERNS_REMEDY),
        (code == errno.EPERM, "grant CAP_SYS_ADMIN, or run as an unprivileged user"),
    )
    return next(
        (remedy for applies, remedy in rules if applies), "see the message; report it if it is new"
    )


def _strength_remedy(name: str) -> str:
    if name == "docker":
        return "install gVisor, and make its `runsc` known to the engine as a runtime"
    return "take a stronger backend, or ask for less"


async def probe_all(*, python: str | None = None) -> tuple[list[Probe], dict[str, Capabilities]]:
    """Try every backend that could be chosen here, one after the other.

    Returns:
        What came of each, and what those that work can do, by their names.
    """
    probes, found = [], {}
    for name in candidates(Level.LANDLOCK):
        transport, probe = await attempt(name, python=python)
        if transport is not None:
            found[name] = transport.capabilities
            await transport.close()
        probes.append(probe)
    return probes, found
