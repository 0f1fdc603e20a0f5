"""Coroutines run from plain code, from threads and beside a loop that runs already."""

import asyncio
import os
import signal
import subprocess
import sys
import threading

import pytest

from strop import run_sync


async def answer(value: int) -> int:
    await asyncio.sleep(0)
    return value


def test_the_result_comes_back() -> None:
    assert run_sync(answer(3)) == 3


def test_an_error_comes_back() -> None:
    async def broken() -> None:
        raise LookupError("x")

    with pytest.raises(LookupError, match="x"):
        run_sync(broken())


async def test_it_works_while_a_loop_runs_as_in_a_notebook() -> None:
    assert run_sync(answer(4)) == 4


def test_many_threads_share_one_loop() -> None:
    results: list[int] = []
    threads = [
        threading.Thread(target=lambda n=n: results.append(run_sync(answer(n)))) for n in range(20)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert sorted(results) == list(range(20))


def test_an_interrupt_cancels_and_waits_for_the_clean_up() -> None:
    code = """
import asyncio, strop
async def endless():
    try:
        print("started", flush=True)
        await asyncio.sleep(3600)
    finally:
        await asyncio.sleep(0.2)
        print("cleaned", flush=True)
try:
    strop.run_sync(endless())
except KeyboardInterrupt:
    print("interrupted", flush=True)
"""
    child = subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True)
    assert child.stdout is not None
    assert child.stdout.readline() == "started\n"
    os.kill(child.pid, signal.SIGINT)
    output, _ = child.communicate(timeout=120)

    assert output == "cleaned\ninterrupted\n"
