"""Several environments run as one, and every task keeps its own environment."""

from collections import Counter
from collections.abc import Mapping
from itertools import islice
from pathlib import Path
from typing import Any, ClassVar

import pytest

from strop import (
    Environment,
    Episode,
    RunPlan,
    ScriptedModel,
    Task,
    TaskSet,
    evaluate,
    group_reward,
    reward,
)
from strop import read_trajectories as read
from strop.errors import SettingsError
from strop.evaluation import TRAJECTORIES_NAME
from strop.mixture import Mixture
from strop.testing import scripted_policy
from strop.types import EnvironmentIdentity


def constant(value: float) -> Any:
    return reward(name=f"is_{value}", inline=True)(lambda trajectory: value)


def an_environment(name: str, count: int | None, value: float, **options: Any) -> Environment:
    def make(index: int, rng: Any) -> Task:
        return Task(str(index), f"{name} {index}", name)

    environment = Environment(
        tasks={"train": TaskSet.generate(make, count)},
        rewards=[constant(value)],
        oracle=lambda task: task.reference,
        **options,
    )
    environment.identity = EnvironmentIdentity(name, "ada")
    return environment


def three() -> dict[str, Environment]:
    return {
        "a": an_environment("a-env", 5, 0.0),
        "b": an_environment("b-env", None, 0.5),
        "c": an_environment("c-env", 5, 1.0),
    }


def test_tasks_are_drawn_by_weight() -> None:
    mixture = Mixture(three(), {"a": 1, "b": 3, "c": 0})

    drawn = Counter(task.key[0] for task in islice(mixture.tasks["train"], 4000))

    assert set(drawn) == {"a", "b"}
    assert 2.6 < drawn["b"] / drawn["a"] < 3.4


def test_draws_repeat_for_a_seed() -> None:
    def keys(seed: int) -> list[str]:
        mixture = Mixture(three(), seed=seed)
        return [task.key for task in islice(mixture.tasks["train"], 50)]

    assert keys(1) == keys(1) != keys(2)


def test_a_task_drawn_again_is_a_new_visit_and_no_attempt_comes_twice() -> None:
    mixture = Mixture(three())
    plan = RunPlan(task_count=200, group_size=2)

    attempts = [attempt for _, attempt in plan.attempts(mixture)]

    assert len(set(attempts)) == 400
    assert max(attempt.visit for attempt in attempts if attempt.task_key == "a:0") > 5


async def test_every_task_is_scored_by_its_own_environment(tmp_path: Path) -> None:
    report = await evaluate(
        Mixture(three()), ScriptedModel.constant("x"), RunPlan(task_count=60), out=tmp_path
    )

    for trajectory in read(tmp_path / TRAJECTORIES_NAME):
        name = trajectory.attempt.task_key[0]
        assert trajectory.environment.full_name == f"ada/{name}-env"
        assert trajectory.reward == {"a": 0.0, "b": 0.5, "c": 1.0}[name]
        assert trajectory.task.key == trajectory.attempt.task_key[2:]
    assert set(report.environments) == {"ada/a-env", "ada/b-env", "ada/c-env"}
    assert sum(part.attempt_count for part in report.environments.values()) == 60
    assert report.environments["ada/c-env"].mean_reward == 1.0
    assert report.environments["ada/c-env"].metrics == {"is_1.0": 1.0}
    assert report.to_json()["environments"]


async def test_an_attempt_names_the_environment_that_its_task_comes_from(tmp_path: Path) -> None:
    nested = Mixture({"a": three()["a"], "more": Mixture({"c": three()["c"]})})
    plan = RunPlan(task_count=40)

    report = await evaluate(nested, ScriptedModel.constant("x"), plan, out=tmp_path)
    again = await evaluate(nested, ScriptedModel.constant("x"), plan, out=tmp_path, is_resumed=True)

    trajectories = read(tmp_path / TRAJECTORIES_NAME)
    named = {(t.attempt.task_key[0], t.attempt.environment) for t in trajectories}
    assert named == {("a", "ada/a-env"), ("m", "ada/c-env")}
    assert all(t.attempt.environment == t.environment.full_name for t in trajectories)
    assert len(trajectories) == 40
    assert again == report
    assert set(report.environments) == {"ada/a-env", "ada/c-env"}


async def test_an_attempt_at_a_loaded_mixture_names_the_mixture() -> None:
    mixture = Mixture(three())
    mixture.identity = EnvironmentIdentity("mix-env", "ada")

    trajectory = await mixture.rollout(
        mixture.tasks["train"].get("b:4"), ScriptedModel.constant("x")
    )

    assert trajectory.attempt.environment == "ada/mix-env"
    assert trajectory.environment.full_name == "ada/b-env"


async def test_one_environment_alone_is_not_listed_apart() -> None:
    report = await evaluate(an_environment("a-env", 3, 1.0), ScriptedModel.constant("x"), RunPlan())

    assert report.environments == {}


async def test_groups_are_compared_by_their_own_environment() -> None:
    environments = three()
    compared = group_reward(name="place")(lambda ts: [float(n) for n in range(len(ts))])
    environments["a"] = Environment(
        tasks={"train": [Task("0", "x")]}, rewards=[compared], oracle=lambda task: ""
    )
    rewards: dict[str, list[float | None]] = {"a": [], "b": [], "c": []}

    await evaluate(
        Mixture(environments),
        ScriptedModel.constant("x"),
        RunPlan(task_count=30, group_size=3),
        on_trajectory=lambda t: rewards[t.attempt.task_key[0]].append(t.reward),
    )

    assert set(rewards["a"]) == {0.0, 1.0, 2.0}
    assert set(rewards["b"]) == {0.5}


async def test_what_the_environments_share_is_opened_and_closed_once() -> None:
    events = []

    class Shared(Environment):
        async def setup(self) -> None:
            events.append("open")

        async def close(self) -> None:
            events.append("close")

    def shared() -> Environment:
        return Shared(tasks={"train": [Task("0", "x")]}, rewards=[])

    mixture = Mixture({"a": shared(), "b": shared()})
    await evaluate(mixture, ScriptedModel.constant("x"), RunPlan(task_count=9))

    assert events == ["open", "open", "close", "close"]


async def test_the_oracle_is_each_environments_own() -> None:
    mixture = Mixture(three())
    policy = scripted_policy("oracle", mixture)

    for task in islice(mixture.tasks["train"], 9):
        trajectory = await mixture.rollout(task, policy)
        assert trajectory.text == f"{task.key[0]}-env"


def test_the_seats_are_those_of_the_environments() -> None:
    class Debate(Episode):
        seats: ClassVar[Mapping[str, bool]] = {"pro": True, "con": False}

    class Turned(Episode):
        seats: ClassVar[Mapping[str, bool]] = {"con": True, "judge": False}

    a, b = (an_environment("a-env", 1, 0.0, episode=each) for each in (Debate, Turned))

    assert dict(Mixture({"a": a, "b": b}).seats) == {"pro": True, "con": True, "judge": False}
    assert dict(Mixture({"a": three()["a"]}).seats) == {"policy": True}


def test_tasks_are_found_by_their_global_key() -> None:
    tasks = Mixture(three()).tasks["train"]

    assert tasks.get("b:17").prompt[0].text == "b-env 17"
    for key in ("d:1", "a:99", "17", "a"):
        with pytest.raises(KeyError):
            tasks.get(key)


@pytest.mark.parametrize(
    ("weights", "told"),
    [
        ({"a": 1, "b": 1}, "differ: c"),
        ({"a": 1, "b": 1, "c": 1, "d": 1}, "differ: d"),
        ({"a": -1, "b": 1, "c": 1}, "must be ≥ 0"),
        ({"a": 0, "b": 0, "c": 0}, "must be ≥ 0"),
        ({"a": float("nan"), "b": 0, "c": 0}, "must be ≥ 0"),
    ],
)
def test_weights_that_make_no_sense_are_refused(weights: dict[str, float], told: str) -> None:
    with pytest.raises(SettingsError, match=told):
        Mixture(three(), weights)


def test_names_must_not_hold_the_separator() -> None:
    with pytest.raises(SettingsError, match="names that hold no `:`"):
        Mixture({"a:b": an_environment("a-env", 1, 0.0)})
    with pytest.raises(SettingsError, match="needs environments"):
        Mixture({})
