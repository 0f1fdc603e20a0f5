"""Plays problems with answers that are given."""

from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any

import pytest_asyncio
from code_env import load_environment
from coding_tasks import answer

from strop import Environment, ScriptedModel, Task, Trajectory

Play = Callable[..., Awaitable[Trajectory]]


@pytest_asyncio.fixture(loop_scope="module", scope="module")
async def play() -> AsyncIterator[Play]:
    """Plays a task with answers; a module's environments of one setting share a backend."""
    opened: dict[str, Environment] = {}

    async def go(task: Task, *codes: str, is_text: bool = False, **settings: Any) -> Trajectory:
        settings = {"turns": len(codes), **settings}
        name = repr(settings)
        if name not in opened:
            opened[name] = await load_environment(**settings).__aenter__()
        texts = codes if is_text else [answer(code) for code in codes]
        replies = ScriptedModel.replies(texts)
        trajectory = await opened[name].rollout(task, replies)
        assert trajectory.failure is None, trajectory.failure
        return trajectory

    yield go
    for environment in opened.values():
        await environment.__aexit__()
