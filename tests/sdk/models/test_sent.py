"""A completion tells what its request really asked for, in every dialect."""

from typing import Any

import pytest

from strop import Environment, Task
from strop.errors import ModelRequestError
from strop.models.sent import read_sampling
from strop.types import Message, Sampling
from tests.model_server import ModelServer
from tests.sdk.models.conftest import Connect, ask
from tests.sdk.trajectories import is_exact

ASKED = Sampling(0.7, 0.9, 40, ("END",), 7, {"top_k": 20})


@pytest.mark.parametrize("streams", [False, True])
@pytest.mark.parametrize(
    ("dialect", "asked", "sent"),
    [
        ("chat", ASKED, ASKED),
        ("completions", ASKED, ASKED),
        ("anthropic", ASKED, Sampling(0.7, 0.9, 40, ("END",), None, {"top_k": 20})),
        (
            "responses",
            Sampling(0.7, 0.9, 40, (), 7, {"top_k": 20}),
            Sampling(0.7, 0.9, 40, (), None, {"top_k": 20}),
        ),
        ("chat", Sampling(), Sampling()),
        ("anthropic", Sampling(seed=3), Sampling(max_tokens=4096)),
    ],
)
async def test_what_was_sent_is_told(
    connect: Connect, dialect: str, streams: bool, asked: Sampling, sent: Sampling
) -> None:
    messages, tools, _ = ask("hello")

    completion = await connect(dialect, is_streaming=streams).complete(messages, tools, asked)

    assert completion.sampling == sent


@pytest.mark.parametrize("engine", [None, "vllm", "sglang"])
async def test_fields_of_the_client_count_where_the_sampling_is_silent(
    server: ModelServer, connect: Connect, engine: Any
) -> None:
    model = connect("chat", engine=engine, body={"temperature": 0.2, "min_p": 0.05, "seed": 1})
    messages, tools, _ = ask("hello")

    silent = await model.complete(messages, tools, Sampling())
    loud = await model.with_options(body={"cache_salt": "v3"}).complete(
        messages, tools, Sampling(temperature=1.0, extra={"min_p": 0})
    )

    assert silent.sampling == Sampling(0.2, seed=1, extra={"min_p": 0.05})
    assert loud.sampling == Sampling(1.0, seed=1, extra={"min_p": 0, "cache_salt": "v3"})


async def test_a_client_with_another_name_for_the_limit(connect: Connect) -> None:
    model = connect("chat", max_tokens_field="max_completion_tokens")
    messages, tools, _ = ask("hello")

    completion = await model.complete(messages, tools, Sampling(max_tokens=9))

    assert completion.sampling == Sampling(max_tokens=9)


@pytest.mark.parametrize(
    ("body", "sampling"),
    [
        ({"temperature": "hot", "seed": 1.5}, Sampling(extra={"temperature": "hot", "seed": 1.5})),
        ({"stop": "END", "temperature": 1}, Sampling(1, stop=("END",))),
        ({"stop": None, "top_p": None, "model": "m"}, Sampling()),
        ({"temperature": True}, Sampling(extra={"temperature": True})),
    ],
)
def test_odd_fields_stay_as_they_were_sent(body: dict[str, Any], sampling: Sampling) -> None:
    assert read_sampling(body) == sampling


@pytest.mark.parametrize("streams", [False, True])
@pytest.mark.parametrize("dialect", ["chat", "completions"])
@pytest.mark.parametrize(
    ("seed", "sent"),
    [
        (-1, -1),
        (2**63 - 1, 2**63 - 1),
        (2**63, 0),
        (2**63 + 5, 5),
        (2**64 - 1, 2**63 - 1),
        (2**64 + 5, 5),
    ],
)
async def test_no_seed_is_sent_that_engines_refuse(
    server: ModelServer, connect: Connect, dialect: str, streams: bool, seed: int, sent: int
) -> None:
    model = connect(dialect, is_streaming=streams)

    completion = await model.complete([Message("user", "hello")], (), Sampling(seed=seed))

    assert server.calls[0].document["seed"] == sent
    assert completion.sampling is not None
    assert completion.sampling.seed == sent


async def test_a_seed_that_engines_refuse_is_refused_here_too(
    server: ModelServer, connect: Connect
) -> None:
    for seed in (2**63, -(2**63) - 1):
        with pytest.raises(ModelRequestError, match="signed 64-bit"):
            await connect("chat", body={"seed": seed}).complete(*ask())


async def test_a_rollout_through_a_server_records_what_was_sent(
    server: ModelServer, connect: Connect
) -> None:
    task = Task("1", [Message("user", "hello")], "olleh", split="train")
    model = connect("chat", engine="vllm", body={"top_k": 5})
    async with Environment(tasks=[task], rewards=[is_exact]) as environment:
        members = await environment.rollout_group(task, model, 8, sampling=Sampling(0.5))

    seeds = [each.attempt.sampling_seed for each in members]
    assert {seed >= 2**63 for seed in seeds} == {False, True}
    for seed, trajectory in zip(seeds, members, strict=True):
        assert trajectory.failure is None
        sent = Sampling(0.5, seed=seed % 2**63, extra={"top_k": 5})
        assert trajectory.segments[1].sampling == sent
        (sample,) = trajectory.to_samples()
        sampled = [t for t, on in zip(sample.temperatures, sample.mask, strict=True) if on]
        assert set(sampled) == {0.5}
