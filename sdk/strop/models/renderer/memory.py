"""What was sampled in which conversation, so that its next prompt is extended and not tokenised."""

from __future__ import annotations

from array import array
from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import dataclass

from strop.types import Message, ToolSpec

MAX_TOKENS = 1 << 24
"""Of all remembered conversations together: 64 MiB."""


@dataclass(frozen=True, slots=True)
class Known:
    """A conversation up to a completion, and its ids."""

    messages: tuple[Message, ...]
    """The last one is the completion."""
    tools: tuple[ToolSpec, ...]
    ids: array[int]


class TokenMemory:
    """The conversations that were sampled last, as many as `max_tokens` ids make.

    Two attempts may sample the same text with other ids. The completion's own object tells
    them apart; a conversation that came over a wire is found by its text.
    """

    def __init__(self, max_tokens: int = MAX_TOKENS) -> None:
        self._max_tokens = max_tokens
        self._token_count = 0
        self._by_text: OrderedDict[tuple[Message, ...], list[Known]] = OrderedDict()

    def add(self, messages: Sequence[Message], tools: Sequence[ToolSpec], ids: array[int]) -> None:
        """Remember a conversation whose last message was sampled."""
        known = Known(tuple(messages), tuple(tools), ids)
        self._by_text.setdefault(known.messages, []).append(known)
        self._by_text.move_to_end(known.messages)
        self._token_count += len(ids)
        while self._token_count > self._max_tokens:
            _, forgotten = self._by_text.popitem(last=False)
            self._token_count -= sum(len(each.ids) for each in forgotten)

    def find(self, messages: Sequence[Message], tools: Sequence[ToolSpec]) -> Known | None:
        """The longest remembered conversation that `messages` goes on from; None without one.

        It goes on where only others than the assistant have spoken since.
        """
        end = next(
            (i for i in range(len(messages), 0, -1) if messages[i - 1].role == "assistant"), 0
        )
        found = self._by_text.get(tuple(messages[:end]), ()) if end else ()
        same = [known for known in found if known.tools == tuple(tools)]
        own = [known for known in same if known.messages[-1] is messages[end - 1]]
        return (own or same)[-1] if same else None
