"""Every local tier that this machine offers, as root and as a user without privileges."""

import asyncio
import os
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass

import pytest
import pytest_asyncio

from strop.errors import SandboxUnavailableError
from strop.sandbox import Backend, Limits, Profile
from strop.sandbox.backends.local import LocalTransport, TierName
from strop.sandbox.zygote import meter

MIB = 1 << 20
NOBODY = 65534
SYSTEM_PYTHON = "/usr/bin/python3"
POOL = 2
TIGHT = Limits(
    # Wide, so that only those who wait or spin for ever meet it, however slow the machine.
    wall_s=15.0,
    cpu_s=3.0,
    memory_bytes=256 * MIB,
    pid_count=32,
    file_bytes=8 * MIB,
    disk_bytes=16 * MIB,
    inode_count=2000,
    output_bytes=64 * 1024,
)


@dataclass(frozen=True)
class Tier:
    """One way to run the local backend."""

    name: TierName
    user: int | None = None

    @property
    def has_namespaces(self) -> bool:
        return self.name in ("zygote-root", "zygote-userns")

    @property
    def uid(self) -> int:
        """Of the zygote."""
        return os.geteuid() if self.user is None else self.user

    def transport(self, pool_size: int = POOL) -> LocalTransport:
        # A private home folder may hold the Python of this test, out of others' reach.
        python = None if self.name == "zygote-root" or os.geteuid() else SYSTEM_PYTHON
        return LocalTransport(self.name, python=python, user=self.user, pool_size=pool_size)

    def __str__(self) -> str:
        return self.name if self.user is None else f"{self.name} as nobody"


AS_ROOT = [
    Tier("zygote-root"),
    Tier("zygote-userns", NOBODY),
    Tier("zygote-landlock"),
    Tier("zygote-landlock", NOBODY),
]
AS_USER = [Tier("zygote-userns"), Tier("zygote-landlock")]
TIERS = AS_ROOT if os.geteuid() == 0 else AS_USER
NAMESPACED = [tier for tier in TIERS if tier.has_namespaces]

Opener = Callable[..., Awaitable[Backend]]


async def open_tier(tier: Tier, pool_size: int = POOL, concurrency: int | None = None) -> Backend:
    transport = tier.transport(pool_size)
    try:
        await transport.warm_up(Profile())
    except SandboxUnavailableError as error:
        await transport.close()
        pytest.skip(f"{tier} is not offered here: {error}")
    return Backend(transport, limits=TIGHT, concurrency=concurrency)


@pytest.fixture(params=TIERS, ids=str)
def tier(request: pytest.FixtureRequest) -> Tier:
    chosen: Tier = request.param
    return chosen


@pytest.fixture
async def backend(tier: Tier) -> AsyncIterator[Backend]:
    """A backend of each tier; whatever it ran is gone when the test ends."""
    opened = await open_tier(tier)
    yield opened
    stubs = stub_pids(opened)
    await wait_for_idle(opened)
    await opened.close()
    assert [pid for pid in stubs if os.path.exists(f"/proc/{pid}")] == []


@pytest_asyncio.fixture(loop_scope="module", scope="module")
async def opened_backends() -> AsyncIterator[dict[Tier, Backend]]:
    """Backends that a module's tests share; each is opened by the first that asks for it."""
    opened: dict[Tier, Backend] = {}
    yield opened
    for backend in opened.values():
        await backend.close()


@pytest_asyncio.fixture(loop_scope="module", scope="module")
async def shared() -> AsyncIterator[Backend]:
    """A backend of the strongest tier for all tests of a module."""
    opened = await open_tier(TIERS[0])
    yield opened
    await opened.close()


@pytest.fixture
async def spaces() -> AsyncIterator[Backend]:
    """A backend of the strongest tier."""
    opened = await open_tier(TIERS[0])
    yield opened
    await opened.close()


def stub_pids(backend: Backend) -> list[int]:
    transport = backend._transport
    assert isinstance(transport, LocalTransport)
    return transport.stub_pids


async def wait_for_idle(backend: Backend, most_s: float = 120.0) -> None:
    """Wait until nothing but the zygote and its prepared sandboxes is left."""
    end = time.monotonic() + most_s
    idle = idle_count(backend)
    for stub in stub_pids(backend):
        rest = meter.pids_below(stub)
        while len(rest) > idle and time.monotonic() < end:
            await asyncio.sleep(0.02)
            rest = meter.pids_below(stub)
        assert len(rest) <= idle, f"left behind: {[command_of(pid) for pid in rest]}"


def idle_count(backend: Backend) -> int:
    """How many processes are below a stub once all sandboxes are prepared and none is used."""
    has_watcher = backend.name in ("zygote-root", "zygote-userns")
    # The zygote, its watcher where it has one, and two processes of each prepared sandbox.
    return 1 + has_watcher + 2 * POOL


def command_of(pid: int) -> str:
    try:
        with open(f"/proc/{pid}/cmdline", "rb") as file:
            return file.read().replace(b"\0", b" ").decode(errors="replace")
    except OSError:
        return "gone"
