"""Plays a repair with a script of tool calls."""

from collections.abc import AsyncIterator, Awaitable, Callable
from itertools import chain
from typing import Any

import pytest
import pytest_asyncio
from swe_env import load_environment

from strop import Environment, ScriptedModel, Task, Trajectory

Play = Callable[..., Awaitable[Trajectory]]


@pytest_asyncio.fixture(loop_scope="module", scope="module")
async def environment() -> AsyncIterator[Environment]:
    """The default one, open for a module's tests."""
    async with load_environment() as opened:
        yield opened


@pytest.fixture(scope="module")
def tasks(environment: Environment) -> dict[str, Task]:
    """All tasks, by their keys."""
    return {task.key: task for task in chain(*environment.tasks.values())}


@pytest.fixture(scope="module")
def play(environment: Environment) -> Play:
    """Plays a task with calls, and ends with a word."""

    async def go(task: Task, *replies: Any) -> Trajectory:
        model = ScriptedModel.replies([*replies, "Ready."])
        trajectory = await environment.rollout(task, model)
        assert trajectory.failure is None, trajectory.failure
        return trajectory

    return go
