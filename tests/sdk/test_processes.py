"""Reward functions in processes: killed with all that they started, and no other is held up."""

import os
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from strop import (
    Environment,
    RunPlan,
    ScriptedModel,
    Task,
    TimeLimits,
    Trajectory,
    group_reward,
    reward,
    run,
)
from strop.rubric import Rubric


@reward(process=True, range=(0, 1))
def is_exact(trajectory: Trajectory) -> float:
    return float(trajectory.text == trajectory.task.reference)


@reward(process=True)
def pid(trajectory: Trajectory) -> float:
    return os.getpid()


@reward(process=True)
def broken(trajectory: Trajectory) -> float:
    raise KeyError("no such thing")


@reward(process=True)
def noisy(trajectory: Trajectory) -> float:
    print("printed")
    sys.stdin.read()
    return 0.5


@reward(process=True)
def leaving(trajectory: Trajectory) -> float:
    os._exit(3)


@reward(process=True)
def odd(trajectory: Trajectory) -> Any:
    return {"a": 1}


@reward(process=True)
def hanging(trajectory: Trajectory) -> float:
    """Spins, and so does a child of its own, where the text tells where to note it."""
    if trajectory.text == "quick":
        return 1.0
    child = subprocess.Popen([sys.executable, "-c", "while True: pass"])
    Path(trajectory.text).write_text(f"{os.getpid()} {child.pid}")
    while True:
        pass


@group_reward(process=True)
def place(trajectories: Sequence[Trajectory]) -> list[int]:
    order = sorted(trajectories, key=lambda each: each.text)
    return [order.index(each) for each in trajectories]


def an_environment(*rewards: Any, limit_s: float | None = None) -> Environment:
    tasks = [Task("1", "Say x.", "x", split="train")]
    return Environment(tasks=tasks, rewards=rewards, time_limits=TimeLimits(reward_s=limit_s))


async def play(environment: Environment, text: str = "x") -> Trajectory:
    return await environment.rollout(environment.tasks["train"][0], ScriptedModel.constant(text))


async def test_it_scores_what_a_thread_would() -> None:
    async with an_environment(is_exact, pid) as environment:
        right, wrong = await play(environment), await play(environment, "y")

    assert right.rewards["is_exact"].value == 1.0
    assert wrong.rewards["is_exact"].value == 0.0
    pids = {right.rewards["pid"].value, wrong.rewards["pid"].value}
    assert len(pids) == 1, "the process is kept for the next call"
    assert os.getpid() not in pids


@pytest.mark.parametrize(
    ("function", "told"),
    [
        (broken, "`broken` raised KeyError: 'no such thing'"),
        (leaving, "`leaving` its process ended with 3"),
        (odd, "`odd` returned"),
    ],
)
async def test_its_faults_are_failures_that_name_it(function: Any, told: str) -> None:
    async with an_environment(function, is_exact) as environment:
        trajectory = await play(environment)

    assert trajectory.failure is not None
    assert told in trajectory.failure.message
    assert trajectory.failure.boundary == "reward"
    assert trajectory.rewards["is_exact"].value == 1.0
    if function is broken:
        assert "in broken" in trajectory.failure.traceback


async def test_what_it_prints_and_reads_is_nobodys() -> None:
    async with an_environment(noisy) as environment:
        assert (await play(environment)).reward == 0.5


async def test_members_are_compared_in_a_process() -> None:
    async with an_environment(place) as environment:
        task = environment.tasks["train"][0]
        model = ScriptedModel(lambda messages, tools, rng: str(rng.random()))
        group = await environment.rollout_group(task, model, 4)

    assert sorted(each.reward or 0.0 for each in group) == [0.0, 1.0, 2.0, 3.0]


async def test_one_that_spins_is_killed_with_its_children_and_others_are_not_held_up(
    tmp_path: Path,
) -> None:
    tasks = [Task(str(n), str(n)) for n in range(12)]
    environment = Environment(tasks=tasks, rewards=[hanging], time_limits=TimeLimits(reward_s=2.0))
    note = tmp_path / "pids"
    model = ScriptedModel(lambda messages: str(note) if messages[0].text == "3" else "quick")
    results: dict[str, Trajectory] = {}

    async with environment:
        plan = RunPlan(concurrency=12)
        await run(
            environment,
            model,
            plan,
            on_trajectory=lambda each: results.update({each.task.key: each}),
        )

    failed = {key for key, each in results.items() if each.failure is not None}
    assert failed == {"3"}
    assert "`hanging` took longer than 2.0 s" in str(results["3"].failure)
    assert {each.reward for key, each in results.items() if key != "3"} == {1.0}
    for number in note.read_text().split():
        _wait_until_gone(int(number))


async def test_closing_leaves_no_process_behind() -> None:
    async with an_environment(pid) as environment:
        worker = int((await play(environment)).reward or 0)
        assert Path(f"/proc/{worker}").exists()

    _wait_until_gone(worker)


def test_only_a_function_that_can_be_imported_runs_in_a_process() -> None:
    def local(trajectory: Trajectory) -> float:
        return 0.0

    with pytest.raises(ValueError, match="Define it at the top of a module"):
        reward(process=True)(local)
    with pytest.raises(ValueError, match="a `def` of the trajectory alone"):
        reward(process=True, inline=True)(is_exact.function)


async def test_a_saved_trajectory_is_scored_again_in_a_process() -> None:
    async with an_environment(is_exact) as environment:
        trajectory = await play(environment)
        again = await Rubric([is_exact]).score(trajectory, environment.threads)

    assert again.reward == trajectory.reward == 1.0


def _wait_until_gone(number: int) -> None:
    deadline = time.monotonic() + 120
    while time.monotonic() < deadline:
        try:
            state = Path(f"/proc/{number}/stat").read_text().rpartition(")")[2].split()[0]
        except (FileNotFoundError, ProcessLookupError):
            return
        if state == "Z":
            return
        time.sleep(0.01)
    raise AssertionError(f"The process {number} is still there.")
