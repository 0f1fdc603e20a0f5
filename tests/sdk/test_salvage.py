"""What no file can hold fails its own attempt; the run goes on, and its file is whole."""

from collections.abc import Sequence
from dataclasses import replace
from datetime import date
from pathlib import Path
from typing import Any

import pytest

from strop import (
    Completion,
    Environment,
    Message,
    Report,
    RunPlan,
    Task,
    ToolCall,
    Trajectory,
    evaluate,
    group_reward,
    read_trajectories,
)
from strop.errors import UnwritableError
from strop.evaluation import TRAJECTORIES_NAME, WAITING_NAME
from strop.review.validation import Validator
from strop.salvage import failed_copy
from strop.trajectory import Failure, OutsideReply, Segment, TurnValues
from strop.trajectory_json import encode_line
from tests.sdk.trajectories import a_completion, a_trajectory, is_exact, sampled_segment

ODD = object()


class OddModel:
    """Answers right; one of its replies has a field that is no JSON."""

    name = "odd"

    def __init__(self, odd_ask: str) -> None:
        self._odd_ask = odd_ask

    async def complete(self, messages: Sequence[Message], *_: Any) -> Completion:
        text = messages[0].text
        raw: Any = {"choice": {"logits": [1, (ODD,)]}} if text == self._odd_ask else {}
        return a_completion(text, raw=raw)

    async def close(self) -> None:
        """Nothing is open."""


@group_reward(range=(0, 1))
def shares(trajectories: Sequence[Trajectory]) -> list[float]:
    return [1 / len(trajectories)] * len(trajectories)


def tasks(count: int = 60) -> list[Task]:
    return [Task(str(n), f"say {n}", f"say {n}") for n in range(count)]


async def run(environment: Environment, out: Path, **plan: Any) -> tuple[Report, list[Trajectory]]:
    report = await evaluate(environment, OddModel("say 7"), RunPlan(**plan), out=out)
    assert not (out / WAITING_NAME).exists()
    path = out / TRAJECTORIES_NAME
    assert list(Validator(path)) == []
    return report, read_trajectories(path)


def failure_of(trajectory: Trajectory) -> Failure:
    assert trajectory.failure is not None
    return trajectory.failure


async def test_a_reply_that_is_no_json_fails_its_attempt_alone(tmp_path: Path) -> None:
    environment = Environment(tasks=tasks(), rewards=[is_exact])

    report, kept = await run(environment, tmp_path, concurrency=4)
    again = await evaluate(environment, OddModel(""), RunPlan(), out=tmp_path, is_resumed=True)

    (failed,) = (each for each in kept if each.failure is not None)
    assert report.failures == again.failures == {"UnwritableError": 1}
    assert (report.attempt_count, report.scored_count, report.mean_reward) == (60, 59, 1.0)
    assert again.attempt_count == 60
    assert (failed.task, failed.text, failed.reward) == (
        environment.tasks["train"][7],
        "say 7",
        None,
    )
    assert failure_of(failed).boundary == "model"
    assert "`segments[1].raw.choice.logits[1][0]` is no JSON" in failure_of(failed).message


async def test_members_that_wait_for_their_group_are_kept_too(tmp_path: Path) -> None:
    environment = Environment(tasks=tasks(12), rewards=[is_exact, shares])

    report, kept = await run(environment, tmp_path, group_size=2, concurrency=3)

    failed = [each.attempt.member for each in kept if each.failure is not None]
    assert report.failures == {"UnwritableError": 2}
    assert sorted(failed) == [0, 1]
    assert (len(kept), report.mean_reward) == (24, 1.5)


async def test_a_task_that_is_no_json_fails_its_attempts(tmp_path: Path) -> None:
    odd = Task("odd", "say odd", "say odd", {"day": date(2026, 1, 1), "level": 1})  # type: ignore[dict-item]
    environment = Environment(tasks=[*tasks(3), odd], rewards=[is_exact])

    report, kept = await run(environment, tmp_path)

    assert report.failures == {"UnwritableError": 1}
    (failed,) = (each for each in kept if each.failure is not None)
    assert (failed.task.key, failed.task.reference, failed.task.metadata) == ("odd", None, {})
    assert failure_of(failed).boundary == "environment"
    assert "its `task.metadata.day` is no JSON" in failure_of(failed).message


def odd_call(parent: int) -> Segment:
    message = Message("assistant", "", (ToolCall("a", "move", ODD),))  # type: ignore[arg-type]
    return replace(sampled_segment(parent, 4), messages=(message,))


def unwritable(trajectory: Trajectory) -> UnwritableError:
    with pytest.raises(UnwritableError) as caught:
        encode_line(trajectory)
    return caught.value


def test_the_graph_ends_before_a_segment_that_is_no_json() -> None:
    good = a_trajectory().segments
    trajectory = a_trajectory(
        *good, odd_call(1), sampled_segment(2), turn_values={"near": TurnValues((1.0,) * 3, 1.0)}
    )

    copy = failed_copy(trajectory, unwritable(trajectory))

    encode_line(copy)
    assert copy.segments == good
    assert (copy.turn_rewards, copy.turn_values) == (None, {})
    assert "`segments[2].messages[0].tool_calls[0].arguments`" in failure_of(copy).message


def test_the_rest_is_kept_and_an_earlier_failure_is_told() -> None:
    replies = (OutsideReply("judge:a", "d" * 64, "yes"), OutsideReply("judge:b", "e" * 64, ODD))  # type: ignore[arg-type]
    failure = Failure("RewardError", "reward", "broken", "line 1")
    trajectory = a_trajectory(replies=replies, failure=failure)

    copy = failed_copy(trajectory, unwritable(trajectory))

    encode_line(copy)
    assert (copy.replies, copy.segments, copy.task) == (
        replies[:1],
        trajectory.segments,
        trajectory.task,
    )
    assert copy.seats["policy"].rewards == trajectory.seats["policy"].rewards
    assert "its `replies[1].reply` is no JSON" in failure_of(copy).message
    assert failure_of(copy).message.endswith("Before that: RewardError: broken")
