"""The bound on processes is each run's own, whatever else its user has running."""

import os
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import replace

import pytest

from strop.sandbox import Backend, SandboxSpec
from strop.sandbox.zygote import meter
from strop.sandbox.zygote.place import Ground
from tests.sdk.sandbox.conftest import (
    NOBODY,
    SYSTEM_PYTHON,
    TIGHT,
    Tier,
    open_tier,
    wait_for_idle,
)

MANY = 100
_CROWD = f"""
import os, threading, time
for _ in range({MANY}):
    if os.fork() == 0:
        time.sleep(600)
        os._exit(0)
for _ in range({MANY}):
    threading.Thread(target=time.sleep, args=[600], daemon=True).start()
print("up", flush=True)
time.sleep(600)
"""
_FORK = "for i in 1 2 3 4 5 6 7 8; do (exit 0) & done; wait; echo forked"
# Threads reserve far more memory than they use.
PATIENT = replace(TIGHT, wall_s=60.0, cpu_s=30.0, address_space_bytes=0)


class Crowd:
    """Processes and threads of one user, far more than a sandbox may have."""

    def __init__(self, user: int) -> None:
        self._user = user
        self._leader: subprocess.Popen[bytes] | None = None

    def gather(self) -> None:
        is_ours = self._user == 0
        self._leader = subprocess.Popen(
            [sys.executable if is_ours else SYSTEM_PYTHON, "-I", "-S", "-c", _CROWD],
            stdout=subprocess.PIPE,
            user=None if is_ours else self._user,
            cwd="/",
        )
        assert self._leader.stdout is not None
        assert self._leader.stdout.readline() == b"up\n"

    def disperse(self) -> None:
        if self._leader is not None:
            meter.kill_below(self._leader.pid)
            self._leader.kill()
            self._leader.communicate()


@pytest.fixture
def crowd(tier: Tier) -> Iterator[Crowd]:
    others = Crowd(tier.uid)
    yield others
    others.disperse()


async def test_a_user_who_has_many_processes_can_still_use_a_sandbox(
    backend: Backend, crowd: Crowd
) -> None:
    crowd.gather()

    results = [await backend.exec(_FORK), *await backend.run_many(_FORK, [b"", b""], "bash")]

    assert [result.text for result in results] == ["forked\n"] * 3, results


async def test_processes_that_the_user_starts_later_do_no_harm_either(
    backend: Backend, crowd: Crowd
) -> None:
    async with await backend.create(SandboxSpec(limits=TIGHT)) as sandbox:
        job = await sandbox.start(f"read go; {_FORK}")
        crowd.gather()
        await job.write(b"go\n")

        assert await job.read_line() == b"forked\n"
        assert (await job.wait()).is_ok


# Hundreds of processes together may reach the bound on memory first.
ENDED = [("process_limit", "pid_count"), ("oom", "memory_bytes")]
BOMBS = {
    "processes": "import os, time\nfor _ in range(200):\n    if os.fork() == 0: time.sleep(600)\n"
    "time.sleep(600)",
    "threads": "import threading, time\nfor _ in range(200):\n"
    "    threading.Thread(target=time.sleep, args=[600], daemon=True).start()\n"
    "time.sleep(600)",
    "processes that double": "import os\nwhile True: os.fork()",
    "processes that hide": "import os, time\nfor _ in range(200):\n    if os.fork() == 0:\n"
    "        os.setsid()\n        if os.fork(): os._exit(0)\n        time.sleep(600)\n"
    "    elif os.wait()[1]: raise BlockingIOError\ntime.sleep(600)",
}


@pytest.mark.parametrize("bomb", BOMBS)
async def test_more_processes_than_allowed_are_refused_or_end_the_run(
    backend: Backend, tier: Tier, bomb: str
) -> None:
    result = await backend.run(BOMBS[bomb], limits=PATIENT)
    await wait_for_idle(backend)

    has_own_count = tier.has_namespaces or tier.uid == 0
    if has_own_count:
        # Of many that are refused at once, each says so: that may be more than is kept.
        assert result.status in ("nonzero", "output_limit")
        assert "BlockingIOError" in result.error_text or "new thread" in result.error_text
    else:
        assert (result.status, result.limit) in ENDED, result
    assert (await backend.exec(_FORK)).text == "forked\n"


@pytest.mark.parametrize("bomb", BOMBS)
async def test_a_bomb_without_any_isolation_is_ended_too(bomb: str) -> None:
    tier = Tier("unsafe-subprocess", NOBODY if os.geteuid() == 0 else None)
    async with await open_tier(tier) as backend:
        result = await backend.run(BOMBS[bomb], limits=PATIENT)
        await wait_for_idle(backend)

    assert (result.status, result.limit) in ENDED, result


async def test_code_that_raises_its_own_bound_gains_nothing(backend: Backend, tier: Tier) -> None:
    raising = "import resource as r\nhard = r.getrlimit(r.RLIMIT_NPROC)[1]\n"
    raising += "r.setrlimit(r.RLIMIT_NPROC, (hard, hard))\n"
    result = await backend.run(raising + BOMBS["processes"], limits=PATIENT)
    await wait_for_idle(backend)

    is_shared = not tier.has_namespaces and tier.uid != 0
    assert result.limit == ("pid_count" if is_shared else None)


async def test_as_many_processes_as_allowed_are_no_offence(backend: Backend) -> None:
    code = (
        "import os, threading, time\nfor _ in range(10):\n"
        "    if os.fork() == 0: time.sleep(0.4); os._exit(0)\n"
        "for _ in range(10): threading.Thread(target=time.sleep, args=[0.4]).start()\n"
        "for _ in range(10): os.wait()\nprint('all')"
    )
    result = await backend.run(code, limits=PATIENT)

    assert result.text == "all\n", result


_ORPHANS = """
import os, time

def fork():
    for _ in range(1000):
        try:
            return os.fork()
        except BlockingIOError:
            time.sleep(0.01)
    raise SystemExit("no more processes are to be had")

for _ in range(100):
    pid = fork()
    if pid == 0:
        if fork() == 0:
            os._exit(0)
        os._exit(0)
    os.waitpid(pid, 0)
print("all")
"""


@pytest.mark.parametrize("kind", ["single", "many", "collect", "sandbox"])
async def test_dead_processes_that_nobody_can_wait_for_do_not_count(
    backend: Backend, kind: str
) -> None:
    if kind == "single":
        result = await backend.run(_ORPHANS, limits=PATIENT)
    elif kind == "many":
        (result,) = await backend.run_many(_ORPHANS, [b""], limits=PATIENT)
    elif kind == "collect":
        result = await backend.run(_ORPHANS, limits=PATIENT, collect=["absent"])
    else:
        async with await backend.create(SandboxSpec(limits=PATIENT)) as sandbox:
            result = await sandbox.run(_ORPHANS)

    assert (result.status, result.text) == ("ok", "all\n"), result


def test_zygotes_that_share_few_users_begin_with_different_ones() -> None:
    one, other = (
        Ground("root", 0, 0, "", {}, (), (), 60001, 4000, False, first_slot=slot)
        for slot in (100 * 61, 101 * 61)
    )
    users = [{ground.place(slot).uid for slot in range(1, 50)} for ground in (one, other)]

    assert not users[0] & users[1]
    assert all(60001 <= uid < 64001 for uid in users[0] | users[1])
