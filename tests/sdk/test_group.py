"""Members of a group share their seed and are compared with each other."""

import math
from collections.abc import Sequence
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import pytest

from strop import (
    Attempt,
    Completion,
    Environment,
    Message,
    RunPlan,
    ScriptedModel,
    Task,
    Trajectory,
    evaluate,
    group_reward,
    read_trajectories,
    reward,
)
from strop.errors import ModelAuthError, RunStoppedError, SettingsError
from strop.evaluation import TRAJECTORIES_NAME, WAITING_NAME

TASK = Task("1", "Say a number.", split="train")


@reward(inline=True)
def number(trajectory: Trajectory) -> float:
    return float(trajectory.text)


@group_reward(weight=10, range=(0, 1))
def is_highest(trajectories: Sequence[Trajectory]) -> list[float]:
    best = max(float(each.text) for each in trajectories)
    return [float(float(each.text) == best) for each in trajectories]


def dice(messages: Any, tools: Any, rng: Any) -> str:
    return str(rng.randint(1, 100))


def an_environment(*rewards: Any) -> Environment:
    return Environment(tasks=[TASK], rewards=rewards or [number, is_highest])


async def test_a_group_reward_sees_all_members() -> None:
    group = await an_environment().rollout_group(TASK, ScriptedModel(dice), 8)

    numbers = [float(each.text) for each in group]
    assert len(set(numbers)) > 1
    for each, own in zip(group, numbers, strict=True):
        is_best = own == max(numbers)
        assert each.reward == own + 10 * is_best
        assert each.rewards["is_highest"].value == float(is_best)
    assert [each.attempt.member for each in group] == list(range(8))
    assert len({each.attempt.environment_seed for each in group}) == 1


async def test_a_failed_member_is_left_out_and_keeps_its_failure() -> None:
    replies = iter(["1", "no number", "3"])
    environment = an_environment()

    group = await environment.rollout_group(TASK, ScriptedModel(lambda m: next(replies)), 3)

    assert [each.reward for each in group] == [1.0, None, 13.0]
    assert group[1].failure is not None
    assert "is_highest" not in group[1].failure.message


async def test_a_group_of_failures_is_not_compared() -> None:
    group = await an_environment().rollout_group(TASK, ScriptedModel.constant("x"), 2)

    assert all(each.failure is not None for each in group)


@pytest.mark.parametrize(
    ("returned", "told"),
    [
        (lambda ts: [1.0], "returned 1 numbers for 2 members"),
        (lambda ts: 5, "raised TypeError"),
        (lambda ts: 1 / 0, "raised ZeroDivisionError"),
    ],
)
async def test_a_broken_group_reward_fails_all_its_members(returned: Any, told: str) -> None:
    broken = group_reward(name="broken")(returned)

    group = await an_environment(broken).rollout_group(TASK, ScriptedModel.constant("1"), 2)

    assert all(each.reward is None for each in group)
    assert all(each.failure and told in each.failure.message for each in group)


async def test_a_bad_number_fails_its_member_alone() -> None:
    odd = group_reward(name="odd")(lambda ts: [1.0, math.nan, 2.0])

    group = await an_environment(odd).rollout_group(TASK, ScriptedModel.constant("1"), 3)

    assert [each.reward for each in group] == [1.0, None, 2.0]
    assert group[1].failure is not None


async def test_a_reward_alone_is_not_complete_before_its_group() -> None:
    trajectory = await an_environment().rollout(TASK, ScriptedModel.constant("1"))

    assert trajectory.reward is None
    assert trajectory.failure is None
    assert trajectory.rewards["number"].value == 1.0


async def test_a_recorded_group_reward_is_kept_when_a_member_is_scored_again() -> None:
    environment = an_environment()
    group = await environment.rollout_group(TASK, ScriptedModel.constant("1"), 2)

    again = await environment.score(group[0])

    assert again.reward == group[0].reward == 11.0


async def test_a_group_can_be_driven_by_hand() -> None:
    environment = an_environment()
    async with environment.start_group(TASK, 3) as group:
        for place, episode in enumerate(group.episodes):
            completion = await ScriptedModel.constant(str(place)).complete(
                episode.messages,
                episode.tools,
                None,  # type: ignore[arg-type]
            )
            await episode.step(completion)
        trajectories = await group.score()

    assert [each.reward for each in trajectories] == [0.0, 1.0, 12.0]


async def test_a_member_that_was_never_played_is_not_compared() -> None:
    async with an_environment().start_group(TASK, 3) as group:
        for episode, text in zip(group.episodes, ["1", "2"], strict=False):
            await episode.step(Completion(Message("assistant", text)))
        first, second, third = await group.score()

    assert [first.reward, second.reward, third.reward] == [1.0, 12.0, None]
    assert third.failure is not None
    assert third.failure.type == "NoCompletionError"


def test_an_empty_group_is_refused() -> None:
    with pytest.raises(SettingsError, match="A group of 0"):
        an_environment().start_group(TASK, 0)


async def test_a_run_compares_its_groups_and_a_resumed_one_too(tmp_path: Path) -> None:
    tasks = [Task(str(n), "Say a number.") for n in range(6)]
    plan = RunPlan(group_size=4, concurrency=5)

    def environment() -> Environment:
        return Environment(tasks=tasks, rewards=[number, is_highest])

    def rewards(name: str) -> dict[Attempt, float | None]:
        return {t.attempt: t.reward for t in read_trajectories(tmp_path / name / TRAJECTORIES_NAME)}

    whole = await evaluate(environment(), ScriptedModel(dice), plan, out=tmp_path / "whole")
    lines = (tmp_path / "whole" / TRAJECTORIES_NAME).read_bytes().splitlines(keepends=True)
    (tmp_path / "cut").mkdir()
    (tmp_path / "cut" / TRAJECTORIES_NAME).write_bytes(b"".join(lines[:10]))

    resumed = await evaluate(
        environment(), ScriptedModel(dice), plan, out=tmp_path / "cut", is_resumed=True
    )

    assert rewards("cut") == rewards("whole")
    assert len(rewards("cut")) == 24
    assert resumed.mean_reward == pytest.approx(whole.mean_reward)


class Numbered(ScriptedModel):
    """A model that counts its completions and stops the run after some of them."""

    def __init__(self, stop_after: int) -> None:
        super().__init__(dice)
        self.count = 0
        self._stop_after = stop_after

    async def complete(self, *arguments: Any) -> Completion:
        if self.count == self._stop_after:
            raise ModelAuthError("No further completion.")
        self.count += 1
        return await super().complete(*arguments)


@group_reward(name="is_answer", weight=1)
def is_answer(trajectories: Sequence[Trajectory]) -> list[float]:
    return [float(each.task.reference == "the answer") for each in trajectories]


@pytest.mark.parametrize("has_reference", [True, False])
@pytest.mark.parametrize("stop_after", [1, 7, 22, 24])
async def test_a_stopped_run_keeps_every_member_that_was_made(
    tmp_path: Path, stop_after: int, has_reference: bool
) -> None:
    tasks = [Task(str(n), "Say a number.", "the answer") for n in range(6)]
    plan = RunPlan(group_size=4, concurrency=5)
    path = tmp_path / TRAJECTORIES_NAME
    made: dict[Attempt, float] = {}

    async def go_on(model: Numbered, *, is_resumed: bool) -> None:
        environment = Environment(tasks=tasks, rewards=[number, is_highest, is_answer])
        await evaluate(
            environment,
            model,
            plan,
            out=tmp_path,
            is_resumed=is_resumed,
            has_reference=has_reference,
        )

    first = Numbered(stop_after)
    with pytest.raises(RunStoppedError) if stop_after < 24 else nullcontext():
        await go_on(first, is_resumed=False)
    for file in [path, *(tmp_path / WAITING_NAME).glob("*")]:
        made |= {member.attempt: member.started_at_s for member in read_trajectories(file)}
    begun = path.read_bytes()
    second = Numbered(1_000)
    await go_on(second, is_resumed=True)

    results = read_trajectories(path)
    assert path.read_bytes().startswith(begun)
    assert len(made) == first.count
    assert len({t.attempt for t in results}) == len(results) == 24
    assert {t.attempt: t.started_at_s for t in results}.items() >= made.items()
    assert second.count == 24 - first.count
    assert {t.rewards["is_answer"].value for t in results} == {1.0}
    assert not (tmp_path / WAITING_NAME).exists()
