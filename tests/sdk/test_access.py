"""Refused credentials, of the model or of a judge, stop a run and leave no line behind."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from strop import (
    Environment,
    RunPlan,
    ScriptedModel,
    Task,
    Trajectory,
    evaluate,
    group_reward,
    read_trajectories,
    reward,
)
from strop.errors import RunStoppedError
from strop.evaluation import TRAJECTORIES_NAME
from strop.models.openai import OpenAIModel
from strop.rewards import exact, judge
from strop.types import Message, Sampling
from tests.model_server import Fault, ModelServer

TASKS = [Task(str(number), "ab", "ba") for number in range(20)]
REFUSED = Fault(401, body={"error": {"message": "no such key"}})
ANSWER = ScriptedModel.constant("ba")


@reward
def broken(trajectory: Trajectory) -> float:
    raise ValueError("first")


def says_yes(*_: Any) -> str:
    return "VERDICT: yes"


@pytest.mark.parametrize("others", [(), (broken,)], ids=["alone", "after a broken reward"])
@pytest.mark.parametrize("status", [401, 403])
async def test_a_judge_that_refuses_the_key_stops_the_run_at_once(
    status: int, others: tuple[Any, ...], tmp_path: Path
) -> None:
    async with ModelServer() as server:
        server.faults.extend([Fault(status, body={"error": {"message": "no such key"}})] * 20)
        model = OpenAIModel("tiny", server.base_url)
        asked = judge(model, "Is it right?", {"yes": 1, "no": 0})
        environment = Environment(tasks=TASKS, rewards=[*others, asked])

        with pytest.raises(RunStoppedError, match=f"`judge`.*{status}: no such key"):
            await evaluate(environment, ANSWER, RunPlan(concurrency=2), out=tmp_path)
        await model.close()

    assert len(server.calls) <= 4
    assert read_trajectories(tmp_path / TRAJECTORIES_NAME) == []


async def test_a_refused_judge_of_one_attempt_fails_it_and_can_be_scored_again() -> None:
    async with ModelServer(says_yes) as server:
        server.faults.append(REFUSED)
        model = OpenAIModel("tiny", server.base_url)
        environment = Environment(tasks=TASKS, rewards=[judge(model, "Right?", {"yes": 1})])
        trajectory = await environment.rollout(TASKS[0], ANSWER)
        await model.close()

    assert trajectory.reward is None
    assert trajectory.failure is not None
    assert (trajectory.failure.type, trajectory.failure.boundary) == ("ModelAuthError", "reward")


async def test_a_run_whose_model_refused_the_key_is_made_whole_by_resuming(tmp_path: Path) -> None:
    path = tmp_path / TRAJECTORIES_NAME
    async with ModelServer() as server:
        server.faults.extend([Fault()] * 5 + [REFUSED] * 15)
        model = OpenAIModel("tiny", server.base_url)
        environment, plan = Environment(tasks=TASKS, rewards=[exact()]), RunPlan(concurrency=3)
        with pytest.raises(RunStoppedError, match="no such key"):
            await evaluate(environment, model, plan, out=tmp_path)
        before = path.read_bytes()
        server.faults.clear()
        report = await evaluate(environment, model, plan, out=tmp_path, is_resumed=True)
        await model.close()

    assert (report.attempt_count, report.mean_reward, report.failures) == (20, 1.0, {})
    assert before.count(b"\n") <= 5
    assert path.read_bytes().startswith(before)
    assert len({each.attempt for each in read_trajectories(path)}) == 20


async def test_groups_that_a_judge_refused_to_compare_are_compared_by_resuming(
    tmp_path: Path,
) -> None:
    async with ModelServer(says_yes) as server:
        server.faults.append(REFUSED)
        model = OpenAIModel("tiny", server.base_url)

        @group_reward
        async def ranked(members: list[Trajectory]) -> list[float]:
            await model.complete([Message("user", "Which is best?")], (), Sampling())
            return [1.0] * len(members)

        environment = Environment(tasks=TASKS[:2], rewards=[ranked])
        plan = RunPlan(group_size=2, concurrency=1)
        with pytest.raises(RunStoppedError, match=r"`ranked`.*no such key"):
            await evaluate(environment, ANSWER, plan, out=tmp_path)
        kept = read_trajectories(tmp_path / TRAJECTORIES_NAME)
        report = await evaluate(environment, ANSWER, plan, out=tmp_path, is_resumed=True)
        await model.close()

    assert kept == []
    assert (report.attempt_count, report.mean_reward) == (4, 1.0)
