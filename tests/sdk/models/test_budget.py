"""A paced model is asked no faster than it may be, in order, and a run stops at its budget."""

import asyncio
import time
from collections.abc import Sequence
from typing import Any

from strop import (
    Completion,
    Message,
    RunPlan,
    Sampling,
    ScriptedModel,
    Trajectory,
    group_reward,
)
from strop.models.budget import PacedModel
from strop.runner import run
from strop.types import Usage
from tests.sdk.trajectories import a_single_turn_environment


async def ask(model: PacedModel, count: int) -> tuple[float, list[str]]:
    order: list[str] = []

    async def one(number: int) -> None:
        completion = await model.complete([Message("user", str(number))], [], Sampling())
        order.append(completion.text)

    started = time.monotonic()
    await asyncio.gather(*[one(number) for number in range(count)])
    return time.monotonic() - started, order


def echo(tokens: int = 0) -> ScriptedModel:
    def policy(messages: Any) -> Completion:
        return Completion(Message("assistant", messages[0].text), usage=Usage(tokens, 0))

    return ScriptedModel(policy, name="echo")


async def test_requests_are_paced_after_a_burst_and_keep_their_order() -> None:
    spent_s, order = await ask(PacedModel(echo(), requests_per_s=20), 30)

    assert spent_s >= 0.45
    assert order == [str(number) for number in range(30)]


async def test_tokens_are_charged_to_what_follows() -> None:
    model = PacedModel(echo(tokens=50), tokens_per_s=100)

    started = time.monotonic()
    for _ in range(4):
        await ask(model, 1)

    assert time.monotonic() - started >= 0.45


async def test_tokens_are_charged_where_no_usage_is_told() -> None:
    def policy(messages: Any) -> Completion:
        return Completion(Message("assistant", "word " * 40))

    model = PacedModel(ScriptedModel(policy), tokens_per_s=100)

    started = time.monotonic()
    for _ in range(4):
        await model.complete([Message("user", "hello " * 10)], [], Sampling())

    # 15 tokens asked and 50 sampled each; three of them are charged to what follows.
    assert time.monotonic() - started >= 0.9


async def test_without_limits_nothing_waits() -> None:
    spent_s, _ = await ask(PacedModel(echo()), 100)

    assert spent_s < 60
    assert PacedModel(echo()).name == "echo"


async def test_a_run_begins_no_attempt_beyond_its_token_budget() -> None:
    made: list[Trajectory] = []
    plan = RunPlan(concurrency=2, token_budget=100)

    await run(a_single_turn_environment(), echo(tokens=25), plan, on_trajectory=made.append)

    assert 4 <= len(made) <= 5


async def test_a_group_that_has_begun_is_made_whole_beyond_the_budget() -> None:
    @group_reward(range=(0, 1))
    def share(trajectories: Sequence[Trajectory]) -> list[float]:
        return [1 / len(trajectories)] * len(trajectories)

    made: list[Trajectory] = []
    tried: list[str] = []

    def policy(messages: Any) -> Completion:
        tried.append(messages[0].text)
        return Completion(Message("assistant", "x"), usage=Usage(25, 0))

    environment = a_single_turn_environment(rewards=[share])
    plan = RunPlan(concurrency=3, group_size=4, token_budget=120)

    await run(environment, ScriptedModel(policy), plan, on_trajectory=made.append)

    assert len(made) == len(tried)
    assert len(made) % 4 == 0
    assert all(each.reward == 0.25 for each in made)


async def test_a_budget_holds_where_no_usage_is_told() -> None:
    model = ScriptedModel(lambda messages: Completion(Message("assistant", "word " * 80)))
    made: list[Trajectory] = []
    plan = RunPlan(concurrency=1, token_budget=250)

    await run(a_single_turn_environment(), model, plan, on_trajectory=made.append)

    assert [each.usage.completion_tokens for each in made] == [0, 0, 0]
