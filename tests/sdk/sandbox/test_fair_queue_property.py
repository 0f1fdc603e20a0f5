"""Whatever comes, waits, leaves and is cancelled: no turn is lost, doubled or out of order."""

import asyncio
import time
from collections import defaultdict

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from strop.errors import SandboxBusyError
from strop.sandbox.fair_queue import FairQueue

ROLLOUTS = st.sampled_from("abc")
STEPS = st.lists(
    st.tuples(st.just("come"), ROLLOUTS)
    | st.tuples(st.just("leave"), st.integers(0, 20).map(str))
    | st.tuples(st.just("cancel"), st.integers(0, 20).map(str)),
    max_size=40,
)


class _Crowd:
    """Tasks at a queue, each of which holds its turn until it is told to leave."""

    def __init__(self, concurrency: int, limit: int) -> None:
        self.queue = FairQueue(concurrency, limit)
        self.concurrency = concurrency
        self.tasks: list[asyncio.Task[None]] = []
        self.running: dict[int, asyncio.Event] = {}
        self.order: dict[str, list[int]] = defaultdict(list)
        self.refused_count = 0

    async def _attend(self, number: int, rollout: str) -> None:
        async with self.queue.turn(rollout) as queue_s:
            assert queue_s >= 0
            self.order[rollout].append(number)
            self.running[number] = asyncio.Event()
            try:
                await self.running[number].wait()
            finally:
                del self.running[number]

    async def act(self, what: str, who: str) -> None:
        if what == "come":
            self.tasks.append(asyncio.create_task(self._attend(len(self.tasks), who)))
        elif what == "leave" and self.running:
            numbers = sorted(self.running)
            self.running[numbers[int(who) % len(numbers)]].set()
        elif what == "cancel" and self.tasks:
            self.tasks[int(who) % len(self.tasks)].cancel()
        for _ in range(4):
            await asyncio.sleep(0)
        assert len(self.running) <= self.concurrency

    async def end(self) -> None:
        for _ in range(len(self.tasks) + 1):
            for event in self.running.values():
                event.set()
            for _ in range(4):
                await asyncio.sleep(0)
        outcomes = await asyncio.gather(*self.tasks, return_exceptions=True)
        self.refused_count = sum(isinstance(each, SandboxBusyError) for each in outcomes)
        faults = (asyncio.CancelledError, SandboxBusyError, type(None))
        assert all(isinstance(each, faults) for each in outcomes)


@settings(max_examples=60, deadline=None)
@given(STEPS, st.integers(1, 3))
def test_every_turn_is_given_back(steps: list[tuple[str, str]], concurrency: int) -> None:
    async def play() -> None:
        crowd = _Crowd(concurrency, 100)
        for what, who in steps:
            await crowd.act(what, who)
        await crowd.end()
        assert crowd.queue.waiting_count == 0
        assert crowd.queue._free == concurrency
        assert all(order == sorted(order) for order in crowd.order.values())

    asyncio.run(play())


@settings(max_examples=40, deadline=None)
@given(STEPS, st.integers(0, 3))
def test_no_more_wait_than_may(steps: list[tuple[str, str]], limit: int) -> None:
    async def play() -> None:
        crowd = _Crowd(1, limit)
        for what, who in steps:
            await crowd.act(what, who)
            assert crowd.queue.waiting_count <= limit
        await crowd.end()
        come_count = sum(what == "come" for what, _ in steps)
        assert crowd.refused_count <= max(0, come_count - 1 - limit)

    asyncio.run(play())


@settings(max_examples=40, deadline=None)
@given(st.lists(ROLLOUTS, min_size=1, max_size=30))
def test_nobody_is_overtaken_twice_by_the_same_rollout(wanted: list[str]) -> None:
    async def play() -> list[str]:
        queue, log = FairQueue(1, 100), list[str]()

        async def attend(rollout: str) -> None:
            async with queue.turn(rollout):
                log.append(rollout)
                await asyncio.sleep(0)

        async with queue.turn("first"):
            waiting = [asyncio.create_task(attend(rollout)) for rollout in wanted]
            await asyncio.sleep(0)
        await asyncio.gather(*waiting)
        return log

    log = asyncio.run(play())

    assert sorted(log) == sorted(wanted)
    rest = [wanted.count(rollout) for rollout in "abc"]
    for start in range(len(log)):
        alive = sum(count > 0 for count in rest)
        assert len(set(log[start : start + alive])) == min(alive, len(log) - start)
        rest["abc".index(log[start])] -= 1


@pytest.mark.parametrize("concurrency", [1, 2, 7])
async def test_waiting_time_is_told(concurrency: int) -> None:
    queue = FairQueue(concurrency, 100)
    told: list[float] = []

    async def hold(may_leave: asyncio.Event) -> None:
        async with queue.turn("") as queue_s:
            told.append(queue_s)
            await may_leave.wait()

    may_leave = asyncio.Event()
    began = time.monotonic()
    holding = [asyncio.create_task(hold(may_leave)) for _ in range(2 * concurrency)]
    await asyncio.sleep(0)
    all_asked = time.monotonic()
    await asyncio.sleep(0.02)
    queued_s = time.monotonic() - all_asked
    may_leave.set()
    await asyncio.gather(*holding)

    # Measured beside it: how long anything takes is the machine's business.
    assert all(seconds <= all_asked - began for seconds in told[:concurrency])
    assert all(seconds >= queued_s for seconds in told[concurrency:])
