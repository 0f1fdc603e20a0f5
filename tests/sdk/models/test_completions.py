"""Text completions: ids in, ids out, and a conversation that goes on is never tokenised again."""

from __future__ import annotations

from typing import Any

import pytest

from strop import Completion, End, Environment, Episode, Task, Trajectory, reward, tool
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


class Looking(Episode):
    """Has a tool, and ends with a text."""

    @tool(inline=True)
    def look(self, at: str) -> str:
        """Look at something."""
        return f"saw {at}"


CALL = '<tool_call>\n{"name": "look", "arguments": {"at": "door"}}\n</tool_call>'
RAW = {
    "a call": CALL,
    "text before it": f"Let me look.\n{CALL}",
    "two calls": f"{CALL}\n{CALL.replace('door', 'roof')}",
    "one inside thoughts": f"<think>\nIf I did {CALL}?\n</think>\n\nI will not.",
    "one after thoughts": f"<think>\nLook.\n</think>\n\n{CALL}",
    "one that is malformed": CALL.replace('"door"', "door"),
    "one that is cut off": CALL[:-20],
    "no call": "Just text with <tool_call in it.",
}


@pytest.mark.parametrize("case", RAW)
async def test_one_raw_completion_is_the_same_to_a_client_and_to_a_trainer(case: str) -> None:
    environment = Environment(tasks=[Task("1", "Go.")], rewards=[], episode=Looking, max_turns=2)
    task = environment.tasks["train"][0]
    turns = iter([RAW[case], "done"])
    async with ModelServer(lambda messages, tools: next(turns)) as server:
        model = connect(server)
        sampled = await environment.rollout(task, model)
        await model.close()

    renderer = ChatmlRenderer(ByteTokenizer())
    async with environment, environment.start(task) as episode:
        for each in server.sampled:
            message = renderer.parse(each.ids, episode.tools)
            await episode.step(Completion(message))
        given = await episode.score()

    assert sampled.failure is None
    assert sampled.messages() == given.messages()
    assert (sampled.stop_reason, sampled.turn_count) == (given.stop_reason, given.turn_count)
    called = [each.name for each in sampled.messages()[1].tool_calls]
    expected = {"two calls": 2, "one inside thoughts": 0, "one that is cut off": 0, "no call": 0}
    assert called == ["look"] * expected.get(case, 1)
