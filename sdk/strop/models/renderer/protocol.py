"""What a renderer and a tokenizer are."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from strop.types import Message, ToolSpec


class Renderer(Protocol):
    """From a conversation to token ids, and from sampled ids back to a message."""

    def render(self, messages: Sequence[Message], tools: Sequence[ToolSpec]) -> Sequence[int]:
        """The prompt's ids, up to where the assistant begins."""
        ...

    def parse(self, ids: Sequence[int], tools: Sequence[ToolSpec] = ()) -> Message:
        """What an assistant said with `ids`; `tools` tell the types of arguments without any."""
        ...

    def extend(self, ids: Sequence[int], observation: Sequence[Message]) -> Sequence[int]:
        """The next prompt's ids: `ids` as they are, and then what came after them.

        Args:
            ids: A whole prompt and what was sampled upon it.
            observation: The messages since; none of them is an assistant's.

        Raises:
            RendererError: The conversation cannot go on there without changing `ids`.
        """
        ...


class Tokenizer(Protocol):
    """From text to ids and back. Marks are ids that no text gives."""

    def encode(self, text: str) -> list[int]:
        """The ids of plain text, even if it looks like a mark."""
        ...

    def decode(self, ids: Sequence[int]) -> str:
        """The text of ids; marks are passed over."""
        ...

    def mark(self, name: str) -> int:
        """The id of a control token such as ``<|im_end|>``.

        Raises:
            RendererError: There is none of that name.
        """
        ...
