"""Tool calls of one turn run over there as they do in-process: at the same time where allowed."""

import asyncio
import threading
from typing import Any

import pytest

from strop import Environment, Episode, Message, ScriptedModel, Task, Trajectory, tool
from strop.models.scripted import call
from tests.sdk.serve.remote.serving import serving

WAIT_S = 60.0


class Meeting(Episode):
    """Calls that end only together, and calls that must not overlap."""

    async def setup(self) -> None:
        self.threads_met = threading.Barrier(3)
        self.tasks_met = asyncio.Barrier(3)
        self.running = 0

    @tool(parallel=True)
    def on_threads(self, name: str) -> str:
        """Wait for two others."""
        self.threads_met.wait(WAIT_S)
        return name

    @tool(parallel=True)
    async def on_the_loop(self, name: str) -> str:
        """Wait for two others."""
        async with asyncio.timeout(WAIT_S):
            await self.tasks_met.wait()
        return name

    @tool
    async def alone(self, name: str) -> str:
        """Say who else runs."""
        self.running += 1
        await asyncio.sleep(0.01)
        self.running -= 1
        return f"{name} beside {self.running}"


def answers(trajectory: Trajectory) -> list[str]:
    messages: list[Message] = [each for each in trajectory.messages() if each.role == "tool"]
    return [message.text for message in messages]


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("on_threads", ["a", "b", "c"]),
        ("on_the_loop", ["a", "b", "c"]),
        ("alone", ["a beside 0", "b beside 0", "c beside 0"]),
    ],
)
async def test_calls_of_one_turn_run_at_the_same_time_where_their_tool_allows_it(
    name: str, expected: list[str]
) -> None:
    def environment() -> Environment:
        return Environment(tasks=[Task("1", "Go.")], rewards=[], episode=Meeting)

    calls: list[Any] = [call(name, name=each) for each in "abc"]
    model = ScriptedModel.replies([calls, "done"])
    with serving(environment()) as served:
        remote = served.connect()
        async with remote:
            there = await remote.rollout(remote.tasks["train"][0], model)
    local = environment()
    async with local:
        here = await local.rollout(local.tasks["train"][0], model)

    assert there.failure is None
    assert answers(there) == answers(here) == expected
