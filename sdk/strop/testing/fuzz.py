"""What no environment may break on: hostile replies and hostile tool calls (step: check)."""

from __future__ import annotations

import json
import random
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from strop.testing.calls import random_arguments
from strop.types import JSON, Completion, Message, Sampling, ToolCall, ToolSpec

REPLIES: tuple[str, ...] = (
    "",
    " \n\t ",
    "\x00",
    "\ud800 lone surrogate",
    "\u2028\u2029\ufeff",
    r"\boxed{" * 50,
    r"\boxed{}\boxed{1}\boxed{2}",
    "<think>" * 20 + "</answer>",
    "```python\nprint(1)\n",
    "-" * 20_000,
    "9" * 5_000,
    "NaN",
    "\uff11\uff12\uff13 \u2212 \u221e",
    '{"tool": null',
)
"""Texts on which a rubric must give a finite number within its range."""

_HUGE_CHARS = 200_000
_DEEP = 20_000
_MANY_CALLS = 12
_SHOWN_CHARS = 40
_MARK = "<number>"
_WORDS = ("odd",)
_NO_ARGUMENTS = (
    ("broken JSON", '{"a": '),
    ("no JSON", "call it, please"),
    ("a list", "[1, 2]"),
    ("null", "null"),
    ("NaN", '{"a": NaN, "b": -Infinity}'),
    ("nesting without end", '{"a":' + "[" * _DEEP),
    ("no argument", "{}"),
)
_STRINGS = (
    ("a huge string", "x" * _HUGE_CHARS),
    ("a lone surrogate", "\ud800"),
    ("control characters", "\x00\x1b[2J\u2028\u202e"),
    ("an empty string", ""),
)
_NUMBERS = (
    ("a huge number", "9" * 400),
    ("a number of too many digits", "9" * 5_000),
    ("a number beyond every float", "1e999"),
    ("a number below all", "-9223372036854775809"),
)
_WRONG: tuple[JSON, ...] = (None, True, 7, 0.5, "seven", [[]], {"a": {}})


_NAMES = {
    type(None): "null",
    bool: "boolean",
    int: "integer",
    float: "number",
    str: "string",
    list: "array",
    dict: "object",
}


@dataclass(frozen=True, slots=True)
class Turn:
    """One hostile completion."""

    name: str
    """What is hostile about it, for messages."""
    message: Message


def hostile_turns(tools: Sequence[ToolSpec]) -> list[Turn]:
    """Hostile calls of each tool and of none, in an order that is always the same."""
    return [*_of_any(tools), *(turn for spec in tools for turn in _of_one(spec))]


def shown(reply: str) -> str:
    """A reply in a message: escaped, and its beginning if it is long."""
    return ascii(reply if len(reply) <= _SHOWN_CHARS else f"{reply[:_SHOWN_CHARS]}…")


class Fuzzer:
    """A model of one attempt that sends hostile calls turn by turn, then hostile texts.

    Args:
        start: The place of the first call in what `hostile_turns` gives; None lets the sampling
            seed decide.
    """

    name = "scripted:fuzz"
    """For records."""

    def __init__(self, start: int | None = None) -> None:
        self.place = start
        """Of the next call to send."""
        self.turns: list[Turn] | None = None
        """All that there are; None before it saw the tools."""
        self.last = "before its first completion"
        """What is hostile about the newest completion."""

    async def complete(
        self, messages: Sequence[Message], tools: Sequence[ToolSpec], sampling: Sampling
    ) -> Completion:
        """The next hostile completion."""
        if self.turns is None:
            self.turns = hostile_turns(tools)
        if self.place is None:
            self.place = random.Random(sampling.seed).randrange(len(self.turns))  # noqa: S311
        if self.place >= len(self.turns):
            reply = REPLIES[len(messages) % len(REPLIES)]
            self.last = f"with the reply {shown(reply)}"
            return Completion(Message("assistant", reply), model=self.name)
        turn = self.turns[self.place]
        self.place += 1
        self.last = f"with {turn.name}"
        return Completion(turn.message, finish_reason="tool_calls", model=self.name)

    async def close(self) -> None:
        """Nothing to free."""


def _of_any(tools: Sequence[ToolSpec]) -> Iterator[Turn]:
    for name in ("no_such_tool", "", "__class__", "\ud800", "x" * _HUGE_CHARS):
        yield _turn(f"a call of the unknown tool {shown(name)}", ToolCall("a", name, "{}"))
    if tools:
        spec = tools[0]
        valid = _valid(spec)
        twice = [ToolCall("a", spec.name, json.dumps(valid))] * 2
        yield _turn(f"two calls of `{spec.name}` under one id", *twice)
        many = [ToolCall(f"{n}", each.name, "{") for n in range(_MANY_CALLS) for each in tools]
        yield _turn("many broken calls at once", *many)


def _of_one(spec: ToolSpec) -> Iterator[Turn]:
    for what, arguments in _NO_ARGUMENTS:
        yield _call(spec, what, arguments)
    valid = _valid(spec)
    yield _call(spec, "an argument too many", json.dumps({**valid, "no_such_argument": 1}))
    properties: Any = spec.parameters.get("properties", {})
    for name, schema in properties.items():
        kinds = _kinds(schema)
        for value in _WRONG:
            if _kind_of(value) not in kinds:
                what = f"{_kind_of(value)} for `{name}`"
                yield _call(spec, f"the type {what}", json.dumps({**valid, name: value}))
        if "string" in kinds:
            for what, text in _STRINGS:
                yield _call(spec, f"{what} for `{name}`", json.dumps({**valid, name: text}))
            unescaped = json.dumps({**valid, name: "\ud800"}, ensure_ascii=False)
            yield _call(spec, f"an unescaped lone surrogate for `{name}`", unescaped)
        if kinds & {"integer", "number"}:
            for what, digits in _NUMBERS:
                text = json.dumps({**valid, name: _MARK}).replace(f'"{_MARK}"', digits)
                yield _call(spec, f"{what} for `{name}`", text)


def _valid(spec: ToolSpec) -> dict[str, JSON]:
    """Arguments that fit, so that only what is put in their place is wrong."""
    return random_arguments(spec.parameters, _WORDS, random.Random(0))  # noqa: S311


def _kind_of(value: JSON) -> str:
    return _NAMES[type(value)]


def _kinds(schema: Any) -> set[str]:
    """The types that a property may have; those behind references are not known."""
    if not isinstance(schema, Mapping):
        return set()
    kind = schema.get("type", ())
    kinds = {kind} if isinstance(kind, str) else set(kind)
    for option in (*schema.get("anyOf", ()), *schema.get("oneOf", ())):
        kinds |= _kinds(option)
    return kinds


def _call(spec: ToolSpec, what: str, arguments: str) -> Turn:
    return _turn(f"{what} in a call of `{spec.name}`", ToolCall("a", spec.name, arguments))


def _turn(name: str, *calls: ToolCall) -> Turn:
    return Turn(name, Message("assistant", "", tool_calls=calls))
