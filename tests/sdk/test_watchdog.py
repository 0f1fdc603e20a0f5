"""Code that holds up the event loop is named with its stack, once, and no other."""

import asyncio
import logging
import threading
import time

import pytest

from strop import Completion, End, Environment, Episode, RunPlan, ScriptedModel, Task, evaluate
from strop.watchdog import Watchdog


async def test_a_standstill_is_named_once_with_what_stands_still(
    caplog: pytest.LogCaptureFixture,
) -> None:
    with Watchdog(limit_s=0.2):
        _hold_up(1.0)
        await asyncio.sleep(0.1)

    (record,) = caplog.records
    assert (record.name, record.levelno) == ("strop", logging.WARNING)
    assert "_hold_up" in record.getMessage()


async def test_each_standstill_is_named(caplog: pytest.LogCaptureFixture) -> None:
    with Watchdog(limit_s=0.1):
        for _ in range(2):
            _hold_up(0.6)
            await asyncio.sleep(0.2)

    assert len(caplog.records) == 2


async def test_a_loop_that_goes_on_is_left_alone(caplog: pytest.LogCaptureFixture) -> None:
    with Watchdog(limit_s=1.0):
        await asyncio.gather(*[asyncio.to_thread(time.sleep, 1.3) for _ in range(4)])

    assert caplog.records == []


async def test_nothing_of_it_is_left_after_its_end() -> None:
    with Watchdog(limit_s=0.1):
        assert "strop-watchdog" in {each.name for each in threading.enumerate()}
    for _ in range(100):
        await asyncio.sleep(0.01)
        if "strop-watchdog" not in {each.name for each in threading.enumerate()}:
            return
    raise AssertionError("its thread goes on")


async def test_a_run_names_an_episode_that_blocks(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Watchdog.__init__, "__defaults__", (0.2,))

    class Blocking(Episode):
        async def respond(self, completion: Completion) -> End:
            _hold_up(0.8)
            return End()

    environment = Environment(tasks=[Task("1", "ask")], rewards=[], episode=Blocking)
    report = await evaluate(environment, ScriptedModel.constant("x"), RunPlan())

    assert report.failures == {}
    assert "in respond" in caplog.text


def _hold_up(seconds: float) -> None:
    time.sleep(seconds)
