"""Environments in sandboxes of the strongest tier that this machine offers."""

from collections.abc import AsyncIterator, Sequence
from typing import Any

import pytest

from strop import Message, ScriptedModel, Task, Trajectory, reward
from strop.sandbox import Backend, SandboxSpec
from strop.sandboxed import SandboxEnvironment, SandboxEpisode, ToolName, sandbox_tools
from tests.sdk.sandbox.conftest import TIERS, TIGHT, open_tier, wait_for_idle

SPEC = SandboxSpec(limits=TIGHT, env={"PLACE": "inside"})
TASKS = [Task(str(index), f"Task {index}") for index in range(64)]


@reward(inline=True)
def ended(trajectory: Trajectory) -> float:
    """1 for whoever says so at the end."""
    return float(trajectory.text == "done")


@pytest.fixture
async def backend() -> AsyncIterator[Backend]:
    """Whatever the test's episodes ran is gone when it ends."""
    opened = await open_tier(TIERS[0])
    yield opened
    await wait_for_idle(opened)
    await opened.close()


def make_environment(
    backend: Backend,
    *names: ToolName,
    episode: type[SandboxEpisode] = SandboxEpisode,
    **options: Any,
) -> SandboxEnvironment:
    definition: dict[str, Any] = {"tasks": TASKS, "rewards": [ended], "spec": SPEC, **options}
    tools = sandbox_tools(*names)
    return SandboxEnvironment(backend=backend, episode=episode, tools=tools, **definition)


async def play(environment: SandboxEnvironment, replies: Sequence[Any]) -> Trajectory:
    """A script's attempt at the first task."""
    async with environment:
        return await environment.rollout(TASKS[0], ScriptedModel.replies([*replies, "done"]))


def answers(trajectory: Trajectory) -> list[str]:
    """What the tools said, in order."""
    messages: list[Message] = [m for part in trajectory.segments for m in part.messages]
    return [message.text for message in messages if message.role == "tool"]
