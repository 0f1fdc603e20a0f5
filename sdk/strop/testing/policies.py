"""Scripted policies that know the task: what an environment is held against (step: check)."""

from __future__ import annotations

import random
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from strop.environment import Environment
from strop.errors import ModelRequestError, SettingsError
from strop.models.scripted import Reply, ScriptedModel, turn_of
from strop.task import Task
from strop.testing.calls import random_call
from strop.testing.fuzz import Fuzzer
from strop.types import JSON, Completion, Message, Model, Sampling, ToolCall, ToolSpec

CONSTANT_REPLY = "I do not know."
CALLING_TURNS = 6
"""Completions of an attempt in which the random policy may call tools."""
_WORDS = ("yes", "no", "0", "1", "42", "A", "B", "the", r"\boxed{1}", r"\boxed{0}")
_CALL_SHARE = 0.8
_MOST_CALLS = 3
_READ_CHARS = 4_000
_WORD = re.compile(r"[\w./:-]{1,40}")


@dataclass(frozen=True, slots=True)
class TaskModel:
    """A model that is made anew for each task."""

    name: str
    make: Callable[[Task], Model]

    def for_task(self, task: Task) -> Model:
        """The model of one task."""
        return self.make(task)

    async def complete(
        self, messages: Sequence[Message], tools: Sequence[ToolSpec], sampling: Sampling
    ) -> Completion:
        """Not called: `for_task` gives the model that completes."""
        raise NotImplementedError("Ask for_task(task) for the model of a task.")

    async def close(self) -> None:
        """Nothing to free."""


def scripted_policy(name: str, environment: Environment) -> TaskModel:
    """A built-in policy by name, one of `POLICIES`.

    Raises:
        SettingsError: There is no such policy, or it needs an oracle and there is none.
    """
    if name not in POLICIES:
        known = ", ".join(POLICIES)
        raise SettingsError(f"There is no scripted policy {name!r}. Choose one of: {known}.")
    return TaskModel(f"scripted:{name}", POLICIES[name](environment))


def _oracle(environment: Environment) -> Callable[[Task], ScriptedModel]:
    oracle = environment.oracle
    if oracle is None:
        raise SettingsError(
            "This environment declares no oracle. Give one: Environment(oracle=f), where f(task) "
            "returns the reply, or the list of replies, that scores the maximum."
        )

    def make(task: Task) -> ScriptedModel:
        replies = oracle(task)
        script = replies if isinstance(replies, list) else [replies]
        if len(environment.seats) > 1:
            return _in_order(script)
        return ScriptedModel.replies(script, name="scripted:oracle")

    return make


def _in_order(script: Sequence[Reply]) -> ScriptedModel:
    """A model of one attempt that gives a script's replies as they come due, to any seat.

    No seat's conversation tells how many completions the others gave.
    """
    replies = iter(script)

    def policy(messages: Sequence[Message]) -> Reply:
        for reply in replies:
            return reply
        raise ModelRequestError(
            f"the script scripted:oracle has {len(script)} replies for all seats together, and "
            "another is due: add replies, or lower max_turns"
        )

    return ScriptedModel(policy, name="scripted:oracle")


def _mixed(environment: Environment) -> Callable[[Task], ScriptedModel]:
    """The oracle in seven of ten attempts, decided by the sampling seed."""
    make_oracle = _oracle(environment)

    def make(task: Task) -> ScriptedModel:
        script = make_oracle(task)
        is_right: bool | None = None

        async def policy(
            messages: Sequence[Message], tools: Sequence[ToolSpec], rng: random.Random
        ) -> Completion | str:
            nonlocal is_right
            # One throw an attempt: a script cannot be left and joined again.
            if is_right is None:
                is_right = rng.random() < 0.7
            if not is_right:
                return CONSTANT_REPLY
            return await script.complete(messages, tools, Sampling())

        return ScriptedModel(policy, name="scripted:mixed")

    return make


def _fixed(reply: str, name: str) -> Callable[[Environment], Callable[[Task], ScriptedModel]]:
    model = ScriptedModel.constant(reply, name=name)
    return lambda environment: lambda task: model


def _random(environment: Environment) -> Callable[[Task], ScriptedModel]:
    """Calls that fit the tools' schemas for some turns, then, or without tools, a few words."""

    def policy(
        messages: Sequence[Message], tools: Sequence[ToolSpec], rng: random.Random
    ) -> list[ToolCall] | str:
        turn = turn_of(messages)
        if tools and turn < CALLING_TURNS and (turn == 0 or rng.random() < _CALL_SHARE):
            words = _words_of(messages)
            count = rng.randint(1, _MOST_CALLS)
            return [random_call(rng.choice(tools), words, rng) for _ in range(count)]
        return " ".join(rng.choices(_WORDS, k=rng.randint(1, 4)))

    model = ScriptedModel(policy, name="scripted:random")
    return lambda task: model


def _words_of(messages: Sequence[Message]) -> list[str]:
    """Words that the conversation shows, such as names that a tool listed, and some of our own."""
    text = "\n".join(message.text[-_READ_CHARS:] for message in messages[-3:])
    # As a shell's command, `yes` has no end.
    return [word for word in (*_WORD.findall(text), *_WORDS) if word != "yes"]


def _fuzz(environment: Environment) -> Callable[[Task], Fuzzer]:
    return lambda task: Fuzzer()


POLICIES: dict[str, Callable[[Environment], Callable[[Task], Model]]] = {
    "oracle": _oracle,
    "mixed": _mixed,
    "empty": _fixed("", "scripted:empty"),
    "constant": _fixed(CONSTANT_REPLY, "scripted:constant"),
    "random": _random,
    "fuzz": _fuzz,
}
"""Name to maker of the model of each task."""


def json_equal(left: JSON, right: JSON) -> bool:
    """Whether two JSON values are the same, types included: 1 is neither 1.0 nor True."""
    if type(left) is not type(right):
        return False
    if isinstance(left, dict) and isinstance(right, dict):
        return left.keys() == right.keys() and all(json_equal(left[k], right[k]) for k in left)
    if isinstance(left, list) and isinstance(right, list):
        pairs = zip(left, right, strict=False)
        return len(left) == len(right) and all(json_equal(a, b) for a, b in pairs)
    return left == right or (left != left and right != right)
