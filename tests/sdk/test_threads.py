"""Blocking author code runs beside the event loop, as wide as the run, and holds nothing up."""

import asyncio
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Any

import pytest

from strop.threads import Threads
from tests.waiting import until


@pytest.fixture
def threads() -> Any:
    pool = Threads(8)
    yield pool
    pool.close()


async def test_a_call_runs_on_another_thread_and_gives_its_result(threads: Threads) -> None:
    ran_on = await threads.call(threading.get_ident)

    assert ran_on != threading.get_ident()
    assert await threads.call(divmod, 7, 3) == (2, 1)


async def test_no_thread_starts_before_the_first_call() -> None:
    before = set(threading.enumerate())

    Threads(100)

    assert set(threading.enumerate()) <= before


@pytest.mark.parametrize("error", [ValueError("x"), KeyError("y"), TimeoutError(), OSError(5, "z")])
async def test_an_error_comes_back_as_it_was(threads: Threads, error: Exception) -> None:
    def fail() -> None:
        raise error

    with pytest.raises(type(error)) as caught:
        await threads.call(fail)
    assert repr(caught.value) == repr(error)


async def test_stop_iteration_becomes_an_error_that_can_be_awaited(threads: Threads) -> None:
    with pytest.raises(RuntimeError, match="StopIteration escaped"):
        await asyncio.wait_for(threads.call(next, iter([])), 60)


async def test_as_many_calls_run_at_once_as_the_limit_allows(threads: Threads) -> None:
    together = threading.Barrier(8, timeout=60)

    await asyncio.gather(*[threads.call(together.wait) for _ in range(8)])


async def test_the_event_loop_goes_on_while_calls_wait(threads: Threads) -> None:
    may_end = threading.Event()
    waiting = [asyncio.ensure_future(threads.call(may_end.wait, 60)) for _ in range(8)]
    for _ in range(20):
        await asyncio.sleep(0.005)

    assert not any(each.done() for each in waiting)
    may_end.set()
    assert await asyncio.gather(*waiting) == [True] * 8


async def test_a_cancelled_caller_does_not_wait_for_its_call(threads: Threads) -> None:
    is_running, may_end, ended = threading.Event(), threading.Event(), threading.Event()

    def wait() -> None:
        is_running.set()
        may_end.wait(60)
        ended.set()

    calling = asyncio.ensure_future(threads.call(wait))
    assert await asyncio.to_thread(is_running.wait, 60)
    calling.cancel()
    with pytest.raises(asyncio.CancelledError):
        await calling

    assert not ended.is_set()
    may_end.set()


async def test_a_left_call_that_spins_is_ended(threads: Threads) -> None:
    is_running, ended = threading.Event(), threading.Event()

    def spin() -> None:
        try:
            is_running.set()
            while True:
                pass
        finally:
            ended.set()

    await _leave(threads, spin, is_running)

    assert await asyncio.to_thread(ended.wait, 60)


async def test_a_left_call_that_catches_all_errors_is_ended_again(threads: Threads) -> None:
    is_running, ended = threading.Event(), threading.Event()
    caught: list[BaseException] = []

    def spin() -> None:
        is_running.set()
        while not caught:
            try:
                while True:
                    pass
            except BaseException as error:  # noqa: BLE001 - what a careless author writes
                caught.append(error)
        try:
            while True:
                pass
        finally:
            ended.set()

    await _leave(threads, spin, is_running)

    assert await asyncio.to_thread(ended.wait, 60)
    assert not isinstance(caught[0], Exception)


async def test_left_calls_take_no_place_from_others() -> None:
    threads = Threads(2)
    may_end = threading.Event()
    for _ in range(6):
        is_running = threading.Event()

        def hang(is_running: threading.Event = is_running) -> None:
            is_running.set()
            # Not at a step of Python: nothing can end it before its time.
            may_end.wait(60)

        await _leave(threads, hang, is_running)

    assert await asyncio.wait_for(threads.call(len, "four"), 60) == 4
    may_end.set()
    threads.close()


async def test_a_call_that_is_left_before_it_begins_never_runs() -> None:
    threads = Threads(1)
    may_end = threading.Event()
    ran: list[int] = []
    first = asyncio.ensure_future(threads.call(may_end.wait, 60))
    second = asyncio.ensure_future(threads.call(ran.append, 2))
    third = asyncio.ensure_future(threads.call(ran.append, 3))
    await asyncio.sleep(0.01)
    second.cancel()
    await asyncio.sleep(0.01)
    may_end.set()
    await asyncio.gather(first, third)

    assert ran == [3]
    threads.close()


async def test_a_call_that_goes_on_to_its_end_is_not_ended(threads: Threads) -> None:
    is_running, may_end, ended = threading.Event(), threading.Event(), threading.Event()

    def work() -> None:
        is_running.set()
        while not may_end.is_set():
            pass
        ended.set()

    calling = asyncio.ensure_future(threads.call_to_end(work))
    assert await asyncio.to_thread(is_running.wait, 60)
    calling.cancel()
    with pytest.raises(asyncio.CancelledError):
        await calling
    may_end.set()

    assert await asyncio.to_thread(ended.wait, 60)


async def test_a_call_that_cannot_be_ended_is_named(
    threads: Threads, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("strop.threads._INSIST_S", 0.01)
    began, is_blocked, may_end = threading.Event(), threading.Event(), threading.Event()
    runs_on: list[threading.Thread] = []

    def stubborn() -> None:
        runs_on.append(threading.current_thread())
        began.set()
        may_end.wait(60)

    leaving = asyncio.ensure_future(_leave(threads, stubborn, is_blocked))
    assert await asyncio.to_thread(began.wait, 60)
    # One that has yet to block can be ended.
    await _blocks(runs_on[0])
    is_blocked.set()
    await leaving
    await until(lambda: caplog.records)

    assert "stubborn` was left" in caplog.text
    assert "process=True" in caplog.text
    may_end.set()


def test_a_program_ends_while_a_call_hangs(tmp_path: Path) -> None:
    script = tmp_path / "hangs.py"
    script.write_text(HANGING)

    ended = subprocess.run([sys.executable, script], capture_output=True, text=True, timeout=120)

    assert (ended.returncode, ended.stdout, ended.stderr) == (0, "left\n", "")


async def _blocks(thread: threading.Thread) -> None:
    """Until a thread sleeps, and does not only wait for a processor."""
    assert thread.ident is not None
    clock = time.pthread_getcpuclockid(thread.ident)
    status = Path(f"/proc/self/task/{thread.native_id}/stat")
    quiet_count, last_s = 0, -1.0
    while quiet_count < 10:
        await asyncio.sleep(0.02)
        state = status.read_text().rpartition(") ")[2][0]
        now_s = time.clock_gettime(clock)
        quiet_count = quiet_count + 1 if (state, now_s) == ("S", last_s) else 0
        last_s = now_s


async def _leave(threads: Threads, function: Any, is_running: threading.Event) -> None:
    calling = asyncio.ensure_future(threads.call(function))
    assert await asyncio.to_thread(is_running.wait, 60)
    calling.cancel()
    with pytest.raises(asyncio.CancelledError):
        await calling


HANGING = """
import asyncio, time
from strop.threads import Threads

async def main():
    calling = asyncio.ensure_future(Threads().call(time.sleep, 1000))
    await asyncio.sleep(0.1)
    calling.cancel()
    print("left")

asyncio.run(main())
"""


async def test_closing_does_not_wait_and_a_closed_pool_opens_again(threads: Threads) -> None:
    is_running, may_end = threading.Event(), threading.Event()

    def wait() -> bool:
        is_running.set()
        return may_end.wait(60)

    calling = asyncio.ensure_future(threads.call(wait))
    assert await asyncio.to_thread(is_running.wait, 60)
    threads.close()

    assert not calling.done()
    may_end.set()
    assert await calling
    assert await threads.call(len, "four") == 4


async def test_closing_twice_is_no_fault(threads: Threads) -> None:
    await threads.call(len, "")
    threads.close()
    threads.close()


TRACED = """
import asyncio, random, sys, time
from strop.threads import Threads

def compute_and_block(seconds):
    end_s = time.thread_time() + seconds
    while time.thread_time() < end_s:
        pass
    time.sleep(600)

async def main():
    threads, rng = Threads(), random.Random(5)
    for _ in range(30):
        call = asyncio.ensure_future(threads.call(compute_and_block, rng.random() * 0.01))
        await asyncio.sleep(rng.random() * 0.01)
        call.cancel()
        await asyncio.sleep(0)
    print("went on")

sys.settrace(lambda frame, event, argument: None)
asyncio.run(main())
"""


def test_a_traced_program_goes_on_when_calls_are_left_as_they_begin_to_block(
    tmp_path: Path,
) -> None:
    program = tmp_path / "traced.py"
    program.write_text(TRACED)
    finished = subprocess.run(
        [sys.executable, program], capture_output=True, text=True, timeout=120
    )
    assert finished.stdout == "went on\n", finished.stderr
