"""run_sync where it is easily misused: nested, forked, interrupted, from many threads and loops."""

import asyncio
import gc
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Coroutine
from typing import Any

import pytest

from strop import ScriptedModel, run_sync
from strop.errors import EpisodeUseError
from strop.threads import Threads
from tests.sdk.trajectories import a_single_turn_environment


async def answer(value: int) -> int:
    await asyncio.sleep(0)
    return value


def run_program(code: str) -> str:
    finished = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, timeout=120
    )
    assert finished.returncode == 0, finished.stderr
    return finished.stdout


def test_a_call_from_what_it_runs_itself_is_refused_and_not_waited_for() -> None:
    async def outer() -> int:
        return run_sync(answer(1))

    with pytest.raises(EpisodeUseError, match="Use `await` there"):
        run_sync(outer())
    assert run_sync(answer(2)) == 2
    # A coroutine that was never awaited would be warned about when it is collected.
    gc.collect()


def test_a_thread_that_a_coroutine_started_may_call_it() -> None:
    async def outer() -> int:
        return await asyncio.to_thread(run_sync, answer(3))

    assert run_sync(outer()) == 3


@pytest.mark.parametrize("error", [KeyboardInterrupt, SystemExit, asyncio.CancelledError])
def test_whatever_a_coroutine_raises_does_not_end_the_loop(error: type[BaseException]) -> None:
    code = f"""
import asyncio, strop
async def fail():
    raise {"asyncio." if error is asyncio.CancelledError else ""}{error.__name__}
async def answer():
    return 4
try:
    strop.run_sync(fail())
except BaseException as found:
    print(type(found).__name__)
import threading
done = []
thread = threading.Thread(target=lambda: done.append(strop.run_sync(answer())), daemon=True)
thread.start()
thread.join(60)
print(done)
"""
    printed = run_program(code).splitlines()

    assert printed[0] == error.__name__
    assert printed[1] == "[4]"


def test_a_task_that_wants_to_leave_the_program_leaves_the_other_tasks_running() -> None:
    code = """
import asyncio, sys, strop
async def leave():
    sys.exit(3)
async def slow(n):
    await asyncio.sleep(0.1)
    return n
async def both():
    return await asyncio.gather(slow(1), leave(), slow(2), return_exceptions=True)
print(strop.run_sync(both()))
"""

    assert run_program(code) == "[1, SystemExit(3), 2]\n"


def test_a_forked_child_gets_a_loop_of_its_own() -> None:
    code = """
import os, signal, strop
async def answer(): return os.getpid()
assert strop.run_sync(answer()) == os.getpid()
for _ in range(3):
    child = os.fork()
    if child == 0:
        signal.alarm(60)
        same = strop.run_sync(answer()) == os.getpid()
        os._exit(0 if same else 3)
    print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
print(strop.run_sync(answer()) == os.getpid())
"""

    assert run_program(code).split() == ["0", "0", "0", "True"]


def test_a_fork_while_another_thread_starts_the_loop_does_not_hang_the_child() -> None:
    code = """
import os, signal, threading, strop
from strop import sync
async def answer(): return 1
sync._lock.acquire()
child = os.fork()
if child == 0:
    signal.alarm(60)
    os._exit(strop.run_sync(answer()) - 1)
print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
sync._lock.release()
print(strop.run_sync(answer()))
"""

    assert run_program(code).split() == ["0", "1"]


def test_a_pool_of_processes_runs_rollouts() -> None:
    code = """
import multiprocessing, strop
from tests.sdk.trajectories import a_single_turn_environment
def rollout(n):
    environment = a_single_turn_environment()
    model = strop.ScriptedModel(lambda messages: messages[-1].text.split()[-1][::-1])
    task = environment.tasks["train"][n]
    return strop.run_sync(environment.rollout(task, model)).reward
if __name__ == "__main__":
    print(rollout(0))
    with multiprocessing.get_context("fork").Pool(2) as pool:
        print(pool.map(rollout, range(4)))
"""

    assert run_program(code).split("\n")[:2] == ["1.0", "[1.0, 1.0, 1.0, 1.0]"]


def test_many_threads_get_each_their_own_result_or_error() -> None:
    async def act(n: int) -> int:
        await asyncio.sleep(0.001 * (n % 3))
        if n % 4 == 0:
            raise LookupError(str(n))
        return n

    found: dict[int, Any] = {}

    def work(n: int) -> None:
        try:
            found[n] = run_sync(act(n))
        except LookupError as error:
            found[n] = str(error)

    threads = [threading.Thread(target=work, args=(n,)) for n in range(64)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)

    assert found == {n: str(n) if n % 4 == 0 else n for n in range(64)}


def test_several_loops_roll_out_one_environment_one_after_the_other() -> None:
    environment = a_single_turn_environment()
    model = ScriptedModel(lambda messages: messages[-1].text.split()[-1][::-1])

    def start(coroutine: Coroutine[Any, Any, Any]) -> float:
        return float(asyncio.run(coroutine).reward)

    rewards = [start(environment.rollout(environment.tasks["train"][n], model)) for n in range(3)]

    assert rewards == [1.0, 1.0, 1.0]


def test_loops_in_several_threads_roll_out_one_environment_at_once() -> None:
    environment = a_single_turn_environment()
    model = ScriptedModel(lambda messages: messages[-1].text.split()[-1][::-1])
    rewards: list[float | None] = []

    def work(n: int) -> None:
        trajectory = asyncio.run(environment.rollout(environment.tasks["train"][n], model))
        rewards.append(trajectory.reward)

    threads = [threading.Thread(target=work, args=(n,)) for n in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)

    assert rewards == [1.0] * 8


def test_a_program_ends_although_its_loop_still_runs() -> None:
    printed = run_program("import strop\nasync def f(): return 5\nprint(strop.run_sync(f()))")

    assert printed == "5\n"


def test_a_second_interrupt_does_not_wait_for_a_clean_up_that_hangs() -> None:
    code = """
import asyncio, strop
from strop import sync
sync._CLEANUP_LIMIT_S = 600.0
async def stubborn():
    try:
        print("started", flush=True)
        await asyncio.sleep(3600)
    finally:
        print("cleaning", flush=True)
        await asyncio.sleep(3600)
try:
    strop.run_sync(stubborn())
except KeyboardInterrupt:
    print("left", flush=True)
"""
    with subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True) as child:
        assert child.stdout is not None
        assert child.stdout.readline() == "started\n"
        child.send_signal(signal.SIGINT)
        assert child.stdout.readline() == "cleaning\n"
        child.send_signal(signal.SIGINT)
        output, _ = child.communicate(timeout=120)

    assert output == "left\n"


async def test_threads_answer_in_any_number_and_keep_what_they_raise() -> None:
    threads = Threads(4)

    def act(n: int) -> int:
        if n % 5 == 0:
            raise LookupError(n)
        return n

    try:
        found = await asyncio.gather(
            *(threads.call(act, n) for n in range(100)), return_exceptions=True
        )
    finally:
        threads.close()

    numbers = [each for each in found if isinstance(each, int)]
    assert numbers == [n for n in range(100) if n % 5]
    assert sum(isinstance(each, LookupError) for each in found) == 20


async def test_a_stop_iteration_in_a_thread_does_not_hang_its_caller() -> None:
    threads = Threads(1)

    def stop() -> None:
        raise StopIteration

    try:
        with pytest.raises(RuntimeError, match="StopIteration escaped"):
            async with asyncio.timeout(60):
                await threads.call(stop)
    finally:
        threads.close()


async def test_threads_can_be_used_again_after_they_were_closed() -> None:
    threads = Threads(1)
    assert await threads.call(os.getpid) == os.getpid()
    threads.close()
    threads.close()

    assert await threads.call(os.getpid) == os.getpid()
    threads.close()
