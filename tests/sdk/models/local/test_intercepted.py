"""The providers' own packages as policies, a real engine behind them, and its very tokens."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

import pytest

from strop import Environment, OpenAIModel, Sampling, Trajectory
from strop.models.completions import CompletionsModel
from strop.models.renderer import TemplateRenderer
from strop.models.retry import NO_RETRIES
from strop.types import Model
from tests.sdk.models.local.recording import Recording
from tests.sdk.serve.intercept.programs import TASK, environment_of, output

pytestmark = pytest.mark.xdist_group("local-model")

CHAT = """
import openai
client = openai.OpenAI()
messages = [{"role": "system", "content": "Be brief."}]
for question in ("Say hello.", "Again, please."):
    messages.append({"role": "user", "content": question})
    if STREAMS:
        chunks = client.chat.completions.create(model="m", messages=messages, stream=True)
        said = "".join(c.choices[0].delta.content or "" for c in chunks if c.choices)
    else:
        reply = client.chat.completions.create(model="m", messages=messages)
        said = reply.choices[0].message.content
    print(json.dumps(said))
    messages.append({"role": "assistant", "content": said})
"""

MESSAGES = """
import anthropic
client = anthropic.Anthropic()
messages = []
asked = dict(model="m", max_tokens=99, system="Be brief.")
for question in ("Say hello.", "Again, please."):
    messages.append({"role": "user", "content": question})
    if STREAMS:
        with client.messages.stream(messages=messages, **asked) as stream:
            said = "".join(stream.text_stream)
    else:
        said = client.messages.create(messages=messages, **asked).content[0].text
    print(json.dumps(said))
    messages.append({"role": "assistant", "content": said})
"""

RESPONSES = """
import openai
client = openai.OpenAI()
items = []
asked = dict(model="m", instructions="Be brief.")
for question in ("Say hello.", "Again, please."):
    items.append({"role": "user", "content": question})
    if STREAMS:
        # The last event tells of a whole response, or of one that was cut.
        said = list(client.responses.create(input=items, stream=True, **asked))[-1].response
    else:
        said = client.responses.create(input=items, **asked)
    print(json.dumps(said.output_text))
    items += said.output
"""

PACKAGES = {"openai": CHAT, "anthropic": MESSAGES, "openai-responses": RESPONSES}

SAMPLING = Sampling(temperature=0, max_tokens=6)

MakeModel = Callable[[str], Model]
"""``make("chat" | "completions")``: a client of the recorded engine, closed after the test."""


@pytest.fixture
async def make_model(recording: Recording, weights: Path) -> AsyncIterator[MakeModel]:
    async with AsyncExitStack() as stack:

        def make(api: str) -> Model:
            model: Model
            if api == "chat":
                model = OpenAIModel(
                    "smollm2", recording.base_url, engine="llama.cpp", retry=NO_RETRIES
                )
            else:
                renderer = TemplateRenderer.read(weights)
                model = CompletionsModel("smollm2", recording.base_url, renderer, retry=NO_RETRIES)
            stack.push_async_callback(model.close)
            return model

        yield make


def program(package: str, streams: bool) -> Environment:
    return environment_of(f"STREAMS = {streams}\n{PACKAGES[package]}", limit_s=240.0)


async def play(environment: Environment, model: Model) -> Trajectory:
    async with environment:
        trajectory = await environment.rollout(TASK, model, sampling=SAMPLING)
    assert trajectory.failure is None, trajectory.failure
    assert trajectory.turn_count == 2
    return trajectory


def paths_of(trajectory: Trajectory) -> list[list[int]]:
    """The ids up to and with each completion, in the order in which they were sampled."""
    sampled = [at for at, each in enumerate(trajectory.segments) if each.kind == "completion"]
    return [
        [token for part in trajectory.path(at) for token in part.token_ids or ()] for at in sampled
    ]


def said_by(trajectory: Trajectory) -> list[str]:
    return [each.messages[0].text for each in trajectory.segments if each.kind == "completion"]


@pytest.mark.parametrize(
    ("package", "streams"),
    [
        ("openai", True),
        ("anthropic", False),
        *(
            pytest.param(package, streams, marks=pytest.mark.slow)
            for package, streams in [
                ("openai", False),
                ("anthropic", True),
                ("openai-responses", False),
                ("openai-responses", True),
            ]
        ),
    ],
)
async def test_what_a_package_is_told_is_in_the_trajectory_with_the_ids_that_the_engine_logged(
    recording: Recording, make_model: MakeModel, package: str, streams: bool
) -> None:
    trajectory = await play(program(package, streams), make_model("chat"))

    printed = [json.loads(line) for line in output(trajectory).splitlines()]
    assert printed == said_by(trajectory)
    chats = recording.replies("/chat/completions")
    prompts = [each.reply["tokens"] for each in recording.replies("/tokenize")]
    sampled = [each.reply["__verbose"]["tokens"] for each in chats]
    assert paths_of(trajectory) == [p + s for p, s in zip(prompts, sampled, strict=True)]
    # The engine counted so many, and the prompts are its own text of what the package sent.
    for chat, prompt, asked in zip(chats, prompts, recording.replies("/tokenize"), strict=True):
        assert chat.reply["usage"]["prompt_tokens"] == len(prompt)
        assert asked.request["content"] == chat.reply["__verbose"]["prompt"]
        assert chat.request["messages"][0] == {"role": "system", "content": "Be brief."}
    for sample in trajectory.to_samples():
        assert len(sample.token_ids) == len(sample.mask) == len(sample.logprobs)
    trained = sum(sum(sample.mask) for sample in trajectory.to_samples())
    assert trained == sum(map(len, sampled)) == trajectory.usage.completion_tokens


@pytest.mark.slow
@pytest.mark.parametrize("package", PACKAGES)
async def test_the_turns_of_a_package_are_one_path_where_ids_are_sent(
    recording: Recording, make_model: MakeModel, package: str
) -> None:
    """Cut off in the middle of a sentence, and still nothing is tokenised again."""
    trajectory = await play(program(package, streams=False), make_model("completions"))

    first, second = recording.replies("/completions")
    known = first.request["prompt"] + sampled_ids(first.reply)
    assert second.request["prompt"][: len(known)] == known
    assert trajectory.fork_count == 0
    (sample,) = trajectory.to_samples()
    assert list(sample.token_ids) == second.request["prompt"] + sampled_ids(second.reply)


def sampled_ids(reply: dict[str, Any]) -> list[int]:
    (choice,) = reply["choices"]
    return [entry["id"] for entry in choice["logprobs"]["content"]]
