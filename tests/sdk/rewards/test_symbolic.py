"""Workers that compare expressions: bounded, killable, never the event loop's burden."""

import asyncio
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from strop.errors import RewardError
from strop.rewards.symbolic import Pool, are_equal, pool
from tests.waiting import wait_until

SLOW = "9^{9^{9^{9}}}"


@pytest.fixture
def one() -> Iterator[Pool]:
    """A pool of one worker."""
    made = Pool(1)
    yield made
    made.close()


async def test_nothing_starts_before_the_first_comparison(one: Pool) -> None:
    assert one.worker_pids == []
    assert await one.are_equal("1+x", "x+1", 5.0)
    assert len(one.worker_pids) == 1


@pytest.mark.parametrize(
    "answer",
    [SLOW, "10^{10^{10}}", "(10^9)!", r"\sum_{k=1}^{10^9} k^{k}", "(" * 3000 + "5" + ")" * 3000],
)
async def test_an_expression_that_hangs_is_given_up_and_the_next_is_decided(
    one: Pool, answer: str
) -> None:
    with pytest.raises(RewardError, match=r"cannot be compared: it took more than 0\.3 s of CPU"):
        await one.are_equal(answer, "5", 0.3)
    assert one.worker_pids == []
    assert await one.are_equal("1+x", "x+1", 5.0)


async def test_three_hundred_at_once_wait_without_being_charged() -> None:
    # Together they take more than the limit, each of them far less.
    verdicts = await asyncio.gather(
        *(are_equal(f"(x+{i})^2 + {i % 2}", f"x^2 + {2 * i}x + {i * i}", 1.0) for i in range(300))
    )
    assert verdicts == [i % 2 == 0 for i in range(300)]
    assert len(pool().worker_pids) <= (os.cpu_count() or 1)


async def test_the_event_loop_goes_on_meanwhile(one: Pool) -> None:
    await one.are_equal("1+x", "x+1", 5.0)
    comparison = asyncio.ensure_future(one.are_equal(SLOW, "5", 0.5))
    turns = 0
    while not comparison.done():
        await asyncio.sleep(0.01)
        turns += 1
    assert isinstance(comparison.exception(), RewardError)
    assert turns >= 3


async def test_a_worker_that_is_killed_meanwhile_is_replaced_once(one: Pool) -> None:
    await one.are_equal("1+x", "x+1", 5.0)
    [first] = one.worker_pids
    comparison = asyncio.ensure_future(one.are_equal(SLOW, "5", 60.0))
    await asyncio.sleep(0.2)
    os.kill(first, signal.SIGKILL)
    second = await asyncio.to_thread(_other_pid, one, first)
    os.kill(second, signal.SIGKILL)
    with pytest.raises(RewardError, match="its worker ended with -9 twice"):
        await comparison


async def test_a_worker_that_was_killed_while_idle_is_not_missed(one: Pool) -> None:
    await one.are_equal("1+x", "x+1", 5.0)
    os.kill(one.worker_pids[0], signal.SIGKILL)
    assert await one.are_equal("1+x", "x+1", 5.0)


async def test_workers_know_no_secrets_of_the_caller(
    one: Pool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("STROP_TOKEN", "strop_secret")
    await one.are_equal("1+x", "x+1", 5.0)
    [pid] = one.worker_pids
    assert b"strop_secret" not in Path(f"/proc/{pid}/environ").read_bytes()


async def test_closing_ends_every_worker() -> None:
    closed = Pool(1)
    await closed.are_equal("1+x", "x+1", 5.0)
    [pid] = closed.worker_pids
    closed.close()
    assert not _is_alive(pid)


@pytest.mark.parametrize("end", ["sys.exit()", "os.kill(os.getpid(), signal.SIGKILL)"])
def test_workers_end_with_their_caller(end: str) -> None:
    code = (
        "import asyncio, os, signal, sys\n"
        "from strop.rewards.symbolic import are_equal, pool\n"
        "asyncio.run(are_equal('1+x', 'x+1', 5.0))\n"
        f"print(*pool().worker_pids, flush=True)\n{end}"
    )
    ended = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    pids = [int(pid) for pid in ended.stdout.split()]
    assert len(pids) == 1
    assert ended.stderr == ""
    wait_until(lambda: not any(map(_is_alive, pids)))


def test_signals_of_the_caller_are_left_alone() -> None:
    before = [signal.getsignal(number) for number in (signal.SIGALRM, signal.SIGPROF)]
    assert asyncio.run(are_equal("1+x", "x+1", 5.0))
    assert [signal.getsignal(number) for number in (signal.SIGALRM, signal.SIGPROF)] == before
    assert signal.getitimer(signal.ITIMER_PROF) == (0.0, 0.0)


def _other_pid(pool: Pool, pid: int) -> int:
    wait_until(lambda: pool.worker_pids not in ([], [pid]))
    return pool.worker_pids[0]


def _is_alive(pid: int) -> bool:
    try:
        return ") Z " not in Path(f"/proc/{pid}/stat").read_text()
    except (FileNotFoundError, ProcessLookupError):
        return False
