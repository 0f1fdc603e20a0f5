"""Rewards are tried as they are used: on the trajectory of a rollout."""

from collections.abc import Awaitable, Callable

import pytest

from strop import Environment, Reward, ScriptedModel, Task, Trajectory
from strop.types import JSON

Score = Callable[[Reward, str, JSON], Awaitable[Trajectory]]


@pytest.fixture
def score() -> Score:
    """Rolls one text out against one reference and gives the scored trajectory."""

    async def roll(reward: Reward, text: str, reference: JSON) -> Trajectory:
        environment = Environment(tasks=[Task("1", "Answer.", reference)], rewards=[reward])
        async with environment:
            task = environment.tasks["train"][0]
            return await environment.rollout(task, ScriptedModel.constant(text))

    return roll
