"""Whatever fails, and however a run is cut, every attempt is accounted for exactly once."""

import asyncio
import tempfile
from collections import Counter
from pathlib import Path
from typing import Any

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from strop import (
    Completion,
    End,
    Environment,
    Episode,
    Message,
    RunPlan,
    Task,
    Trajectory,
    evaluate,
    group_reward,
    read_trajectories,
    reward,
    tool,
)
from strop.errors import ContextOverflowError, ModelUnavailableError
from strop.evaluation import TRAJECTORIES_NAME
from strop.models.scripted import ScriptedModel, call

FATES = [
    "fine",
    "setup raises",
    "respond raises",
    "close raises",
    "tool raises",
    "tool ends",
    "reward raises",
    "reward is nan",
    "model is down",
    "context overflows",
    "completion is cut",
]
FAILING = {
    "setup raises",
    "respond raises",
    "close raises",
    "tool raises",
    "reward raises",
    "reward is nan",
    "model is down",
}


class Fated(Episode):
    """Fails in the way that its task says."""

    open_count = 0

    async def setup(self) -> None:
        type(self).open_count += 1
        self._meet("setup raises")

    @tool(inline=True)
    def act(self) -> str | End:
        """Act."""
        self._meet("tool raises")
        return End("ended by the tool") if self.task.reference == "tool ends" else "acted"

    async def respond(self, completion: Completion) -> End:
        self._meet("respond raises")
        return End()

    async def close(self) -> None:
        type(self).open_count -= 1
        self._meet("close raises")

    def _meet(self, fate: str) -> None:
        if self.task.reference == fate:
            raise LookupError(fate)


@reward(inline=True, range=(0, 1))
def fated(trajectory: Trajectory) -> float:
    if trajectory.task.reference == "reward raises":
        raise LookupError("reward raises")
    return float("nan") if trajectory.task.reference == "reward is nan" else 0.5


@group_reward(range=(0, 1))
def share(trajectories: Any) -> list[float]:
    return [1 / len(trajectories)] * len(trajectories)


def policy(messages: Any) -> Any:
    fate = messages[0].text
    if fate == "model is down":
        raise ModelUnavailableError("503")
    if fate == "context overflows":
        raise ContextOverflowError("too long")
    if fate == "completion is cut":
        return Completion(Message("assistant", "cu"), "length")
    return call("act") if len(messages) == 1 and fate.startswith("tool") else "answer"


def environment_of(fates: list[str], *, is_compared: bool) -> Environment:
    tasks = [Task(str(n), fate, fate) for n, fate in enumerate(fates)]
    rewards = [fated, share] if is_compared else [fated]
    return Environment(tasks=tasks, rewards=rewards, episode=Fated)


@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(
    fates=st.lists(st.sampled_from(FATES), min_size=1, max_size=12),
    group_size=st.integers(1, 3),
    concurrency=st.integers(1, 9),
    is_compared=st.booleans(),
    cut_at=st.integers(0, 30),
)
def test_every_attempt_is_written_once_with_its_own_fate(
    fates: list[str], group_size: int, concurrency: int, is_compared: bool, cut_at: int
) -> None:
    plan = RunPlan(group_size=group_size, concurrency=concurrency, max_failure_share=1.0)
    model = ScriptedModel(policy)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / TRAJECTORIES_NAME
        asyncio.run(
            evaluate(environment_of(fates, is_compared=is_compared), model, plan, out=path.parent)
        )
        lines = path.read_bytes().splitlines(keepends=True)
        path.write_bytes(b"".join(lines[:cut_at]) + b'{"torn')
        report = asyncio.run(
            evaluate(
                environment_of(fates, is_compared=is_compared),
                model,
                plan,
                out=path.parent,
                is_resumed=True,
            )
        )
        trajectories = read_trajectories(path)
        assert path.read_bytes().startswith(b"".join(lines[:cut_at]))

    assert Fated.open_count == 0
    made = Counter(t.attempt for t in trajectories)
    assert set(made.values()) == {1}
    assert len(made) == len(fates) * group_size == report.attempt_count
    for trajectory in trajectories:
        fate = trajectory.task.reference
        if fate in FAILING:
            assert trajectory.failure is not None
            assert trajectory.reward is None
        else:
            assert trajectory.failure is None
            assert trajectory.reward is not None
        assert trajectory.is_truncated == (fate in {"context overflows", "completion is cut"})
    failed = sum(t.failure is not None for t in trajectories)
    assert sum(report.failures.values()) == failed
    assert report.scored_count == len(trajectories) - failed
