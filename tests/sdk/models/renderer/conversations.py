"""Conversations for property tests, and the tokenizer of a small vocabulary made in memory."""

from __future__ import annotations

import json

from hypothesis import strategies as st
from tokenizers import AddedToken, Tokenizer, decoders, models, pre_tokenizers

from strop.types import Message, ToolCall, ToolSpec

MOVE = ToolSpec(
    "move",
    "Move some squares.",
    {
        "type": "object",
        "properties": {"direction": {"type": "string"}, "count": {"type": "integer"}},
    },
)

TEXTS = st.text(st.characters(codec="utf-8"), max_size=30)
LINES = TEXTS.filter(lambda text: "<" not in text)
"""Text that is no call and no thought."""

JSON_VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | TEXTS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXTS, inner, max_size=3),
    max_leaves=5,
)


@st.composite
def calls(draw: st.DrawFn) -> tuple[ToolCall, ...]:
    count = draw(st.integers(0, 3))
    return tuple(
        ToolCall(
            f"call_{index}",
            draw(TEXTS),
            json.dumps(draw(st.dictionaries(TEXTS, JSON_VALUES, max_size=3)), ensure_ascii=False),
        )
        for index in range(count)
    )


@st.composite
def answers(draw: st.DrawFn) -> Message:
    """An assistant's message: text, thoughts and calls, or any of them."""
    thoughts = draw(st.none() | LINES.filter(bool))
    # A newline at the end of the text is what stands before the first call.
    text = draw(LINES.filter(lambda text: not text.endswith("\n")))
    if thoughts is not None:
        text = text.lstrip("\n")
    return Message("assistant", text, tool_calls=draw(calls()), reasoning=thoughts)


@st.composite
def prompts(draw: st.DrawFn) -> list[Message]:
    """What stands before an assistant's message."""
    system = draw(st.lists(st.builds(Message, st.just("system"), TEXTS), max_size=1))
    return [*system, Message("user", draw(TEXTS))]


@st.composite
def observations(draw: st.DrawFn) -> list[Message]:
    """What an environment says after an assistant's message."""
    text = draw(TEXTS)
    if draw(st.booleans()):
        return [Message("tool", text, tool_call_id="call_0", name="move")]
    return [Message("user", text)]


MARKS = ("<|im_start|>", "<|im_end|>", "<|python_tag|>", "<|eot_id|>")


def tiny_tokenizer() -> Tokenizer:
    """Bytes, a few merges that cross words, and marks."""
    letters = sorted(pre_tokenizers.ByteLevel.alphabet())
    merges = [("a", "b"), ("ab", "c"), ("Ġ", "a"), ("Ċ", "Ċ"), ("u", "s")]
    vocabulary = {letter: index for index, letter in enumerate(letters)}
    for left, right in merges:
        vocabulary[left + right] = len(vocabulary)
    tokenizer = Tokenizer(models.BPE(vocab=vocabulary, merges=merges))
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    tokenizer.add_special_tokens([AddedToken(mark, special=True) for mark in MARKS])
    return tokenizer
