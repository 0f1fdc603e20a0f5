"""A thousand runs leave the machine as it was."""

import asyncio
import gc
import os
from pathlib import Path

import pytest

from strop.sandbox import Backend
from strop.sandbox.backends.local import LocalTransport
from strop.sandbox.zygote import meter
from tests.sdk.sandbox.conftest import Tier, idle_count, open_tier, stub_pids, wait_for_idle
from tests.waiting import until

PAGE = os.sysconf("SC_PAGE_SIZE")


def _resident_bytes(pid: int | str) -> int:
    return int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * PAGE


def _descriptors(pid: int) -> int:
    """How many a process has open; 0 where that is hidden from this user.

    Those of control groups do not count: another group is made when runs overlap more than before,
    and used again; test_groups.py bounds how many there are.
    """
    try:
        names = os.listdir(f"/proc/{pid}/fd")
    except PermissionError:
        return 0
    return sum("/strop-run-" not in _target(pid, name) for name in names)


def _target(pid: int, name: str) -> str:
    try:
        return os.readlink(f"/proc/{pid}/fd/{name}")
    except FileNotFoundError:
        return ""


def _mounts() -> int:
    return len(Path("/proc/self/mountinfo").read_text().splitlines())


async def _run_one(backend: Backend, index: int) -> None:
    result = await backend.run(f"print({index})")
    assert result.text == f"{index}\n", result


async def _run_often(backend: Backend, count: int, at_once: int) -> dict[str, int]:
    """Run often, and give how much of each thing there is afterwards."""
    for start in range(0, count, at_once):
        indexes = range(start, min(start + at_once, count))
        await asyncio.gather(*(_run_one(backend, index) for index in indexes))
    stubs = stub_pids(backend)
    await wait_for_idle(backend)
    # Also those that replace the sandboxes last used are counted only when they are there.
    await until(lambda: len(meter.pids_below(stubs[0])) == idle_count(backend))
    gc.collect()
    ours = [meter.children(stubs[0])[0]]
    if backend.name in ("zygote-root", "zygote-userns"):
        # That is the watcher; the zygote is the first that it has started.
        ours += meter.children(ours[0])[:1]
    mounts = [Path(f"/proc/{pid}/mountinfo").read_text() for pid in ours]
    return {
        "processes": len(meter.pids_below(stubs[0])),
        "descriptors": len(os.listdir("/proc/self/fd")),
        "descriptors of the zygote": sum(_descriptors(pid) for pid in ours),
        "mounts": _mounts(),
        "mounts of the zygote": sum(len(text.splitlines()) for text in mounts),
        "folders": _folders(backend),
        "memory of the zygote": sum(_resident_bytes(pid) for pid in ours) >> 20,
        "memory": _resident_bytes("self") >> 20,
    }


def _folders(backend: Backend) -> int:
    """How many folders of sandboxes there are, in tiers where they are the host's."""
    transport = backend.transport
    assert isinstance(transport, LocalTransport)
    scratches = [zygote.scratch for zygote in transport._zygotes.values() if zygote.scratch]
    return sum(len(os.listdir(scratch)) for scratch in scratches)


async def _check(backend: Backend, count: int, *, at_once: int = 1) -> None:
    # So often that each of the watcher's threads has had its turn.
    before = await _run_often(backend, max(130, 4 * at_once), at_once)
    after = await _run_often(backend, count, at_once)

    growth = {name: after[name] - before[name] for name in before}
    print(f"after {count} runs: {after}; more than before: {growth}")
    assert growth.pop("memory") <= 4
    # In all, of the processes that live on.
    assert growth.pop("memory of the zygote") <= 2
    assert set(growth.values()) == {0}, growth


async def test_two_hundred_runs_leave_nothing_behind(backend: Backend) -> None:
    await _check(backend, 200)


@pytest.mark.slow
async def test_a_thousand_runs_leave_nothing_behind(backend: Backend) -> None:
    await _check(backend, 1000)


@pytest.mark.slow
@pytest.mark.timeout(3600)
async def test_fifty_thousand_runs_leave_nothing_behind(spaces: Backend) -> None:
    await _check(spaces, 50_000, at_once=200)


async def test_scratch_folders_are_gone_when_the_backend_is_closed(tier: Tier) -> None:
    backend = await open_tier(tier)
    transport = backend._transport
    assert isinstance(transport, LocalTransport)
    scratches = [zygote.scratch for zygote in transport._zygotes.values() if zygote.scratch]
    for _ in range(3):
        await backend.run("open('left', 'w').write('x')")

    await backend.close()

    assert [scratch for scratch in scratches if os.path.exists(scratch)] == []
    assert bool(scratches) == (not tier.has_namespaces)
