"""Turns are bounded, in order, and fair between rollouts."""

import asyncio

import pytest

from strop.errors import SandboxBusyError
from strop.sandbox.fair_queue import FairQueue


async def _hold(queue: FairQueue, rollout: str, log: list[str]) -> None:
    async with queue.turn(rollout):
        log.append(rollout)
        await asyncio.sleep(0)


async def test_rollouts_take_turns_whatever_each_has_queued() -> None:
    queue = FairQueue(1, 100)
    log: list[str] = []
    wanted = ["a"] * 5 + ["b"] * 2 + ["c"]

    await asyncio.gather(*(_hold(queue, rollout, log) for rollout in wanted))

    assert log == ["a", "a", "b", "c", "a", "b", "a", "a"]


async def test_no_more_than_allowed_run_at_once() -> None:
    queue, running, most = FairQueue(3, 100), 0, 0

    async def work(rollout: str) -> None:
        nonlocal running, most
        async with queue.turn(rollout):
            running += 1
            most = max(most, running)
            await asyncio.sleep(0.001)
            running -= 1

    await asyncio.gather(*(work(str(index % 4)) for index in range(40)))

    assert most == 3
    assert queue.waiting_count == 0


async def test_who_is_cancelled_while_waiting_gives_up_the_place() -> None:
    queue = FairQueue(1, 100)
    log: list[str] = []
    async with queue.turn("x"):
        waiting = [asyncio.create_task(_hold(queue, name, log)) for name in "abc"]
        await asyncio.sleep(0)
        waiting[1].cancel()
        await asyncio.sleep(0)
    await asyncio.gather(*waiting, return_exceptions=True)

    assert log == ["a", "c"]
    async with asyncio.timeout(60), queue.turn("again"):
        pass


async def test_who_is_cancelled_with_the_turn_in_hand_passes_it_on() -> None:
    queue = FairQueue(1, 100)
    log: list[str] = []
    holder = queue.turn("x")
    await holder.__aenter__()
    first = asyncio.create_task(_hold(queue, "a", log))
    second = asyncio.create_task(_hold(queue, "b", log))
    await asyncio.sleep(0)
    await holder.__aexit__(None, None, None)
    first.cancel()

    await asyncio.wait_for(second, 60)

    assert log == ["b"]


async def test_a_fault_inside_a_turn_frees_it() -> None:
    queue = FairQueue(1, 0)
    for _ in range(3):
        with pytest.raises(KeyError):
            async with queue.turn(""):
                raise KeyError

    async with queue.turn(""):
        with pytest.raises(SandboxBusyError, match="0 runs wait"):
            async with queue.turn(""):
                pass
