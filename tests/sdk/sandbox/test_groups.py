"""Where the machine gives control groups, the kernel bounds runs without the watchdog."""

import asyncio
import os
import signal
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

import pytest

from strop.errors import SandboxError
from strop.sandbox import Backend, ExecResult, Limits, SandboxSpec, control_groups
from strop.sandbox.zygote import meter
from tests.sdk.sandbox.conftest import MIB, POOL, TIERS, TIGHT, open_tier, stub_pids, wait_for_idle
from tests.waiting import LIMIT_S, until

HOARD = """
import mmap, os, signal, time
signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGUSR1})
if os.fork() == 0:
    time.sleep(600)
signal.sigwait({signal.SIGUSR1})
for _ in range(6):
    if os.fork() == 0:
        block = mmap.mmap(-1, 120 << 20)
        for start in range(0, len(block), 4096):
            block[start] = 1
        time.sleep(600)
        os._exit(0)
time.sleep(600)
"""
MOST = TIGHT.memory_bytes + TIGHT.disk_bytes + 64 * MIB


@pytest.fixture
async def grouped() -> AsyncIterator[Backend]:
    """A backend whose runs sit in groups for memory."""
    opened = await open_tier(TIERS[0])
    if "control group" not in opened.capabilities.enforced["memory_bytes"]:
        await opened.close()
        pytest.skip("no control groups for memory are to be had here")
    yield opened
    await opened.close()


def _groups(stub: int) -> list[Path]:
    """All groups of this zygote, in each hierarchy."""
    folders = [
        parent
        for hierarchy in control_groups.hierarchies(Path("/proc/self"))
        for parent in hierarchy.parents
    ]
    return [path for folder in folders for path in folder.glob(f"strop-run-*-{stub}-*")]


def _hoarder(stub: int, depth: int) -> int:
    """The process in a group that is so far below its first one, and has a child; 0 before that."""
    # What is looked at may end meanwhile.
    with suppress(OSError):
        found = {int(pid) for group in _groups(stub) for pid in _pids(group)}
        for pid in found:
            if meter.children(pid):
                above = pid
                for _ in range(depth):
                    above = _parent(above)
                if above in found and _parent(above) not in found:
                    return pid
    return 0


def _pids(group: Path) -> list[str]:
    return (group / "cgroup.procs").read_text().split()


def _parent(pid: int) -> int:
    return int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])


def _hoarded_in(stub: int) -> list[Path]:
    """Groups in which the kernel has killed for want of memory."""
    names = ("memory.oom_control", "memory.events")
    files = [group / name for group in _groups(stub) for name in names]
    texts = {file: file.read_text() for file in files if file.exists()}
    return [
        file.parent for file, text in texts.items() if int(text.split("oom_kill ")[1].split()[0])
    ]


async def _run_alone(backend: Backend, limits: Limits) -> ExecResult:
    return await backend.run(HOARD, limits=limits)


async def _run_in_room(backend: Backend, limits: Limits) -> ExecResult:
    async with await backend.create(SandboxSpec(limits=TIGHT)) as sandbox:
        return await sandbox.run(HOARD, limits=limits)


async def _run_as_case(backend: Backend, limits: Limits) -> ExecResult:
    (result,) = await backend.run_many(HOARD, [b""], limits=limits)
    return result


@pytest.mark.parametrize(("way", "depth"), [(_run_alone, 0), (_run_in_room, 0), (_run_as_case, 1)])
async def test_the_kernel_ends_a_hoard_that_the_watchdog_does_not_see(
    grouped: Backend,
    way: Callable[[Backend, Limits], Coroutine[None, None, ExecResult]],
    depth: int,
) -> None:
    await grouped.run("")
    (stub,) = stub_pids(grouped)
    run = asyncio.create_task(way(grouped, replace(TIGHT, wall_s=600.0, cpu_s=600.0)))
    await until(lambda: _hoarder(stub, depth) > 0)
    hoarder = _hoarder(stub, depth)
    watchdog = _parent(_parent(hoarder)) if depth else _parent(hoarder)
    os.kill(watchdog, signal.SIGSTOP)
    try:
        os.kill(hoarder, signal.SIGUSR1)
        await until(lambda: bool(_hoarded_in(stub)))
        (group,) = _hoarded_in(stub)
        bounds = [group / name for name in ("memory.limit_in_bytes", "memory.max")]
        (bound,) = [int(file.read_text()) for file in bounds if file.exists()]
    finally:
        os.kill(watchdog, signal.SIGCONT)

    result = await run
    assert bound == MOST
    assert (result.status, result.limit) == ("oom", "memory_bytes")


async def test_a_run_that_may_have_more_than_its_sandbox_gets_it(grouped: Backend) -> None:
    wide = replace(TIGHT, memory_bytes=512 * MIB)
    code = "block = b'x' * (400 << 20)\nprint(len(block) >> 20)"
    async with await grouped.create(SandboxSpec(limits=TIGHT)) as sandbox:
        assert (await sandbox.run(code, limits=wide)).text == "400\n"
        assert (await sandbox.run(code, limits=TIGHT)).status == "oom"


async def test_limits_beyond_what_the_kernel_counts_bound_nothing(grouped: Backend) -> None:
    wide = replace(TIGHT, memory_bytes=(1 << 62) - 1, pid_count=10_000_000)

    assert (await grouped.run("print(1)", limits=wide)).text == "1\n"


async def test_a_group_that_cannot_be_made_is_named_and_nothing_runs_without(
    grouped: Backend,
) -> None:
    await grouped.run("")
    await wait_for_idle(grouped)
    (stub,) = stub_pids(grouped)
    made = _groups(stub)
    beginning = made[0].name.rpartition("-")[0]
    # What another one has taken; they go with the zygote.
    for number in range(1, 100):
        for parent in {path.parent for path in made}:
            (parent / f"{beginning}-{number}").mkdir(exist_ok=True)

    code = "import time; time.sleep(1)"
    runs = [grouped.run(code) for _ in range(3 * POOL + 6)]
    ended = await asyncio.gather(*runs, return_exceptions=True)

    errors = [end for end in ended if isinstance(end, BaseException)]
    assert errors
    assert all(isinstance(error, SandboxError) for error in errors)
    assert all("a control group cannot be made: File exists" in str(error) for error in errors)
    assert (await grouped.run("print(1)")).text == "1\n"
    await grouped.close()
    assert _groups(stub) == []


async def test_groups_are_used_again_and_go_with_their_zygote(grouped: Backend) -> None:
    for _ in range(20):
        assert (await grouped.run("print(1)")).text == "1\n"
        await wait_for_idle(grouped)
    (stub,) = stub_pids(grouped)
    names = {path.name for path in _groups(stub)}

    assert 1 <= len(names) <= 2 * POOL + 2
    await grouped.close()
    assert _groups(stub) == []


async def test_sandboxes_that_are_over_leave_their_groups_to_others(grouped: Backend) -> None:
    for _ in range(12):
        async with await grouped.create() as sandbox:
            assert (await sandbox.run("print(1)")).text == "1\n"
        await wait_for_idle(grouped)
    (stub,) = stub_pids(grouped)

    assert len({path.name for path in _groups(stub)}) <= 2 * POOL + 3


async def test_a_group_that_a_run_has_filled_is_not_used_again(grouped: Backend) -> None:
    wide = replace(TIGHT, disk_bytes=256 * MIB, file_bytes=200 * MIB)
    code = "open('large', 'wb').write(bytes(150 << 20))"
    for _ in range(4):
        assert (await grouped.run(code, limits=wide)).status == "ok"
        small = replace(TIGHT, memory_bytes=32 * MIB, disk_bytes=MIB)
        results = [await grouped.run("print(1)", limits=small) for _ in range(2 * POOL)]
        assert [result.text for result in results] == ["1\n"] * (2 * POOL)


@pytest.mark.parametrize("has_call", [True, False], ids=["next-call", "close"])
async def test_groups_of_a_killed_zygote_are_removed(grouped: Backend, has_call: bool) -> None:
    await grouped.run("")
    (stub,) = stub_pids(grouped)
    assert _groups(stub)
    os.kill(stub, signal.SIGKILL)
    await until(lambda: not stub_pids(grouped))

    if has_call:
        assert (await grouped.run("print(1)")).text == "1\n"
    else:
        await grouped.close()
    assert _groups(stub) == []


@pytest.mark.parametrize("which", ["watcher", "zygote"])
async def test_groups_go_when_a_process_of_ours_is_killed(grouped: Backend, which: str) -> None:
    await grouped.run("")
    (stub,) = stub_pids(grouped)
    (watcher,) = meter.children(stub)
    os.kill(watcher if which == "watcher" else meter.children(watcher)[0], signal.SIGKILL)

    await until(lambda: not _groups(stub))


DYING = """
import asyncio, os, signal, sys
from strop.errors import SandboxError
from strop.sandbox import Backend
from strop.sandbox.backends.local import LocalTransport
async def main():
    transport = LocalTransport("zygote-root")
    await Backend(transport).run("")
    (zygote,) = transport._zygotes.values()
    names = [name for folder, *_ in zygote._groups for name in os.listdir(folder)]
    print(zygote.pid, sum(f"-{zygote.pid}-" in name for name in names), flush=True)
    if sys.argv[1] == "both":
        os.kill(zygote.pid, signal.SIGKILL)
    os.kill(os.getpid(), signal.SIGKILL)
asyncio.run(main())
"""


async def _stub_of_dead_client(word: str) -> int:
    argv = [sys.executable, "-c", DYING, word]
    outcome = await asyncio.to_thread(subprocess.run, argv, stdout=subprocess.PIPE, check=False)
    stub, count = map(int, outcome.stdout.split())
    assert count >= 1
    return stub


async def test_groups_go_when_the_client_is_killed(grouped: Backend) -> None:
    stub = await _stub_of_dead_client("client")

    await until(lambda: not _groups(stub))


async def test_groups_that_nobody_could_remove_go_with_the_next_zygote(grouped: Backend) -> None:
    stub = await _stub_of_dead_client("both")

    end = time.monotonic() + LIMIT_S
    while _groups(stub):
        # What was in them may still be dying when the first of these looks.
        assert time.monotonic() < end
        await (await open_tier(TIERS[0])).close()
