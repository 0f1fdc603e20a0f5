"""Rollouts tell which weights sampled them, so that a trainer drops and counts what is stale."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from strop import (
    Completion,
    End,
    Environment,
    Episode,
    Message,
    RunPlan,
    ScriptedModel,
    Task,
    Trajectory,
    evaluate,
    read_trajectories,
)
from strop.evaluation import TRAJECTORIES_NAME
from strop.trajectory import Seat, Segment
from tests.sdk.trajectories import a_trajectory, prompt_segment, sampled_segment


def sampled_by(*versions: int | None, seat: str = "policy") -> tuple[Segment, ...]:
    """One path, a completion for each version."""
    segments = [prompt_segment(None, 0)]
    for version in versions:
        completion = sampled_segment(len(segments) - 1, 1)
        segments.append(replace(completion, policy_version=version, seat=seat))
        segments.append(prompt_segment(len(segments) - 1, 2))
    return tuple(segments)


class Twice(Episode):
    async def respond(self, completion: Completion) -> str | End:
        return End() if self.turn_count == 2 else "Go on."


async def test_stale_rollouts_are_dropped_and_counted_and_no_other(tmp_path: Path) -> None:
    """Weights that change at every third completion, in the middle of attempts too."""
    sampled_count = 0

    def sample(messages: Any) -> Completion:
        nonlocal sampled_count
        sampled_count += 1
        return Completion(Message("assistant", "x"), policy_version=(sampled_count - 1) // 3)

    environment = Environment(
        tasks=[Task(str(n), "Go.") for n in range(9)], rewards=[], episode=Twice
    )
    await evaluate(environment, ScriptedModel(sample), RunPlan(concurrency=1), out=tmp_path)

    queued = read_trajectories(tmp_path / TRAJECTORIES_NAME)
    spans = [each.policy_span for each in queued]
    assert spans == [(0, 0), (0, 1), (1, 1), (2, 2), (2, 3), (3, 3), (4, 4), (4, 5), (5, 5)]
    stale = [each.task.key for each in queued if each.is_stale(5, max_lag=2)]
    fresh = [each.task.key for each in queued if not each.is_stale(5, max_lag=2)]
    # An attempt is as old as its first completion; what is exactly as many behind is kept.
    assert stale == ["0", "1", "2", "3", "4"]
    assert fresh == ["5", "6", "7", "8"]


@pytest.mark.parametrize(
    ("max_lag", "is_stale"), [(0, True), (1, True), (2, True), (3, False), (4, False)]
)
def test_what_is_exactly_as_many_versions_behind_is_kept(max_lag: int, is_stale: bool) -> None:
    assert a_trajectory(*sampled_by(7, 8)).is_stale(10, max_lag) == is_stale


def test_nothing_is_stale_at_its_own_version() -> None:
    assert not a_trajectory(*sampled_by(7)).is_stale(7, 0)


def test_the_seats_that_are_not_trained_do_not_count() -> None:
    old = sampled_by(1, seat="user")
    segments = (*old, replace(sampled_segment(len(old) - 1, 1), policy_version=9))
    trajectory = a_trajectory(*segments, seats={"policy": Seat(True), "user": Seat(False)})

    assert trajectory.policy_span == (9, 9)


@pytest.mark.parametrize("versions", [(None,), (7, None), ()])
def test_versions_that_are_not_told_are_not_made_up(versions: tuple[int | None, ...]) -> None:
    trajectory: Trajectory = a_trajectory(*sampled_by(*versions))

    assert trajectory.policy_span is None
    with pytest.raises(ValueError, match="does not tell which weights sampled it"):
        trajectory.is_stale(8, 1)
