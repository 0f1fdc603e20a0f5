"""Text completions: ids in, ids out, and a conversation that goes on is never tokenised again."""

from __future__ import annotations

from typing import Any

import pytest

from strop import Completion, End, Environment, Episode, Task, Trajectory, reward
from strop.errors import ModelRequestError
from strop.models.completions import CompletionsModel
from strop.models.renderer import ByteTokenizer, ChatmlRenderer
from strop.types import Message, Sampling
from tests.model_server import Fault, ModelServer
from tests.sdk.models.conftest import FAST


class Echo(Episode):
    """Says something else each turn, four turns long."""

    async def respond(self, completion: Completion) -> str | End:
        self.turn = getattr(self, "turn", 0) + 1
        return End() if self.turn == 4 else f"turn {self.turn}: ünd weiter?"


@reward(range=(0, 1))
def talked(trajectory: Trajectory) -> float:
    return float(trajectory.turn_count == 4)


def talk() -> Environment:
    return Environment(tasks=[Task("1", "Begin.")], rewards=[talked], episode=Echo)


def connect(server: ModelServer) -> CompletionsModel:
    renderer = ChatmlRenderer(ByteTokenizer())
    return CompletionsModel("tiny", server.url, renderer, retry=FAST)


@pytest.mark.parametrize("max_tokens", [None, 3])
async def test_every_turns_prompt_is_the_last_one_with_what_was_sampled_and_seen(
    server: ModelServer, max_tokens: int | None
) -> None:
    environment, model = talk(), connect(server)
    trajectory = await environment.rollout(
        environment.tasks["train"][0], model, sampling=Sampling(max_tokens=max_tokens)
    )
    await model.close()

    assert trajectory.failure is None
    assert trajectory.fork_count == 0
    assert len(server.sampled) == trajectory.turn_count > 1 or max_tokens is not None
    for before, after in zip(server.sampled, server.sampled[1:], strict=False):
        known = before.prompt_ids + before.ids
        assert after.prompt_ids[: len(known)] == known
    (sample,) = trajectory.to_samples()
    last = server.sampled[-1]
    assert list(sample.token_ids) == last.prompt_ids + last.ids
    assert len(sample.token_ids) == len(sample.mask) == len(sample.logprobs)
    assert sum(sample.mask) == sum(len(each.ids) for each in server.sampled)


async def test_a_conversation_that_was_sampled_elsewhere_is_rendered(server: ModelServer) -> None:
    model = connect(server)
    messages = [Message("user", "a"), Message("assistant", "b"), Message("user", "c")]

    completion = await model.complete(messages, (), Sampling())
    await model.close()

    assert completion.prompt_token_ids is not None
    rendered = ChatmlRenderer(ByteTokenizer()).render(messages, ())
    assert list(completion.prompt_token_ids) == server.sampled[0].prompt_ids == rendered


async def test_a_server_that_changes_the_prompt_is_found_out(server: ModelServer) -> None:
    def add_one(document: dict[str, Any]) -> dict[str, Any]:
        for each in (document, document["choices"][0]):
            each.pop("prompt_token_ids")
        document["usage"]["prompt_tokens"] += 1
        return document

    server.faults.append(Fault(edit=add_one))
    model = connect(server)

    with pytest.raises(ModelRequestError, match="adds or drops"):
        await model.complete([Message("user", "hi")], (), Sampling())
    await model.close()
