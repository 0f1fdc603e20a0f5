"""Blocking author code runs beside the event loop, as wide as the run, and holds nothing up."""

import asyncio
import threading
import time
from typing import Any

import pytest

from strop.threads import Threads


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
    before = threading.active_count()

    Threads(100)

    assert threading.active_count() == before


@pytest.mark.parametrize("error", [ValueError("x"), KeyError("y"), TimeoutError(), OSError(5, "z")])
async def test_an_error_comes_back_as_it_was(threads: Threads, error: Exception) -> None:
    def fail() -> None:
        raise error

    with pytest.raises(type(error)) as caught:
        await threads.call(fail)
    assert repr(caught.value) == repr(error)


async def test_stop_iteration_becomes_an_error_that_can_be_awaited(threads: Threads) -> None:
    with pytest.raises(RuntimeError, match="StopIteration escaped"):
        await asyncio.wait_for(threads.call(next, iter([])), 5)


async def test_as_many_calls_run_at_once_as_the_limit_allows(threads: Threads) -> None:
    together = threading.Barrier(8, timeout=10)

    await asyncio.gather(*[threads.call(together.wait) for _ in range(8)])


async def test_the_event_loop_goes_on_while_calls_sleep(threads: Threads) -> None:
    sleeping = [asyncio.ensure_future(threads.call(time.sleep, 0.3)) for _ in range(8)]
    ticks = 0
    while not all(each.done() for each in sleeping):
        await asyncio.sleep(0.005)
        ticks += 1

    assert ticks > 10


async def test_a_cancelled_caller_does_not_wait_for_its_call(threads: Threads) -> None:
    is_running = threading.Event()
    may_end = threading.Event()

    def wait() -> None:
        is_running.set()
        may_end.wait(10)

    calling = asyncio.ensure_future(threads.call(wait))
    assert await asyncio.to_thread(is_running.wait, 10)
    started = time.monotonic()
    calling.cancel()
    with pytest.raises(asyncio.CancelledError):
        await calling

    assert time.monotonic() - started < 1
    may_end.set()


async def test_closing_does_not_wait_and_a_closed_pool_opens_again(threads: Threads) -> None:
    may_end = threading.Event()
    calling = asyncio.ensure_future(threads.call(may_end.wait, 10))
    await asyncio.sleep(0.05)
    started = time.monotonic()
    threads.close()

    assert time.monotonic() - started < 1
    may_end.set()
    assert await calling
    assert await threads.call(len, "four") == 4


async def test_closing_twice_is_no_fault(threads: Threads) -> None:
    await threads.call(len, "")
    threads.close()
    threads.close()
