"""Calls of one turn run in order, and at the same time only where the tool's author allows it."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from typing import Any

import pytest

from strop import End, Environment, ScriptedModel, Task, ToolCall, ToolError, reward, tool
from strop.errors import ToolFaultError
from strop.threads import Threads
from strop.toolbox import Toolbox
from strop.tools import Tool
from strop.trajectory import Trajectory
from strop.types import Completion, Message

WAIT_S = 60.0


async def answers(
    function: Callable[..., Any], *texts: str, others: tuple[Callable[..., Any], ...] = ()
) -> tuple[list[str], End | None]:
    """What calls of one turn are answered; `name:text` calls one of the others."""
    box = Toolbox([Tool.of(function), *map(Tool.of, others)])
    calls = []
    for number, text in enumerate(texts):
        name, _, rest = text.rpartition(":")
        arguments = f'{{"text": "{rest}"}}'
        calls.append(ToolCall(str(number), name or function.__name__, arguments))
    threads = Threads()
    threads.limit = 8
    try:
        messages, end = await box.answer(tuple(calls), "policy", None, threads)
    finally:
        threads.close()
    assert [message.tool_call_id for message in messages] == [call.id for call in calls]
    return [message.text for message in messages], end


async def test_async_calls_meet_and_are_answered_in_order() -> None:
    met = asyncio.Barrier(3)

    @tool(parallel=True)
    async def search(text: str) -> str:
        async with asyncio.timeout(WAIT_S):
            place = await met.wait()
        await asyncio.sleep(0.01 * (3 - place))
        return text.upper()

    assert await answers(search, "a", "b", "c") == (["A", "B", "C"], None)


async def test_calls_on_threads_meet() -> None:
    met = threading.Barrier(3)

    @tool(parallel=True)
    def search(text: str) -> str:
        met.wait(WAIT_S)
        return text.upper()

    assert await answers(search, "a", "b", "c") == (["A", "B", "C"], None)


async def test_without_leave_calls_run_one_after_the_other() -> None:
    running = most = 0

    @tool
    async def search(text: str) -> str:
        nonlocal running, most
        running += 1
        most = max(most, running)
        await asyncio.sleep(0.01)
        running -= 1
        return text

    assert await answers(search, "a", "b", "c") == (["a", "b", "c"], None)
    assert most == 1


async def test_a_call_that_needs_its_turn_waits_for_those_before_it_and_others_for_it() -> None:
    seen: list[str] = []

    @tool(parallel=True)
    async def look(text: str) -> str:
        await asyncio.sleep(0.01)
        seen.append(text)
        return text

    @tool
    async def move(text: str) -> str:
        seen.append(text)
        return text

    await answers(look, "a", "b", "move:c", "d", others=(move,))

    assert seen.index("c") == 2
    assert seen[3] == "d"


async def test_an_error_for_the_model_and_an_end_leave_the_other_answers() -> None:
    @tool(parallel=True)
    async def search(text: str) -> str | End:
        if text == "bad":
            raise ToolError("no such page")
        return End("last", reason="found") if text == "end" else text

    texts, end = await answers(search, "bad", "end", "c")

    assert texts == ["Error: no such page", "last", "c"]
    assert end is not None


async def test_a_fault_is_that_of_the_first_call_and_comes_when_all_have_ended() -> None:
    ended: list[str] = []

    @tool(parallel=True)
    async def search(text: str) -> str:
        await asyncio.sleep(0.05 if text == "a" else 0)
        ended.append(text)
        raise ValueError(text)

    with pytest.raises(ToolFaultError, match="ValueError: a"):
        await answers(search, "a", "b")
    assert sorted(ended) == ["a", "b"]


async def test_a_cancel_reaches_every_call() -> None:
    left: list[str] = []
    begun = asyncio.Barrier(3)

    @tool(parallel=True)
    async def search(text: str) -> str:
        try:
            await begun.wait()
            await asyncio.sleep(600)
        finally:
            left.append(text)
        return text

    turn = asyncio.create_task(answers(search, "a", "b"))
    async with asyncio.timeout(WAIT_S):
        await begun.wait()
    turn.cancel()

    with pytest.raises(asyncio.CancelledError):
        await turn
    assert sorted(left) == ["a", "b"]


async def test_a_rollout_has_the_answers_in_the_order_of_the_calls() -> None:
    met = asyncio.Barrier(2)

    @tool(parallel=True)
    async def search(text: str) -> str:
        async with asyncio.timeout(WAIT_S):
            await met.wait()
        return text

    @reward
    def answered(trajectory: Trajectory) -> float:
        return 1.0

    calls = tuple(ToolCall(text, "search", f'{{"text": "{text}"}}') for text in ("a", "b"))
    replies = iter([Message("assistant", "", tool_calls=calls), Message("assistant", "fine")])
    model = ScriptedModel(lambda _: Completion(next(replies)))
    environment = Environment(tasks=[Task("1", "go")], rewards=[answered], tools=[search])

    trajectory = await environment.rollout(environment.tasks["train"][0], model)

    told = [each.text for part in trajectory.segments for each in part.messages]
    assert told[-3:] == ["a", "b", "fine"]
