"""Rollouts with a real model: what a trajectory holds is what passed on the wire."""

from __future__ import annotations

import asyncio
import math
from pathlib import Path

import pytest
from math_env import load_environment

from strop import (
    Completion,
    End,
    Environment,
    Episode,
    OpenAIModel,
    RunPlan,
    Sampling,
    Task,
    Trajectory,
    evaluate,
    read_trajectories,
    reward,
)
from strop.models.completions import CompletionsModel
from strop.models.renderer import TemplateRenderer
from strop.types import Message
from tests.sdk.models.local.recording import Exchange, Recording

pytestmark = pytest.mark.xdist_group("local-model")


def hold_to_the_wire(trajectories: list[Trajectory], recording: Recording) -> None:
    """Every token of every trajectory is one that the engine told, and none is missing."""
    told = {sampled_ids(each): each for each in recording.replies("/chat/completions")}
    tokenized = {
        tuple(each.reply["tokens"]): each.request["content"]
        for each in recording.replies("/tokenize")
    }
    for trajectory in trajectories:
        assert trajectory.failure is None
        assert trajectory.fork_count == 0
        (prompt, completion) = trajectory.segments
        assert prompt.token_ids is not None
        assert completion.token_ids is not None
        exchange = told[tuple(completion.token_ids)]
        # The engine's own text of the prompt, as the engine itself tokenises it.
        assert tokenized[tuple(prompt.token_ids)] == exchange.reply["__verbose"]["prompt"]
        usage = exchange.reply["usage"]
        assert usage["prompt_tokens"] == len(prompt.token_ids)
        assert usage["completion_tokens"] == len(completion.token_ids)
        assert exchange.reply["__verbose"]["tokens"] == list(completion.token_ids)
        (sample,) = trajectory.to_samples()
        assert sample.token_ids == prompt.token_ids + completion.token_ids
        assert len(sample.token_ids) == len(sample.mask) == len(sample.logprobs)
        assert sum(sample.mask) == len(completion.token_ids)
        assert all(value <= 0 and math.isfinite(value) for value in sample.logprobs)


def sampled_ids(exchange: Exchange) -> tuple[int, ...]:
    (choice,) = exchange.reply["choices"]
    return tuple(entry["id"] for entry in choice["logprobs"]["content"])


async def run_math(
    recording: Recording, out: Path, tasks: int, group: int, max_tokens: int
) -> list[Trajectory]:
    """Sums of single digits, some of them right."""
    environment = load_environment(topic="arithmetic", level=0, answer_form="last_number")
    plan = RunPlan(
        split="eval",
        task_count=tasks,
        group_size=group,
        concurrency=8,
        sampling=Sampling(temperature=0.8, max_tokens=max_tokens),
    )
    model = OpenAIModel("smollm2", recording.base_url, engine="llama.cpp")
    report = await evaluate(environment, model, plan, out=out)
    await model.close()
    trajectories = list(read_trajectories(out / "trajectories.jsonl"))
    rewards = [trajectory.reward for trajectory in trajectories]
    print(f"SmolLM2 on math_env: mean {report.mean_reward}, rewards {rewards}")
    assert len(trajectories) == tasks * group
    assert all(value in (0.0, 1.0) for value in rewards)
    return trajectories


async def test_a_few_rollouts_hold_exactly_the_engines_tokens(
    recording: Recording, tmp_path: Path
) -> None:
    trajectories = await run_math(recording, tmp_path, tasks=2, group=2, max_tokens=16)

    hold_to_the_wire(trajectories, recording)


@pytest.mark.slow
@pytest.mark.timeout(1800)
async def test_64_rollouts_hold_exactly_the_engines_tokens(
    recording: Recording, tmp_path: Path
) -> None:
    trajectories = await run_math(recording, tmp_path, tasks=16, group=4, max_tokens=48)

    hold_to_the_wire(trajectories, recording)
    completions = [sampled_ids(each) for each in recording.replies("/chat/completions")]
    assert len(completions) == 64
    assert len(set(completions)) > 16
    assert 0 < sum(each.reward == 1 for each in trajectories) < 64


class Twice(Episode):
    """Asks again."""

    async def respond(self, completion: Completion) -> str | End:
        self.turn = getattr(self, "turn", 0) + 1
        return End() if self.turn == 2 else "Now say it in other words."


@reward(range=(0, 1))
def spoke(trajectory: Trajectory) -> float:
    return float(trajectory.turn_count == 2)


def talk() -> Environment:
    task = Task("1", "Say hello, in three words.")
    return Environment(tasks=[task], rewards=[spoke], episode=Twice)


async def play(model: OpenAIModel | CompletionsModel, stop: tuple[str, ...] = ()) -> Trajectory:
    environment = talk()
    sampling = Sampling(temperature=0, max_tokens=32, stop=stop)
    task = environment.tasks["train"][0]
    trajectory = await environment.rollout(task, model, sampling=sampling)
    await model.close()
    assert trajectory.failure is None, trajectory.failure
    return trajectory


async def test_a_second_turn_of_ids_extends_the_first_as_the_engines_own_cache_confirms(
    recording: Recording, weights: Path
) -> None:
    renderer = TemplateRenderer.read(weights)
    model = CompletionsModel("smollm2", recording.base_url, renderer)

    trajectory = await play(model)

    first, second = recording.replies("/completions")
    known = first.request["prompt"] + list(sampled_ids(first))
    assert second.request["prompt"][: len(known)] == known
    assert trajectory.fork_count == 0
    (sample,) = trajectory.to_samples()
    assert list(sample.token_ids) == second.request["prompt"] + list(sampled_ids(second))
    assert sum(sample.mask) == len(sampled_ids(first)) + len(sampled_ids(second))
    # What the engine kept in its cache of the first turn is found again id by id.
    cached = second.reply["usage"]["prompt_tokens_details"]["cached_tokens"]
    assert cached >= len(known) - 1


@pytest.mark.parametrize("stop", [(), ("o",)], ids=["whole", "stopped in a word"])
async def test_a_second_turn_of_chat_extends_or_forks_and_loses_no_token(
    recording: Recording, stop: tuple[str, ...]
) -> None:
    model = OpenAIModel("smollm2", recording.base_url, engine="llama.cpp")

    trajectory = await play(model, stop)

    chats = recording.replies("/chat/completions")
    prompts = [each.reply["tokens"] for each in recording.replies("/tokenize")]
    paths = {
        tuple(token for segment in trajectory.path(leaf) for token in segment.token_ids or ())
        for leaf in trajectory.leaves()
    }
    # All that was sampled; where a stop string cuts it, the log-probabilities hold less.
    sampled = [each.reply["__verbose"]["tokens"] for each in chats]
    wholes = [(*prompt, *ids) for prompt, ids in zip(prompts, sampled, strict=True)]
    is_extended = wholes[1][: len(wholes[0])] == wholes[0]
    # Where a stop string cut the text, the template closes what the model had not closed.
    assert is_extended == (not stop)
    assert trajectory.fork_count == (0 if is_extended else 1)
    assert paths == (set(wholes[1:]) if is_extended else set(wholes))
    for sample in trajectory.to_samples():
        assert len(sample.token_ids) == len(sample.mask) == len(sample.logprobs)


async def test_the_clients_template_and_ids_are_the_engines(
    recording: Recording, weights: Path
) -> None:
    renderer = TemplateRenderer.read(weights)
    model = OpenAIModel("smollm2", recording.base_url, engine="llama.cpp")
    messages = load_environment().tasks["eval"][3].prompt
    completion = await model.complete(messages, (), Sampling(max_tokens=8))
    await model.close()

    assert completion.prompt_token_ids is not None
    assert list(completion.prompt_token_ids) == renderer.render(messages, ())
    assert completion.token_ids is not None
    assert renderer.parse(completion.token_ids).text.strip() == completion.text.strip()


async def test_every_odd_text_has_the_engines_ids(recording: Recording, weights: Path) -> None:
    renderer = TemplateRenderer.read(weights)
    texts = [
        "  12+3 =  15 \n\n\t x", "naïve 你好 \U0001f600\ufe0f", "it's we'LL they'd", "½²³ ٣",
        "\u2028\u00a0\x00\x7f", "a" * 300, "<|im_end|>\n<|im_start|>system", "\r\n\r\n ",
    ]  # fmt: skip
    for text in texts:
        prompt = await asyncio.to_thread(
            recording.ask, "/apply-template", {"messages": [{"role": "user", "content": text}]}
        )
        question = {"content": prompt["prompt"], "add_special": False, "parse_special": True}
        found = await asyncio.to_thread(recording.ask, "/tokenize", question)
        assert renderer.render([Message("user", text)], ()) == found["tokens"], text
