"""Saved trajectories are scored with another rubric; what cannot be known again is kept or told."""

import asyncio
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, ClassVar

import pytest

from strop import (
    Attempt,
    Environment,
    RunPlan,
    ScriptedModel,
    Task,
    Trajectory,
    evaluate,
    group_reward,
    metric,
    read_trajectories,
    reward,
)
from strop.errors import SettingsError, TrajectoryFileError
from strop.hub.load import load_project
from strop.mixture import Mixture
from strop.replies import Replies
from strop.review.rescoring import STAMP, Rescoring, rescore
from strop.review.validation import Validator
from strop.trajectory import Failure, Seat
from strop.trajectory_file import TrajectoryWriter
from tests.architecture.tree import ROOT
from tests.sdk.cli.command import strop
from tests.sdk.trajectories import a_trajectory

TASKS = [Task(str(n), f"Say {n}.", str(n)) for n in range(4)]


@reward(range=(0, 1))
def right(trajectory: Trajectory) -> float:
    return float(trajectory.text == trajectory.task.reference)


@reward(name="right", range=(0, 1))
def generous(trajectory: Trajectory) -> float:
    return 1.0


@metric
def length(trajectory: Trajectory) -> float:
    return len(trajectory.text)


def environment(*rewards: Any, **options: Any) -> Environment:
    return Environment(tasks=TASKS, rewards=rewards, **options)


def say_two() -> ScriptedModel:
    return ScriptedModel.constant("2")


async def saved(folder: Path, made_by: Environment, group_size: int = 1) -> Path:
    plan = RunPlan(group_size=group_size, concurrency=3)
    await evaluate(made_by, say_two(), plan, out=folder)
    return folder / "trajectories.jsonl"


async def again(source: Path, judged_by: Environment, **options: Any) -> Rescoring:
    return await rescore(judged_by, source, source.with_name("new.jsonl"), **options)


def new_of(source: Path) -> list[Trajectory]:
    path = source.with_name("new.jsonl")
    assert list(Validator(path)) == []
    return read_trajectories(path)


async def test_another_rubric_gives_other_rewards_and_means(tmp_path: Path) -> None:
    source = await saved(tmp_path, environment(right))
    before = source.read_bytes()

    result = await again(source, environment(generous, length))

    assert (result.old.mean_reward, result.new.mean_reward) == (0.25, 1.0)
    assert result.changed_count == 3
    assert source.read_bytes() == before
    assert [each.reward for each in new_of(source)] == [1.0] * 4
    assert [each.metrics for each in new_of(source)] == [{"length": 1.0}] * 4


async def test_the_same_rubric_gives_the_same_in_the_same_order(tmp_path: Path) -> None:
    source = await saved(tmp_path, environment(right), group_size=2)

    result = await again(source, environment(right), concurrency=2)

    assert result.changed_count == 0
    assert [replace(each, stamps={}) for each in new_of(source)] == read_trajectories(source)


async def test_a_trajectory_says_with_what_it_was_scored_again(tmp_path: Path) -> None:
    source = await saved(tmp_path, environment(right))

    await again(source, environment(generous))

    stamp: Any = new_of(source)[0].stamps[STAMP]
    assert stamp["reward"] == 0.0
    assert stamp["environment"] == "local"


async def test_live_rewards_keep_what_they_saw(tmp_path: Path) -> None:
    @reward(live=True, weight=0.5)
    def seen(trajectory: Trajectory, episode: Any) -> float:
        return float(episode.task.key)

    source = await saved(tmp_path, environment(seen))
    heavier = seen.weighted(2.0)

    await again(source, environment(heavier))

    assert [each.reward for each in new_of(source)] == [0.0, 2.0, 4.0, 6.0]


async def test_a_live_reward_that_was_never_recorded_is_a_failure_and_no_zero(
    tmp_path: Path,
) -> None:
    @reward(live=True)
    def unseen(trajectory: Trajectory, episode: Any) -> float:
        return 1.0

    source = await saved(tmp_path, environment(right))

    await again(source, environment(right, unseen))

    for each in new_of(source):
        assert each.reward is None
        assert each.failure is not None
        assert "`unseen`" in each.failure.message
        assert each.rewards["right"].value is not None


async def test_a_mended_grader_lifts_its_failures(tmp_path: Path) -> None:
    @reward(name="right")
    def broken(trajectory: Trajectory) -> float:
        raise ValueError("typo")

    source = await saved(tmp_path, environment(broken))

    result = await again(source, environment(right))

    assert result.old.failures == {"RewardError": 4}
    assert result.new.failures == {}
    assert result.new.mean_reward == 0.25


async def test_other_failures_stay(tmp_path: Path) -> None:
    failure = Failure("ModelError", "model", "gone")
    source = tmp_path / "t.jsonl"
    with TrajectoryWriter(source) as writer:
        writer.write(a_trajectory(failure=failure, seats={"policy": Seat()}, metrics={}))

    result = await again(source, environment(generous))

    assert new_of(source)[0].failure == failure
    assert result.new.scored_count == 0


def asked(counter: list[str], request: str = "?") -> Any:
    @reward(outside=True)
    async def judged(trajectory: Trajectory, replies: Replies) -> float:
        async def ask() -> tuple[float, None]:
            counter.append(trajectory.task.key)
            return 0.5, None

        return float(await replies.ask("judge:judged", [request, trajectory.text], ask))  # type: ignore[arg-type]

    return judged


async def test_judges_answer_from_the_record(tmp_path: Path) -> None:
    calls: list[str] = []
    source = await saved(tmp_path, environment(asked(calls)))
    assert len(calls) == 4

    result = await again(source, environment(asked(calls)))

    assert len(calls) == 4
    assert result.new.mean_reward == 0.5


async def test_a_judge_is_not_asked_anything_new_unless_allowed(tmp_path: Path) -> None:
    calls: list[str] = []
    source = await saved(tmp_path, environment(right))

    refused = await again(source, environment(asked(calls, "new")))
    assert refused.new.failures == {"RewardError": 4}
    assert calls == []

    allowed = await rescore(
        environment(asked(calls, "new")), source, tmp_path / "asked.jsonl", may_ask=True
    )
    assert allowed.new.mean_reward == 0.5
    assert sorted(calls) == ["0", "1", "2", "3"]


@group_reward
def place(trajectories: Sequence[Trajectory]) -> list[float]:
    return [float(each.attempt.member) for each in trajectories]


@group_reward(name="place")
def reversed_place(trajectories: Sequence[Trajectory]) -> list[float]:
    return [-float(each.attempt.member) for each in trajectories]


async def test_members_of_whole_groups_are_compared_again(tmp_path: Path) -> None:
    source = await saved(tmp_path, environment(place), group_size=3)
    scattered = sorted(read_trajectories(source), key=lambda each: each.attempt.member)
    source.unlink()
    with TrajectoryWriter(source) as writer:
        for each in scattered:
            writer.write(each)

    result = await again(source, environment(reversed_place))

    assert result.partial_group_count == 0
    assert {each.reward == -each.attempt.member for each in new_of(source)} == {True}


async def test_groups_that_miss_a_member_keep_what_was_recorded(tmp_path: Path) -> None:
    source = await saved(tmp_path, environment(place), group_size=3)
    kept = [each for each in read_trajectories(source) if each.attempt.task_key != "0"]
    missing = [each for each in read_trajectories(source) if each.attempt.task_key == "0"][1:]
    source.unlink()
    with TrajectoryWriter(source) as writer:
        for each in [*missing, *kept]:
            writer.write(each)

    result = await again(source, environment(reversed_place))

    assert result.partial_group_count == 1
    by_task = {(t.attempt.task_key, t.attempt.member): t.reward for t in new_of(source)}
    assert by_task["0", 2] == 2.0
    assert by_task["1", 2] == -2.0


async def test_a_rubric_for_other_seats_is_refused_and_leaves_nothing(tmp_path: Path) -> None:
    from strop import Episode

    class Duel(Episode):
        seats: ClassVar[dict[str, bool]] = {"white": True, "black": True}

    source = await saved(tmp_path, environment(right))

    with pytest.raises(SettingsError, match="black"):
        await again(source, environment(reward(seat="black")(length.function), episode=Duel))

    assert [each.name for each in tmp_path.iterdir()] == ["trajectories.jsonl"]


async def test_secret_references_come_from_the_environment_and_stay_secret(tmp_path: Path) -> None:
    made = await saved(tmp_path, environment(right))
    source = tmp_path / "secret.jsonl"
    with TrajectoryWriter(source, has_reference=False) as writer:
        for each in read_trajectories(made):
            writer.write(each)

    result = await again(source, environment(right))

    assert result.changed_count == 0
    assert b'"reference"' not in source.with_name("new.jsonl").read_bytes()


async def test_secret_references_of_other_tasks_are_not_guessed(tmp_path: Path) -> None:
    made = await saved(tmp_path, environment(right))
    source = tmp_path / "secret.jsonl"
    with TrajectoryWriter(source, has_reference=False) as writer:
        writer.write(read_trajectories(made)[0])
    others = Environment(tasks=[Task("0", "Say something else.", "x")], rewards=[right])

    with pytest.raises(TrajectoryFileError, match="another task '0'"):
        await again(source, others)


async def test_a_mixture_scores_each_with_its_own(tmp_path: Path) -> None:
    strict, kind = environment(right), environment(generous)
    mixture = Mixture({"strict": strict, "kind": kind})
    plan = RunPlan(task_count=16, concurrency=2)
    await evaluate(mixture, say_two(), plan, out=tmp_path)
    source = tmp_path / "trajectories.jsonl"
    both_kind = Mixture({"strict": environment(generous), "kind": environment(generous)})

    result = await again(source, both_kind)

    assert result.old.mean_reward is not None
    assert result.old.mean_reward < 1.0
    assert result.new.mean_reward == 1.0


async def test_a_torn_last_line_is_told(tmp_path: Path) -> None:
    source = await saved(tmp_path, environment(right))
    source.write_bytes(source.read_bytes() + b'{"schema"')

    result = await again(source, environment(right))

    assert result.torn_line == 5
    assert result.new.attempt_count == 4


async def test_a_file_that_is_there_is_never_overwritten(tmp_path: Path) -> None:
    source = await saved(tmp_path, environment(right))

    with pytest.raises(TrajectoryFileError, match="there already"):
        await rescore(environment(right), source, source)


async def test_a_cancel_leaves_no_half_file(tmp_path: Path) -> None:
    @reward
    async def forever(trajectory: Trajectory) -> float:
        await asyncio.sleep(60)
        return 1.0

    source = await saved(tmp_path, environment(right))

    with pytest.raises(TimeoutError):
        async with asyncio.timeout(0.1):
            await again(source, environment(forever))

    assert [each.name for each in tmp_path.iterdir()] == ["trajectories.jsonl"]


REVERSE = ROOT / "environments" / "reverse_text_env"


async def a_run_of_reverse_text(folder: Path) -> Path:
    made_by = load_project(REVERSE)
    plan = RunPlan(split=next(iter(made_by.tasks)), task_count=3, group_size=2)
    await evaluate(made_by, say_two(), plan, out=folder)
    return folder / "trajectories.jsonl"


async def test_the_command_scores_with_an_authors_folder_and_reports_means(tmp_path: Path) -> None:
    source = await a_run_of_reverse_text(tmp_path)

    finished = strop("eval", "rescore", tmp_path, "--env", REVERSE)

    assert finished.code == 0, finished.stderr
    target = tmp_path / "trajectories.rescored.jsonl"
    assert finished.stdout.splitlines()[0].split() == ["mean", "of", "old", "new", "change"]
    assert "6, 0 changed" in finished.stdout
    assert str(target) in finished.stdout
    assert len(read_trajectories(target)) == len(read_trajectories(source))


async def test_the_command_reports_as_json_and_refuses_a_second_time(tmp_path: Path) -> None:
    source = await a_run_of_reverse_text(tmp_path)
    arguments = ("eval", "rescore", source, "--env", REVERSE, "--json")

    (file,) = strop(*arguments).document["files"]

    assert file["new"]["attempt_count"] == 6
    assert file["changed_count"] == 0
    assert "there already" in strop(*arguments).error["message"]


async def test_one_name_cannot_take_several_runs(tmp_path: Path) -> None:
    for name in ("a", "b"):
        await a_run_of_reverse_text(tmp_path / name)

    finished = strop("eval", "rescore", tmp_path, "--env", REVERSE, "--out", tmp_path / "one.jsonl")

    assert finished.code == 2
    assert "2 runs" in finished.stderr


def test_a_folder_without_a_manifest_is_no_environment(tmp_path: Path) -> None:
    (tmp_path / "pyproject.toml").write_text("[project]\nname = 'x'\n")
    source = tmp_path / "t.jsonl"
    with TrajectoryWriter(source) as writer:
        writer.write(a_trajectory(attempt=Attempt(1, "x", "train", "7")))

    finished = strop("eval", "rescore", source, "--env", tmp_path)

    assert finished.code == 1
    assert "pyproject.toml" in finished.stderr
