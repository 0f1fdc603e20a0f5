"""Renderers that need no file: ChatML over any tokenizer, and one of marks and characters."""

from __future__ import annotations

from collections.abc import Sequence

from strop.models.renderer.calls import CallFormat
from strop.models.renderer.protocol import Tokenizer
from strop.models.renderer.reading import read_text
from strop.models.renderer.tokenizer import CharacterTokenizer
from strop.models.renderer.writing import with_tools, write_message
from strop.types import Message, ToolSpec

END, START = "<|im_end|>", "<|im_start|>"


class _PlainRenderer:
    """Blocks of marks and text; text never becomes a mark, whatever it holds."""

    def __init__(self, tokenizer: Tokenizer, calls: CallFormat) -> None:
        self._tokenizer = tokenizer
        self._calls = calls
        self._end = tokenizer.mark(END)
        self._between: list[int] = []

    @property
    def stop_ids(self) -> tuple[int, ...]:
        """What ends a completion."""
        return (self._end,)

    def render(self, messages: Sequence[Message], tools: Sequence[ToolSpec]) -> list[int]:
        """The prompt's ids, up to where the assistant begins."""
        return self._blocks(with_tools(messages, tools))

    def parse(self, ids: Sequence[int], tools: Sequence[ToolSpec] = ()) -> Message:
        """What an assistant said with `ids`, up to the first end."""
        said = list(ids)
        if self._end in said:
            said = said[: said.index(self._end)]
        return read_text(self._tokenizer.decode(said), self._calls, tools)

    def extend(self, ids: Sequence[int], observation: Sequence[Message]) -> list[int]:
        """The next prompt's ids; a completion that was cut off is ended first."""
        known = list(ids)
        if not known or known[-1] != self._end:
            known.append(self._end)
        return known + self._between + self._blocks(observation)

    def _blocks(self, messages: Sequence[Message]) -> list[int]:
        ids: list[int] = []
        for message in messages:
            ids += [*self._begin(message.role, write_message(message)), self._end, *self._between]
        return ids + self._begin("assistant", "")

    def _begin(self, role: str, text: str) -> list[int]:
        raise NotImplementedError


class ChatmlRenderer(_PlainRenderer):
    """``<|im_start|>role``, a newline, the text, ``<|im_end|>``, a newline.

    Args:
        tokenizer: A `ByteTokenizer`, or one of a model that knows both marks.
        calls: How the model writes calls.
    """

    def __init__(self, tokenizer: Tokenizer, *, calls: CallFormat = "hermes") -> None:
        super().__init__(tokenizer, calls)
        self._start = tokenizer.mark(START)
        self._between = tokenizer.encode("\n")

    def _begin(self, role: str, text: str) -> list[int]:
        # One piece of text, for that is how an engine tokenises it.
        return [self._start, *self._tokenizer.encode(f"{role}\n{text}")]


class CharacterRenderer(_PlainRenderer):
    """A mark for the role, the characters, the mark of the end: nothing to learn but the task.

    Args:
        tokenizer: Whose marks and characters; all of printable ASCII when left out.
        calls: How the model writes calls.
    """

    def __init__(self, tokenizer: Tokenizer | None = None, *, calls: CallFormat = "hermes") -> None:
        super().__init__(tokenizer or CharacterTokenizer(), calls)
        roles = ("system", "user", "assistant", "tool")
        self._roles = {role: self._tokenizer.mark(f"<|{role}|>") for role in roles}

    def _begin(self, role: str, text: str) -> list[int]:
        return [self._roles[role], *self._tokenizer.encode(text)]
