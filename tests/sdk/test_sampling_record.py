"""Every completion's record says what it was drawn with, whoever drove and wherever it lived."""

import json
import math
from array import array
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
    Sampling,
    ScriptedModel,
    Task,
    Trajectory,
    evaluate,
    read_trajectories,
)
from strop.review.facts import sampled_with
from strop.review.validation import Validator
from strop.trajectory_json import decode_line, encode_line
from tests.sdk.cli.command import strop
from tests.sdk.serve.intercept.programs import TASK as PROGRAM_TASK
from tests.sdk.serve.intercept.programs import Scripted, environment_of
from tests.sdk.serve.remote.serving import serving
from tests.sdk.trajectories import (
    a_completion,
    a_single_turn_environment,
    a_trajectory,
    is_exact,
    prompt_segment,
    sampled_segment,
)

TASK = Task("1", "ask", "answer", split="train")
DRIVERS = Sampling(0.7, 0.95, 64, ("END",), extra={"top_k": 20})


class Narrowing(Episode):
    """Asks for few tokens and another seed in its second turn."""

    @property
    def due_sampling(self) -> Sampling | None:
        return Sampling(max_tokens=5, stop=("\n",), seed=3) if self.turn_count else None

    async def respond(self, completion: Completion) -> Any:
        return End() if self.turn_count == 2 else "go on"


class Silent:
    """A model of an author's own, which tells nothing of its sampling."""

    name = "silent"

    async def complete(self, messages: Any, tools: Any, sampling: Any) -> Completion:
        return a_completion("answer")

    async def close(self) -> None:
        pass


def drawn(trajectory: Trajectory) -> list[Sampling | None]:
    return [each.sampling for each in trajectory.segments if each.kind == "completion"]


def two_turns() -> Environment:
    return Environment(tasks=[TASK], rewards=[is_exact], episode=Narrowing)


@pytest.mark.parametrize("model", [Silent(), ScriptedModel.constant("answer")])
async def test_a_rollout_records_the_attempts_seed_and_the_due_completions_wishes(
    model: Any,
) -> None:
    trajectory = await two_turns().rollout(TASK, model, sampling=DRIVERS)

    seed = trajectory.attempt.sampling_seed
    assert drawn(trajectory) == [
        replace(DRIVERS, seed=seed),
        replace(DRIVERS, seed=3, max_tokens=5, stop=("END", "\n")),
    ]


async def test_a_run_writes_it_and_reading_gives_it_back(tmp_path: Path) -> None:
    environment = a_single_turn_environment()
    plan = RunPlan(task_count=2, sampling=DRIVERS)

    await evaluate(environment, ScriptedModel.constant("x"), plan, out=tmp_path)

    path = tmp_path / "trajectories.jsonl"
    for line, each in zip(path.read_bytes().splitlines(), read_trajectories(path), strict=True):
        written = json.loads(line)["segments"][1]["sampling"]
        seed = each.attempt.sampling_seed
        assert drawn(each) == [replace(DRIVERS, seed=seed)]
        assert written == {
            "temperature": 0.7,
            "top_p": 0.95,
            "max_tokens": 64,
            "stop": ["END"],
            "seed": seed,
            "extra": {"top_k": 20},
        }
    assert list(Validator(path)) == []
    assert (
        "temperature 0.7, top_p 0.95, max_tokens 64, stop ['END'], top_k 20"
        in strop("eval", "view", path, "--task", "10", "--full", COLUMNS="200").stdout
    )


def test_what_nobody_told_is_told_from_the_engines_defaults() -> None:
    untold = a_trajectory(prompt_segment(None, 1), replace(sampled_segment(0, 2), sampling=None))
    default = a_trajectory(
        prompt_segment(None, 1), replace(sampled_segment(0, 2), sampling=Sampling())
    )

    assert "sampling" not in json.loads(encode_line(untold))["segments"][1]
    assert json.loads(encode_line(default))["segments"][1]["sampling"] == {}
    for each in (untold, default):
        assert decode_line(encode_line(each)) == each
    assert sampled_with(None) == sampled_with(Sampling()) == ""


async def test_a_trainer_that_samples_by_itself_says_what_it_sampled_with() -> None:
    environment = two_turns()
    async with environment, environment.start(TASK) as episode:
        await episode.step(a_completion("one", sampling=Sampling(temperature=1.0)))
        await episode.step(a_completion("two"))
        trajectory = await episode.score()

    assert drawn(trajectory) == [Sampling(temperature=1.0), None]


async def test_over_http_the_record_is_the_same() -> None:
    with serving(two_turns()) as server:
        remote = server.connect()
        async with remote:
            rolled = await remote.rollout(TASK, ScriptedModel.constant("x"), sampling=DRIVERS)
            async with remote.start(TASK) as episode:
                await episode.step(a_completion("one", sampling=DRIVERS))
                await episode.step(a_completion("two"))
                driven = await episode.score()

    local = await two_turns().rollout(TASK, ScriptedModel.constant("x"), sampling=DRIVERS)
    assert drawn(rolled) == drawn(local)
    assert drawn(driven) == [DRIVERS, None]


class Passing(Scripted):
    """A program whose choice of top_k goes on to the model."""

    passed_fields = ("top_k",)


@pytest.mark.parametrize("base", [Scripted, Passing])
async def test_a_programs_own_parameters_are_recorded_as_far_as_they_count(
    base: type[Scripted],
) -> None:
    environment = environment_of(
        "call('a', max_tokens=7, stop='.', temperature=9, top_k=4); call('b'); call('b')", base=base
    )
    async with environment:
        trajectory = await environment.rollout(
            PROGRAM_TASK, Silent(), sampling=Sampling(temperature=0.5, max_tokens=100)
        )

    first, second, third = drawn(trajectory)
    assert first is not None
    assert second is not None
    assert third is not None
    assert (first.temperature, first.max_tokens, first.stop) == (0.5, 7, (".",))
    assert first.extra == ({"top_k": 4} if base is Passing else {})
    assert (second.max_tokens, second.stop, second.extra) == (100, (), {})
    assert first.seed == second.seed == trajectory.attempt.sampling_seed != third.seed


def test_a_sample_has_the_temperature_of_every_token() -> None:
    trajectory = a_trajectory(
        prompt_segment(None, 1, 2),
        replace(sampled_segment(0, 3, 4), sampling=Sampling(0.25)),
        prompt_segment(1, 5),
        replace(sampled_segment(2, 6), sampling=Sampling(0.0)),
        prompt_segment(3, 7),
        replace(sampled_segment(4, 8), sampling=Sampling()),
        prompt_segment(5, 9),
        replace(sampled_segment(6, 10), sampling=None),
    )

    (sample,) = trajectory.to_samples()

    known = array("f", [1, 1, 0.25, 0.25, 1, 0, 1])
    assert sample.temperatures[:7] == known
    assert math.isnan(sample.temperatures[7])
    assert sample.temperatures[8] == 1
    assert math.isnan(sample.temperatures[9])
    assert len(sample.temperatures) == len(sample.token_ids) == len(sample.mask)


async def test_a_model_that_returns_no_completion_fails_the_attempt() -> None:
    class Wrong(Silent):
        async def complete(self, messages: Any, tools: Any, sampling: Any) -> Any:
            return Message("assistant", "no completion")

    trajectory = await two_turns().rollout(TASK, Wrong())

    assert trajectory.failure is not None
    assert trajectory.failure.boundary == "model"
