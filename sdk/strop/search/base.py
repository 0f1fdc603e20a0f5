"""What every source of pages offers to the tools of an episode (step: rollout)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol, Self

from strop.replies import Replies

MAX_QUERY_CHARS = 300
"""Of a query that is looked at; what comes after is not."""
MAX_HIT_COUNT = 20


@dataclass(frozen=True, slots=True)
class Hit:
    """A page that a search found."""

    page: str
    """Its name, which `PageSource.read` takes."""
    snippet: str
    """What it says about the query."""


class PageSource(Protocol):
    """Searched and read by all episodes of an environment, which opens and closes it.

    Queries and names come from a model: a source takes any text, in bounded time.
    """

    @property
    def is_closed_world(self) -> bool:
        """Whether any page may be read; else only one that a search listed should be."""
        ...

    async def search(self, query: str, count: int, replies: Replies) -> list[Hit]:
        """The best pages first.

        Args:
            query: Words, of which the first `MAX_QUERY_CHARS` characters count.
            count: Most pages to list, up to `MAX_HIT_COUNT`.
            replies: The episode's, where a source outside records what it said.
        """
        ...

    async def read(self, page: str, replies: Replies) -> str | None:
        """The text of a page; None when there is none, or it cannot be read."""
        ...

    async def __aenter__(self) -> Self:
        """Make it ready."""
        ...

    async def __aexit__(self, *_: object) -> None:
        """Free what it took; it can be opened again."""
        ...


def bounded(query: str, count: int) -> tuple[str, int]:
    """Query and count within the limits."""
    return query[:MAX_QUERY_CHARS], min(max(count, 1), MAX_HIT_COUNT)
