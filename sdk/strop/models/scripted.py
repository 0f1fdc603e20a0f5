"""Deterministic models without an engine: for tests, demonstrations and measurements."""

from __future__ import annotations

import inspect
import json
import random
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import replace
from typing import TypeAlias

from strop.errors import ModelRequestError
from strop.types import JSON, Completion, FinishReason, Message, Sampling, ToolCall, ToolSpec

Reply: TypeAlias = str | ToolCall | Sequence[ToolCall] | Message | Completion
"""What a policy may return: an answer, calls, or all of it spelled out."""

Policy: TypeAlias = Callable[..., Reply | Awaitable[Reply]]
"""``policy(messages)``, ``policy(messages, tools)`` or ``policy(messages, tools, rng)``.

The generator of a third parameter is seeded by `Sampling.seed` and by how many completions the
conversation already holds, so that an attempt can be repeated whatever runs beside it.
"""


class ScriptedModel:
    """A model whose completions a function decides.

    Example:
        >>> model = ScriptedModel(lambda messages: messages[-1].text[::-1], name="reverser")
    """

    def __init__(self, policy: Policy, *, name: str = "scripted") -> None:
        self._policy = policy
        self._name = name
        self._arity = _arity_of(policy)

    @classmethod
    def constant(cls, reply: Reply, *, name: str = "constant") -> ScriptedModel:
        """Always the same reply."""
        return cls(lambda messages: reply, name=name)

    @classmethod
    def replies(cls, replies: Sequence[Reply], *, name: str = "replies") -> ScriptedModel:
        """The n-th reply to the n-th turn of every conversation.

        The turn is read off the conversation, so one model serves any number of them at once.
        Calls beyond the last reply fail.
        """
        script = tuple(replies)

        def policy(messages: Sequence[Message]) -> Reply:
            turn = turn_of(messages)
            if turn >= len(script):
                raise ModelRequestError(
                    f"the script {name} has {len(script)} replies, turn {turn + 1} is due:"
                    " add replies, or lower max_turns"
                )
            return script[turn]

        return cls(policy, name=name)

    @property
    def name(self) -> str:
        """For records and reports."""
        return self._name

    async def complete(
        self, messages: Sequence[Message], tools: Sequence[ToolSpec], sampling: Sampling
    ) -> Completion:
        """Ask the policy."""
        if self._arity == 1:
            reply = self._policy(messages)
        elif self._arity == 2:
            reply = self._policy(messages, tools)
        else:
            # Dice for a script, no secrets.
            rng = random.Random(f"{sampling.seed}/{turn_of(messages)}")  # noqa: S311
            reply = self._policy(messages, tools, rng)
        if inspect.isawaitable(reply):
            reply = await reply
        if type(reply) is str:
            return Completion(Message("assistant", reply), model=self._name, sampling=sampling)
        return self._complete(reply, turn_of(messages))

    async def close(self) -> None:
        """Nothing to free."""

    def _complete(self, reply: Reply, turn: int) -> Completion:
        if isinstance(reply, Completion):
            return reply if reply.model else replace(reply, model=self._name)
        if isinstance(reply, str):
            message = Message("assistant", str(reply))
        elif isinstance(reply, Message):
            message = reply
        else:
            calls = (reply,) if isinstance(reply, ToolCall) else reply
            numbered = (_numbered(call, turn, index) for index, call in enumerate(calls))
            message = Message("assistant", "", tool_calls=tuple(numbered))
        finish_reason: FinishReason = "tool_calls" if message.tool_calls else "stop"
        return Completion(message, finish_reason=finish_reason, model=self._name)


def turn_of(messages: Sequence[Message]) -> int:
    """How many completions a conversation holds: the index of the turn that is due."""
    return sum(message.role == "assistant" for message in messages)


def call(name: str, /, **arguments: JSON) -> ToolCall:
    """A tool call for a policy to return; the model gives it an id of its own."""
    return ToolCall("", name, json.dumps(arguments))


def _numbered(call: ToolCall, turn: int, index: int) -> ToolCall:
    return call if call.id else replace(call, id=f"call_{turn}_{index}")


def _arity_of(policy: Policy) -> int:
    parameters = inspect.signature(policy).parameters.values()
    taken = sum(parameter.default is parameter.empty for parameter in parameters)
    if not 1 <= taken <= 3:
        raise TypeError(f"a policy takes (messages[, tools[, rng]]), this one {taken} arguments")
    return taken
