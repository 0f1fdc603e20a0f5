"""Code that holds up the event loop is named with its stack, once, and no other."""

import asyncio
import logging
import threading
import time
from collections.abc import Callable

import pytest

from strop import Completion, End, Environment, Episode, RunPlan, ScriptedModel, Task, evaluate
from strop.watchdog import Watchdog
from tests.waiting import until, wait_until


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


def _hold_up(is_named: Callable[[], object], rest_s: float = 0.0) -> None:
    wait_until(is_named)
    time.sleep(rest_s)
