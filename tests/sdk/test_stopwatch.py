"""What an attempt only waited for in a queue is charged to no stage and no limit."""

import asyncio
import threading
import time
from typing import Any

import pytest

from strop import (
    Completion,
    Environment,
    Episode,
    Message,
    Sampling,
    ScriptedModel,
    Task,
    TimeLimits,
    Trajectory,
    reward,
    tool,
)
from strop.limits import limited
from strop.models.budget import PacedModel
from strop.models.scripted import call
from strop.sandbox.fair_queue import FairQueue
from strop.stopwatch import Stopwatch, current_clock, in_queue
from strop.threads import Threads
from tests.waiting import until

TASK = Task("1", "Go on.", split="train")
WAIT_S = 0.5


async def test_waits_are_told_apart() -> None:
    with Stopwatch() as watch:
        await asyncio.sleep(0.1)
        with in_queue():
            await asyncio.sleep(WAIT_S)

    assert watch.queue_s >= WAIT_S * 0.9
    assert watch.seconds >= 0.09
    assert current_clock() is None


async def test_waits_at_the_same_time_count_once() -> None:
    async def wait() -> None:
        with in_queue():
            await asyncio.sleep(WAIT_S)

    started = time.perf_counter()
    with Stopwatch() as watch:
        await asyncio.gather(wait(), wait(), wait())

    assert WAIT_S * 0.9 <= watch.queue_s <= time.perf_counter() - started


async def test_an_attempt_of_its_own_takes_nothing_from_its_neighbour() -> None:
    watches: list[Stopwatch] = []

    async def attempt(*, has_wait: bool) -> None:
        with Stopwatch(is_own=True) as watch:
            if has_wait:
                with in_queue():
                    await asyncio.sleep(WAIT_S)
            else:
                await asyncio.sleep(WAIT_S)
        watches.append(watch)

    with Stopwatch() as outer:
        await asyncio.gather(attempt(has_wait=True), attempt(has_wait=False))

    waited, worked = sorted(watches, key=lambda watch: -watch.queue_s)
    assert worked.queue_s == 0.0
    assert worked.seconds >= WAIT_S * 0.9
    assert outer.queue_s == pytest.approx(waited.queue_s, abs=0.2)


async def test_a_limit_does_not_run_on_while_its_body_waits() -> None:
    with Stopwatch():
        async with limited(0.3):
            with in_queue():
                await asyncio.sleep(1.0)
        with pytest.raises(TimeoutError):
            async with limited(0.3):
                await asyncio.sleep(30)


async def test_outside_of_any_measure_a_queue_is_waited_in_all_the_same() -> None:
    with in_queue():
        await asyncio.sleep(0)

    assert current_clock() is None


async def test_a_turn_in_a_full_sandbox_is_charged_to_no_limit() -> None:
    queue = FairQueue(concurrency=1, limit=10)

    class Tools(Episode):
        @tool
        async def run(self) -> str:
            """Run."""
            async with queue.turn(self.attempt.task_key):
                await asyncio.sleep(0.2)
            return "ran"

    @reward(live=True)
    async def judged(trajectory: Trajectory, episode: Episode) -> float:
        async with queue.turn(episode.attempt.task_key):
            return 1.0

    environment = Environment(
        tasks=[TASK],
        rewards=[judged],
        episode=Tools,
        time_limits=TimeLimits(turns_s=2.0, tool_s=1.0, reward_s=1.0),
    )

    async def rollout() -> Trajectory:
        model = ScriptedModel.replies([call("run"), "x"])
        return await environment.rollout(TASK, model)

    started = time.perf_counter()
    async with queue.turn("another"):
        running = [asyncio.ensure_future(rollout()) for _ in range(4)]
        await until(lambda: queue.waiting_count == 4)
        await asyncio.sleep(2.6)
    trajectories = await asyncio.gather(*running)

    ran_s = time.perf_counter() - started
    for each in trajectories:
        assert (each.failure, each.stop_reason, each.reward) == (None, "ended", 1.0)
        assert each.messages()[2].text == "ran"
        assert each.timing.queue_s >= 2.5
        assert each.timing.tools_s <= each.timing.turns_s <= ran_s - each.timing.queue_s


async def test_the_turn_of_a_paced_model_is_charged_to_no_limit() -> None:
    paced = PacedModel(ScriptedModel.constant("x"), requests_per_s=0.5)
    await paced.complete([], (), Sampling())
    environment = Environment(tasks=[TASK], rewards=[], time_limits=TimeLimits(turns_s=0.5))
    started = time.perf_counter()
    trajectory = await environment.rollout(TASK, paced)
    ran_s = time.perf_counter() - started

    assert trajectory.stop_reason == "ended"
    assert trajectory.timing.queue_s > 0.5
    assert trajectory.timing.turns_s <= ran_s - trajectory.timing.queue_s


async def test_waiting_for_a_thread_is_charged_to_no_limit() -> None:
    may_end = threading.Event()
    threads = Threads(1)
    holding = asyncio.ensure_future(threads.call(may_end.wait, 60))

    async def patient() -> int:
        started = time.perf_counter()
        with Stopwatch() as watch:
            async with limited(0.3):
                await threads.call(len, "four")
        assert watch.queue_s > 0.5
        assert watch.seconds + watch.queue_s <= time.perf_counter() - started
        return 4

    calling = asyncio.ensure_future(patient())
    await asyncio.sleep(1.0)
    may_end.set()

    assert await asyncio.wait_for(calling, 60) == 4
    await holding
    threads.close()


async def test_a_thread_waits_for_the_attempt_that_called_it() -> None:
    threads = Threads(1)

    def work() -> None:
        with in_queue():
            time.sleep(WAIT_S)

    with Stopwatch() as watch:
        await threads.call(work)

    assert watch.queue_s >= WAIT_S * 0.9
    threads.close()


async def test_time_that_a_model_takes_is_charged() -> None:
    async def slow(messages: Any) -> Completion:
        await asyncio.sleep(0.2)
        return Completion(Message("assistant", "x"))

    environment = Environment(tasks=[TASK], rewards=[])
    trajectory = await environment.rollout(TASK, ScriptedModel(slow))

    assert trajectory.timing.turns_s >= 0.19
    assert trajectory.timing.queue_s == 0.0
