"""Nothing survives a cancel, the end of the client, or the death of any process of ours."""

import asyncio
import contextlib
import functools
import json
import os
import resource
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from strop.errors import SandboxError
from strop.sandbox import Backend, Level, Profile, SandboxSpec
from strop.sandbox.wire import Request
from strop.sandbox.zygote import meter
from tests.sdk.sandbox.conftest import (
    MIB,
    NAMESPACED,
    POOL,
    SYSTEM_PYTHON,
    TIGHT,
    Tier,
    open_tier,
    stub_pids,
    wait_for_idle,
)

SDK = str(Path(__file__).parents[3] / "sdk")
TREE = """
import os, time
for _ in range(2):
    if os.fork() == 0:
        os.setsid()
        if os.fork() == 0:
            pass
        time.sleep(60)
time.sleep(60)
"""
MANY = 6


async def _until(condition: Callable[[], bool], most_s: float = 120.0) -> bool:
    end = time.monotonic() + most_s
    while not condition():
        if time.monotonic() > end:
            return False
        await asyncio.sleep(0.01)
    return True


def _busy_pids(stub: int) -> list[int]:
    """The processes of the tree above: they sleep in Python and are none of the idle ones."""
    return [pid for pid in meter.pids_below(stub) if not _is_gone(pid)]


def _is_gone(pid: int) -> bool:
    try:
        with open(f"/proc/{pid}/stat") as file:
            return file.read().rpartition(")")[2].split()[0] in "ZX"
    except OSError:
        return True


async def _start_tree(backend: Backend) -> tuple["asyncio.Task[object]", list[int]]:
    """Run the tree of processes above; give the run and all processes below the stub."""
    before = len(_busy_pids(stub_pids(backend)[0]))
    run: asyncio.Task[object] = asyncio.create_task(backend.run(TREE))
    stub = stub_pids(backend)[0]
    assert await _until(lambda: len(_busy_pids(stub)) >= before + 4)
    return run, _busy_pids(stub)


async def test_a_cancelled_run_ends_at_once_with_all_its_processes(backend: Backend) -> None:
    await backend.run("")
    run, _ = await _start_tree(backend)

    run.cancel()

    with pytest.raises(asyncio.CancelledError):
        await run
    await wait_for_idle(backend)


SPIN = b"""
import ctypes, os
ctypes.CDLL(None).prctl(15, b"spinning", 0, 0, 0)
for _ in range(40):
    os.write(1, bytes(65536))
while True:
    pass
"""


async def test_code_past_its_limit_ends_though_the_client_reads_nothing(backend: Backend) -> None:
    limits = replace(TIGHT, wall_s=4.0, cpu_s=60.0, output_bytes=4 * MIB)
    with contextlib.closing(await backend._transport.open_run(Profile(), limits)) as channel:
        await channel.send(Request("python", limits.to_wire(), code=SPIN).pack())
        stub = stub_pids(backend)[0]
        assert await _until(lambda: bool(_spinning(stub)))

        assert await _until(lambda: not _spinning(stub))


def _spinning(stub: int) -> list[int]:
    return [pid for pid in _busy_pids(stub) if _name_of(pid) == "spinning"]


def _name_of(pid: int) -> str:
    try:
        return Path(f"/proc/{pid}/comm").read_text().strip()
    except OSError:
        return ""


async def test_a_stopped_sandbox_takes_its_jobs_along(backend: Backend) -> None:
    sandbox = await backend.create(SandboxSpec(limits=TIGHT))
    job = await sandbox.start(["sleep", "60"])
    session = await sandbox.python_session()
    await session.run("import subprocess\nchild = subprocess.Popen(['sleep', '60'])")

    await sandbox.stop()
    await sandbox.stop()

    with pytest.raises(SandboxError, match="lost"):
        await job.wait()
    await wait_for_idle(backend)


async def _works_again(backend: Backend, most_s: float = 120.0) -> bool:
    """Whether the backend runs code; what dies may have taken another run along."""
    end = time.monotonic() + most_s
    while time.monotonic() < end:
        with contextlib.suppress(SandboxError):
            return (await backend.run("print(1)")).text == "1\n"
    return False


def _zygote_of(stub: int) -> int:
    return meter.children(stub)[0]


def _first_of_its_namespace(pid: int, others: list[int]) -> int:
    """Give the process that all of a sandbox die with; `others` come in the order of their start.

    What namespace a process is in is hidden from users without rights.
    """
    earlier = reversed(others[: others.index(pid)])
    return next(other for other in earlier if _is_first(other))


ONE_INPUT = [b""]


@pytest.mark.parametrize("tier", NAMESPACED, ids=str)
@pytest.mark.parametrize("kind", ["many", "collect", "stream", "room"])
async def test_the_death_of_a_keeper_ends_its_sandbox_and_no_other(tier: Tier, kind: str) -> None:
    """What runs more than once, or takes files out, has a first process that is ours."""
    async with await open_tier(tier) as backend, await backend.create() as other:
        stub = stub_pids(backend)[0]
        zygote = meter.children(_zygote_of(stub))[0]
        keepers = set(meter.children(zygote))
        run = asyncio.ensure_future(_run_kept(backend, kind))
        assert await _until(lambda: len(_tree_of(zygote, keepers)) >= 4)
        tree = _tree_of(zygote, keepers)
        (keeper,) = set(meter.children(zygote)) - keepers
        os.kill(keeper, signal.SIGKILL)

        with pytest.raises(SandboxError):
            await run
        assert await _until(functools.partial(_are_gone, [keeper, *tree]))
        assert (await other.exec("echo alive")).text == "alive\n"
        assert (await backend.run_many("print(1)", ONE_INPUT))[0].text == "1\n"
        assert stub_pids(backend) == [stub]


async def _run_kept(backend: Backend, kind: str) -> object:
    if kind == "many":
        return await backend.run_many(TREE, ONE_INPUT)
    if kind == "collect":
        return await backend.run(TREE, collect=["never"])
    if kind == "stream":
        return await (await backend.start_program(TREE)).wait()
    async with await backend.create() as sandbox:
        return await sandbox.run(TREE)


def _tree_of(zygote: int, known: set[int]) -> list[int]:
    """What is below the keepers that were started since: the tree of processes above."""
    keepers = [pid for pid in meter.children(zygote) if pid not in known]
    return [pid for keeper in keepers for pid in meter.pids_below(keeper) if not _is_gone(pid)]


@pytest.mark.parametrize("victim", ["stub", "zygote", "watcher", "supervisor"])
async def test_the_death_of_a_process_of_ours_ends_what_depends_on_it(
    tier: Tier, victim: str
) -> None:
    if victim == "watcher" and not tier.has_namespaces:
        pytest.skip("each run of this tier has a supervisor of its own")
    async with await open_tier(tier) as backend:
        await backend.run("")
        run, pids = await _start_tree(backend)
        stub = stub_pids(backend)[0]
        top = _zygote_of(stub)
        workers = meter.children(top)
        # The busy one is that with the most below it.
        busy = max(workers, key=lambda pid: len(meter.pids_below(pid)))
        tree = [busy, *meter.pids_below(busy)]
        victims = {"stub": stub, "zygote": top, "supervisor": busy}
        if tier.has_namespaces:
            # Here the zygote is the first that the watcher starts, and each run has a namespace.
            victims |= {"watcher": top, "zygote": workers[0]}
            victims["supervisor"] = _first_of_its_namespace(busy, workers)
        os.kill(victims[victim], signal.SIGKILL)

        with pytest.raises(SandboxError, match="died"):
            await run
        dead = [victims[victim], *tree] if victim == "supervisor" else [top, *pids]
        assert await _until(lambda: all(_is_gone(pid) for pid in dead))
        assert await _works_again(backend)


async def test_idle_sandboxes_that_die_are_replaced(tier: Tier) -> None:
    async with await open_tier(tier) as backend:
        await backend.run("")
        for _ in range(3):
            stub = stub_pids(backend)[0]
            victims = meter.children(_zygote_of(stub))
            for victim in victims:
                # One may have been replaced since it was listed.
                with contextlib.suppress(ProcessLookupError):
                    os.kill(victim, signal.SIGKILL)
            if tier.has_namespaces:
                # The zygote is among them, and takes all along.
                victims.append(stub)
            assert await _until(functools.partial(_are_gone, victims))
            assert (await backend.run("print(1)")).text == "1\n"


@pytest.mark.parametrize("tier", NAMESPACED, ids=str)
async def test_prepared_sandboxes_that_die_are_passed_over(tier: Tier) -> None:
    async with await open_tier(tier) as backend:
        await backend.run("")
        for is_first in (False, True):
            stub = stub_pids(backend)[0]
            watcher = _zygote_of(stub)
            full = functools.partial(_has_children, watcher, 1 + 2 * POOL)
            assert await _until(full)
            _, *others = meter.children(watcher)
            confined = [pid for pid in others if not _is_first(pid)]
            for victim in set(others) - set(confined) if is_first else confined:
                os.kill(victim, signal.SIGKILL)
            assert await _until(functools.partial(_are_gone, confined))
            assert (await backend.run("print(1)")).text == "1\n"
            assert stub_pids(backend) == [stub]
            await wait_for_idle(backend)


@pytest.mark.parametrize("tier", [t for t in NAMESPACED if t.user is None], ids=str)
async def test_a_watcher_that_ran_out_of_descriptors_works_on(tier: Tier) -> None:
    async with await open_tier(tier) as backend:
        await backend.run("")
        watcher = _zygote_of(stub_pids(backend)[0])
        assert await _until(functools.partial(_has_children, watcher, 1 + 2 * POOL))
        before = resource.prlimit(watcher, resource.RLIMIT_NOFILE)
        resource.prlimit(watcher, resource.RLIMIT_NOFILE, (8, before[1]))
        for _ in range(2 * POOL):
            with contextlib.suppress(SandboxError):
                await backend.run("print(1)")
        resource.prlimit(watcher, resource.RLIMIT_NOFILE, before)

        results = [await backend.run("print(1)") for _ in range(3 * POOL)]

        assert [result.text for result in results] == ["1\n"] * 3 * POOL


@pytest.mark.parametrize("tier", [t for t in NAMESPACED if t.user is None], ids=str)
async def test_a_watcher_takes_all_descriptors_that_it_may_have_and_says_when_it_lacks_some(
    tier: Tier,
) -> None:
    if os.geteuid() != 0:
        pytest.skip("this whole test run has no privileges already")
    own = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (own[1] - 1, own[1]))
    try:
        async with await open_tier(tier, concurrency=5 * POOL) as backend:
            inside = "import resource\nprint(*resource.getrlimit(resource.RLIMIT_NOFILE))"
            assert (await backend.run(inside)).text == "256 256\n"
            watcher = _zygote_of(stub_pids(backend)[0])
            before = resource.prlimit(watcher, resource.RLIMIT_NOFILE)
            full = functools.partial(_has_children, watcher, 1 + 2 * POOL)
            assert before == (own[1], own[1])
            assert await _until(full)
            open_count = max(map(int, os.listdir(f"/proc/{watcher}/fd"))) + 1
            # Some calls come through, sandboxes that are to replace those taken do not.
            resource.prlimit(watcher, resource.RLIMIT_NOFILE, (open_count + 4, before[1]))
            runs = [backend.run("import time\ntime.sleep(3)") for _ in range(5 * POOL)]
            found = await asyncio.gather(*runs, return_exceptions=True)

        told = [str(error) for error in found if isinstance(error, SandboxError)]
        assert any("Too many open files" in text and "ulimit -Hn" in text for text in told), told
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, own)


@pytest.mark.parametrize("hard", [60, 4000])
async def test_the_pool_is_no_larger_than_descriptors_allow(hard: int) -> None:
    code = (
        "import os, resource\n"
        "os.cpu_count = lambda: 100\n"
        f"resource.setrlimit(resource.RLIMIT_NOFILE, ({hard}, {hard}))\n"
        "from strop.sandbox.backends.local import LocalTransport\n"
        "print(LocalTransport('zygote-userns')._interpreter.pool_size)"
    )
    child = await asyncio.to_thread(
        subprocess.run, [sys.executable, "-c", code], capture_output=True, text=True, check=True
    )

    assert int(child.stdout) == hard // 28


@pytest.mark.parametrize("tier", NAMESPACED, ids=str)
async def test_more_runs_than_are_prepared_go_at_once(tier: Tier) -> None:
    async with await open_tier(tier) as opened:
        await _go_at_once(opened, 5 * POOL)


async def test_more_runs_go_at_once_than_a_watcher_has_threads_at_first(spaces: Backend) -> None:
    await _go_at_once(spaces, 80)


async def _go_at_once(opened: Backend, count: int) -> None:
    """See so many runs at the same time, none of which ends by itself."""
    gate = "import time\ntime.sleep(600)"
    limits = replace(TIGHT, wall_s=300.0, cpu_s=60.0)
    stub = stub_pids(opened)[0]
    backend = Backend(opened.transport, concurrency=count)
    await wait_for_idle(opened)
    # Of each run its namespace's first process and its own; others are being prepared.
    wanted = len(meter.pids_below(stub)) + 2 * (count - POOL)
    runs = [asyncio.ensure_future(backend.run(gate, limits=limits)) for _ in range(count)]
    try:
        assert await _until(lambda: len(meter.pids_below(stub)) >= wanted, most_s=240.0)
    finally:
        for run in runs:
            run.cancel()
        await asyncio.gather(*runs, return_exceptions=True)
    await wait_for_idle(opened)


def _has_children(pid: int, count: int) -> bool:
    return len(meter.children(pid)) == count


def _are_gone(pids: list[int]) -> bool:
    return all(_is_gone(pid) for pid in pids)


def _is_first(pid: int) -> bool:
    """Whether a process is the first of its namespace."""
    status = Path(f"/proc/{pid}/status").read_text()
    return next(row for row in status.splitlines() if row.startswith("NSpid")).split()[-1] == "1"


CLIENT = """
import asyncio, json, sys
from strop.sandbox import Backend, SandboxSpec
from strop.sandbox.backends.local import LocalTransport

async def main():
    name, python, user = json.loads(sys.argv[1])
    transport = LocalTransport(name, python=python, user=user, pool_size=2)
    backend = Backend(transport)
    sandbox = await backend.create(SandboxSpec())
    await sandbox.start(["sleep", "60"])
    asyncio.get_running_loop().call_later(0.5, lambda: print(transport.stub_pids[0], flush=True))
    await backend.run(sys.argv[2])

asyncio.run(main())
"""


async def test_nothing_outlives_a_client_that_is_killed(tier: Tier) -> None:
    async with await open_tier(tier):
        pass
    python = None if tier.name == "zygote-root" or os.geteuid() else SYSTEM_PYTHON
    words = json.dumps([tier.name, python, tier.user])
    client = await asyncio.to_thread(_start_client, words)
    assert client.stdout is not None
    stub = int(await asyncio.to_thread(client.stdout.readline))
    pids = [stub, *meter.pids_below(stub)]
    assert len(pids) > MANY

    client.kill()
    client.wait()
    client.stdout.close()

    assert await _until(lambda: all(_is_gone(pid) for pid in pids))


def _start_client(words: str) -> subprocess.Popen[bytes]:
    return subprocess.Popen(
        [sys.executable, "-c", CLIENT, words, TREE],
        stdout=subprocess.PIPE,
        env={**os.environ, "PYTHONPATH": SDK},
    )


async def test_a_whole_client_without_privileges_works() -> None:
    """The client, too, runs as a user without rights and with another Python."""
    if os.geteuid() != 0:
        pytest.skip("this whole test run has no privileges already")
    code = """
import asyncio
from strop.sandbox import open_backend
async def main():
    async with await open_backend() as backend:
        result = await backend.run("import os; print(os.getuid())")
        print(backend.name, result.isolation.name, result.text.strip())
asyncio.run(main())
"""
    outcome = await asyncio.to_thread(
        subprocess.run,
        [SYSTEM_PYTHON, "-c", code],
        capture_output=True,
        text=True,
        user=65534,
        group=65534,
        extra_groups=[],
        env={"PYTHONPATH": SDK, "PATH": "/usr/bin:/bin"},
        cwd="/",
        check=False,
    )

    assert outcome.stdout == "zygote-userns NAMESPACE 65534\n", outcome.stderr
    assert Level.NAMESPACE.name == "NAMESPACE"
