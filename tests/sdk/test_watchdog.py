"""Code that holds up the event loop is named with its stack, once, and no other."""

import asyncio
import logging
import threading
import time
from collections.abc import Callable

import pytest
import uvloop

from strop import Completion, End, Environment, Episode, RunPlan, ScriptedModel, Task, evaluate
from strop.watchdog import Watchdog
from tests.waiting import LIMIT_S, until, wait_until

LoopMaker = Callable[[], asyncio.AbstractEventLoop]


async def test_a_standstill_is_named_once_with_what_stands_still(
    caplog: pytest.LogCaptureFixture,
) -> None:
    with Watchdog(limit_s=0.2):
        # Long enough to be named three times more.
        _hold_up(lambda: caplog.records, rest_s=0.6)

    (record,) = caplog.records
    assert (record.name, record.levelno) == ("strop", logging.WARNING)
    assert "_hold_up" in record.getMessage()


async def test_each_standstill_is_named(caplog: pytest.LogCaptureFixture) -> None:
    with Watchdog(limit_s=0.1):
        _hold_up(lambda: len(caplog.records) == 1)
        await asyncio.sleep(0.2)
        _hold_up(lambda: len(caplog.records) == 2)

    assert len(caplog.records) == 2


async def test_a_loop_that_goes_on_is_left_alone(caplog: pytest.LogCaptureFixture) -> None:
    with Watchdog(limit_s=1.0):
        await asyncio.gather(*[asyncio.to_thread(time.sleep, 1.3) for _ in range(4)])

    assert caplog.records == []


@pytest.mark.parametrize("make_loop", [asyncio.new_event_loop, uvloop.new_event_loop])
def test_a_long_round_of_short_steps_is_left_alone(
    make_loop: LoopMaker, caplog: pytest.LogCaptureFixture
) -> None:
    async def crowd() -> None:
        with Watchdog(limit_s=1.0):
            await asyncio.gather(*[step() for _ in range(2_000)])

    async def step() -> None:
        _block(0.001)

    with asyncio.Runner(loop_factory=make_loop) as runner:
        runner.run(crowd())

    assert caplog.records == []


@pytest.mark.parametrize("make_loop", [asyncio.new_event_loop, uvloop.new_event_loop])
def test_blocking_steps_that_follow_each_other_are_named(
    make_loop: LoopMaker, caplog: pytest.LogCaptureFixture
) -> None:
    deadline = time.monotonic() + LIMIT_S

    async def crowd() -> None:
        with Watchdog(limit_s=1.0):
            await asyncio.gather(*[block() for _ in range(1_000)])

    async def block() -> None:
        # None of them as long as the limit, and all in one round of the loop.
        if not caplog.records and time.monotonic() < deadline:
            _block(0.5)

    with asyncio.Runner(loop_factory=make_loop) as runner:
        runner.run(crowd())

    (record,) = caplog.records
    assert "_block" in record.getMessage()


async def test_nothing_of_it_is_left_after_its_end() -> None:
    with Watchdog(limit_s=0.1):
        assert "strop-watchdog" in {each.name for each in threading.enumerate()}
    await until(lambda: "strop-watchdog" not in {each.name for each in threading.enumerate()})


async def test_a_run_names_an_episode_that_blocks(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Watchdog.__init__, "__defaults__", (0.2,))

    class Blocking(Episode):
        async def respond(self, completion: Completion) -> End:
            _hold_up(lambda: "in respond" in caplog.text)
            return End()

    environment = Environment(tasks=[Task("1", "ask")], rewards=[], episode=Blocking)
    report = await evaluate(environment, ScriptedModel.constant("x"), RunPlan())

    assert report.failures == {}
    assert "in respond" in caplog.text


def _block(duration_s: float) -> None:
    time.sleep(duration_s)


def _hold_up(is_named: Callable[[], object], rest_s: float = 0.0) -> None:
    wait_until(is_named)
    time.sleep(rest_s)
