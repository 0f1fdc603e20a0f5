"""The mixture: what is drawn how often, and who plays and pays it."""

from collections import Counter
from itertools import islice
from typing import Any

import pytest
from intellect_env import NAMES, load_environment

from strop import ScriptedModel, StropError
from strop.testing import scripted_policy

LIGHT = {"math": 3.0, "logic": 1.0}


def names_of(environment: Any, count: int) -> Counter[str]:
    tasks = islice(environment.tasks["train"], count)
    return Counter(task.key.partition(":")[0] for task in tasks)


def test_tasks_are_drawn_by_weight() -> None:
    counts = names_of(load_environment(LIGHT), 400)
    assert set(counts) == set(LIGHT)
    assert 2.2 < counts["math"] / counts["logic"] < 4


def test_all_six_are_drawn_alike_where_nothing_else_is_said() -> None:
    counts = names_of(load_environment(), 240)
    assert set(counts) == set(NAMES)
    assert min(counts.values()) > 20


def test_another_seed_draws_in_another_order_and_the_same_in_the_same() -> None:
    orders = [
        [task.key for task in islice(load_environment(LIGHT, seed=seed).tasks["train"], 50)]
        for seed in (0, 0, 1)
    ]
    assert orders[0] == orders[1] != orders[2]


def test_an_environment_without_weight_is_not_loaded() -> None:
    environment = load_environment({"math": 1, "code": 0})
    assert list(environment.environments) == ["math"]


def test_each_gets_its_settings() -> None:
    environment = load_environment({"math": 1}, {"math": {"topic": "linear", "level": 3}})
    for task in islice(environment.tasks["train"], 5):
        assert task.metadata == {"topic": "linear", "level": 3}


async def test_each_is_played_and_paid_by_its_own_and_named_in_the_record() -> None:
    environment = load_environment(LIGHT)
    async with environment:
        for task in islice(environment.tasks["eval"], 12):
            solved = await environment.rollout(task, scripted_policy("oracle", environment))
            empty = await environment.rollout(task, ScriptedModel.constant(""))
            assert (solved.reward, empty.reward) == (1, 0)
            word = task.key.partition(":")[0]
            assert solved.environment.name == NAMES[word]


@pytest.mark.parametrize(
    ("weights", "settings"),
    [({"chess": 1}, None), ({}, {"chess": {}}), ({"math": 0}, None), ({"math": -1}, None)],
)
def test_weights_that_draw_nothing_known_are_refused(weights: Any, settings: Any) -> None:
    with pytest.raises((ValueError, StropError)):
        load_environment(weights, settings)
