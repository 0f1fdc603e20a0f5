"""A run makes every attempt once, in bounded concurrency, and stops when it makes no sense."""

import asyncio
from collections.abc import Iterator
from typing import Any

import pytest

from strop import (
    Attempt,
    Completion,
    Environment,
    Mixture,
    RunPlan,
    ScriptedModel,
    Task,
    TaskSet,
    Trajectory,
)
from strop.errors import ModelAuthError, ModelUnavailableError, RunStoppedError, SettingsError
from strop.runner import Finished, run
from tests.sdk.trajectories import a_completion, a_single_turn_environment, is_exact

ANSWER = ScriptedModel(lambda messages: messages[0].text.removeprefix("Reverse: ")[::-1])


async def attempts_of(
    environment: Environment, plan: RunPlan, model: Any = ANSWER, **options: Any
) -> list[Trajectory]:
    trajectories: list[Trajectory] = []
    async with environment:
        await run(environment, model, plan, on_trajectory=trajectories.append, **options)
    return trajectories


async def test_every_attempt_is_made_exactly_once() -> None:
    plan = RunPlan(group_size=3, concurrency=7, seed=5)

    trajectories = await attempts_of(a_single_turn_environment(), plan)

    made = {trajectory.attempt for trajectory in trajectories}
    expected = {
        Attempt(5, "local", "train", str(key), 0, member)
        for key in range(10, 30)
        for member in range(3)
    }
    assert made == expected
    assert len(trajectories) == 60


async def test_finished_attempts_are_left_out() -> None:
    environment = a_single_turn_environment()
    plan = RunPlan()
    finished = Finished({attempt for _, attempt in list(plan.attempts(environment))[:15]})

    trajectories = await attempts_of(environment, plan, finished=finished)

    assert len(trajectories) == 5
    assert not finished.attempts & {trajectory.attempt for trajectory in trajectories}


async def test_no_more_than_the_concurrency_are_in_flight() -> None:
    in_flight = most = 0

    class Slow:
        name = "slow"

        async def complete(self, *arguments: Any) -> Completion:
            nonlocal in_flight, most
            in_flight += 1
            most = max(most, in_flight)
            await asyncio.sleep(0.001)
            in_flight -= 1
            return a_completion("x")

        async def close(self) -> None:
            pass

    await attempts_of(a_single_turn_environment(), RunPlan(concurrency=4), Slow())

    assert most == 4


async def test_an_infinite_split_runs_as_many_tasks_as_are_asked_for_and_loads_no_more() -> None:
    loaded = []

    def make(index: int, rng: Any) -> Task:
        loaded.append(index)
        return Task(str(index), "ask", "x")

    environment = Environment(tasks=TaskSet.generate(make), rewards=[is_exact])

    trajectories = await attempts_of(environment, RunPlan(task_count=30, concurrency=3))

    assert len(trajectories) == 30
    assert max(loaded) < 34


async def test_a_lazy_split_is_not_read_to_its_end() -> None:
    def load() -> Iterator[Task]:
        for index in range(10):
            yield Task(str(index), "ask", "x")
        raise AssertionError("read too far")

    environment = Environment(tasks=TaskSet(load), rewards=[is_exact])

    assert len(await attempts_of(environment, RunPlan(task_count=10))) == 10


async def test_tasks_are_chosen_by_key() -> None:
    trajectories = await attempts_of(a_single_turn_environment(), RunPlan(keys=("12", "11")))

    assert [trajectory.task.key for trajectory in trajectories] == ["12", "11"]


@pytest.mark.parametrize("kind", ["list", "lazy", "generated"])
async def test_a_slice_of_the_tasks_is_run_and_no_other_is_made(kind: str) -> None:
    made: list[int] = []

    def make(index: int, _: Any = None) -> Task:
        made.append(index)
        return Task(str(index), "ask", "x")

    tasks = {
        "list": TaskSet([make(index) for index in range(20)]),
        "lazy": TaskSet(lambda: map(make, range(20))),
        "generated": TaskSet.generate(make),
    }[kind]
    made.clear()
    environment = Environment(tasks=tasks, rewards=[is_exact])
    trajectories = await attempts_of(environment, RunPlan(skip_count=7, task_count=3))

    assert [each.task.key for each in trajectories] == ["7", "8", "9"]
    assert made == {"list": [], "lazy": [*range(10)], "generated": [7, 8, 9]}[kind]


async def test_a_slice_beyond_the_end_is_empty() -> None:
    assert await attempts_of(a_single_turn_environment(), RunPlan(skip_count=30)) == []
    with pytest.raises(SettingsError, match="skip_count is -1"):
        RunPlan(skip_count=-1)


async def test_a_key_that_comes_again_is_a_new_visit() -> None:
    plan = RunPlan(keys=("11", "12", "11"), group_size=2)
    attempts = [each.attempt for each in await attempts_of(a_single_turn_environment(), plan)]

    assert len(set(attempts)) == len(attempts) == 6
    assert [each.visit for each in attempts if each.task_key == "11"] == [0, 0, 1, 1]


@pytest.mark.parametrize(
    ("plan", "message"),
    [
        (RunPlan(split="nope"), "There is no split 'nope'. This environment has: train"),
        (RunPlan(keys=("99",)), "There is no task '99' in the split 'train'"),
    ],
)
async def test_what_is_not_there_is_told(plan: RunPlan, message: str) -> None:
    with pytest.raises(SettingsError, match=message):
        await attempts_of(a_single_turn_environment(), plan)


async def test_two_tasks_of_one_key_are_no_single_attempt() -> None:
    tasks = [Task(key, "x", "x") for key in ("a", "b", "a")]
    environment = Environment(tasks=tasks, rewards=[is_exact])

    few = await attempts_of(environment, RunPlan(task_count=2))
    for mixed in (environment, Mixture({"own": environment})):
        with pytest.raises(SettingsError, match=r"tasks 0 and 2 of the split 'train'.*'a'"):
            await attempts_of(mixed, RunPlan(task_count=3))

    assert len(few) == 2


async def test_an_infinite_split_needs_a_number() -> None:
    environment = Environment(
        tasks=TaskSet.generate(lambda i, rng: Task(str(i), "ask")), rewards=[is_exact]
    )

    with pytest.raises(SettingsError, match="has no end"):
        await attempts_of(environment, RunPlan())


def test_counts_must_be_positive() -> None:
    with pytest.raises(SettingsError, match="group_size is 0"):
        RunPlan(group_size=0)
    with pytest.raises(SettingsError, match="concurrency is -1"):
        RunPlan(concurrency=-1)


class Broken:
    """A model that fails every call in the same way."""

    name = "broken"

    def __init__(self, error: Exception) -> None:
        self._error = error
        self.call_count = 0

    async def complete(self, *arguments: Any) -> Completion:
        self.call_count += 1
        await asyncio.sleep(0)
        raise self._error

    async def close(self) -> None:
        pass


async def test_refused_credentials_stop_the_run_at_once() -> None:
    model = Broken(ModelAuthError("401: no such key"))

    with pytest.raises(RunStoppedError, match="401: no such key"):
        await attempts_of(a_single_turn_environment(), RunPlan(concurrency=2), model)
    assert model.call_count <= 4


async def test_a_run_that_keeps_failing_stops_with_the_commonest_cause() -> None:
    plan = RunPlan(group_size=10, concurrency=1)
    model = Broken(ModelUnavailableError("503"))

    with pytest.raises(RunStoppedError, match=r"50 of 50 attempts failed, 50 with: Mod.*503"):
        await attempts_of(a_single_turn_environment(), plan, model)


async def test_a_few_failures_do_not_stop_a_run() -> None:
    count = 0

    class Flaky(Broken):
        async def complete(self, *arguments: Any) -> Completion:
            nonlocal count
            count += 1
            if count % 10 == 0:
                raise self._error
            return a_completion("x")

    plan = RunPlan(group_size=5)
    trajectories = await attempts_of(
        a_single_turn_environment(), plan, Flaky(ModelUnavailableError("503"))
    )

    assert len(trajectories) == 100
    assert sum(trajectory.failure is not None for trajectory in trajectories) == 10


async def test_a_callback_that_raises_stops_the_run_with_its_error() -> None:
    def full(trajectory: Trajectory) -> None:
        raise OSError("disk full")

    environment = a_single_turn_environment()
    with pytest.raises(OSError, match="disk full"):
        await run(environment, ANSWER, RunPlan(), on_trajectory=full)


async def test_cancelling_a_run_ends_it_promptly() -> None:
    environment = Environment(
        tasks=TaskSet.generate(lambda i, rng: Task(str(i), "ask", "x")), rewards=[is_exact]
    )
    plan = RunPlan(task_count=10**9, concurrency=8)
    running = asyncio.create_task(run(environment, ANSWER, plan, on_trajectory=lambda t: None))
    await asyncio.sleep(0.05)
    running.cancel()

    with pytest.raises(asyncio.CancelledError):
        await asyncio.wait_for(running, timeout=60)
