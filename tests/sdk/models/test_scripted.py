"""Scripted models do what their policy says, the same way every time."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Sequence
from typing import Any

import pytest

from strop.errors import ModelRequestError
from strop.models.scripted import Reply, ScriptedModel, call, turn_of
from strop.types import Completion, Message, Model, Sampling, ToolCall, ToolSpec

HELLO = [Message("user", "hello")]


async def sample(model: Model, *messages: Message, seed: int | None = None) -> Completion:
    return await model.complete(messages or HELLO, (), Sampling(seed=seed))


async def test_a_text_is_the_answer() -> None:
    completion = await sample(ScriptedModel(lambda messages: messages[-1].text[::-1]))

    assert completion.text == "olleh"
    assert completion.finish_reason == "stop"
    assert completion.model == "scripted"


async def test_calls_end_the_turn_with_ids_of_their_own() -> None:
    model = ScriptedModel.constant([call("move", to="up"), call("look")])

    completion = await sample(model, *HELLO, Message("assistant"), Message("user"))

    assert completion.message.tool_calls == (
        ToolCall("call_1_0", "move", '{"to": "up"}'),
        ToolCall("call_1_1", "look", "{}"),
    )
    assert completion.finish_reason == "tool_calls"


@pytest.mark.parametrize(
    ("reply", "text", "finish_reason"),
    [
        (ToolCall("mine", "f", "{"), "", "tool_calls"),
        (Message("assistant", "hm", reasoning="why"), "hm", "stop"),
        (Completion(Message("assistant", "cut"), finish_reason="length"), "cut", "length"),
    ],
)
async def test_a_reply_may_be_spelled_out(reply: Reply, text: str, finish_reason: str) -> None:
    completion = await sample(ScriptedModel.constant(reply, name="mine"))

    assert (completion.text, completion.finish_reason) == (text, finish_reason)
    assert completion.model == "mine"


async def test_replies_follow_the_turns_of_each_conversation() -> None:
    model = ScriptedModel.replies(["one", "two"])
    second = [*HELLO, Message("assistant", "one"), Message("user", "and?")]

    texts = [(await sample(model, *messages)).text for messages in (HELLO, second, HELLO, second)]

    assert texts == ["one", "two", "one", "two"]


async def test_a_script_that_is_over_says_so() -> None:
    model = ScriptedModel.replies(["only"])

    with pytest.raises(ModelRequestError, match="has 1 replies, turn 2 is due"):
        await sample(model, *HELLO, Message("assistant"), Message("user"))


async def test_a_policy_sees_the_tools_it_asks_for() -> None:
    def policy(messages: Sequence[Message], tools: Sequence[ToolSpec]) -> Reply:
        return call(tools[0].name)

    tool = ToolSpec("move", "Move.", {})
    completion = await ScriptedModel(policy).complete(HELLO, [tool], Sampling())

    assert completion.message.tool_calls[0].name == "move"


async def test_the_dice_of_a_policy_follow_seed_and_turn_alone() -> None:
    def policy(messages: Any, tools: Any, rng: random.Random) -> str:
        return str(rng.random())

    model = ScriptedModel(policy)
    later = [*HELLO, Message("assistant"), Message("user")]
    first, again, other_seed, other_turn = await asyncio.gather(
        sample(model, seed=1),
        sample(model, seed=1),
        sample(model, seed=2),
        sample(model, *later, seed=1),
    )

    assert first.text == again.text
    assert len({first.text, other_seed.text, other_turn.text}) == 3


async def test_a_policy_may_be_asynchronous() -> None:
    async def policy(messages: Sequence[Message]) -> str:
        await asyncio.sleep(0)
        return "later"

    assert (await sample(ScriptedModel(policy))).text == "later"


def test_a_policy_with_other_parameters_is_refused() -> None:
    with pytest.raises(TypeError, match="takes"):
        ScriptedModel(lambda: "nothing")
    with pytest.raises(TypeError, match="takes"):
        ScriptedModel(lambda a, b, c, d: "too much")


async def test_a_scripted_model_is_a_model() -> None:
    model = ScriptedModel.constant("x")

    assert isinstance(model, Model)
    await model.close()
    assert turn_of(HELLO) == 0
