"""Pages in memory, indexed by SQLite's FTS5 (step: rollout)."""

from __future__ import annotations

import re
import sqlite3
from collections.abc import Callable, Mapping
from typing import Self

from strop.errors import EnvironmentLoadError
from strop.replies import Replies
from strop.search.base import Hit, bounded

_WORD = re.compile(r"\w+")
_TITLE_WEIGHT = 4.0
"""Of a word in a title, against 1 in the text."""
_SNIPPET_WORDS = 24


class LocalIndex:
    """Pages that the author has. Their names are titles, never paths.

    Args:
        pages: From title to text, or a function that gives them when the index opens.

    Example:
        >>> index = LocalIndex({"Ada": "Ada wrote the first program."})
    """

    is_closed_world = True

    def __init__(self, pages: Mapping[str, str] | Callable[[], Mapping[str, str]]) -> None:
        self._source = pages
        self._pages: Mapping[str, str] = {}
        self._database: sqlite3.Connection | None = None

    async def __aenter__(self) -> Self:
        self._pages = self._source() if callable(self._source) else self._source
        # A closing episode may be on another thread than the one that opened the environment.
        database = sqlite3.connect(":memory:", check_same_thread=False)
        try:
            database.execute("CREATE VIRTUAL TABLE pages USING fts5(title, text)")
        except sqlite3.OperationalError as error:
            database.close()
            raise EnvironmentLoadError(
                f"This Python's SQLite has no full-text search ({error}). Use one with FTS5."
            ) from error
        database.executemany(
            "INSERT INTO pages VALUES (?, ?)", map(_indexable, self._pages.items())
        )
        self._database = database
        return self

    async def __aexit__(self, *_: object) -> None:
        if self._database is not None:
            self._database.close()
            self._database = None

    async def search(self, query: str, count: int, replies: Replies) -> list[Hit]:
        """Pages that hold any word of the query, those with rare words first."""
        assert self._database is not None, "the index is not open"
        query, count = bounded(query, count)
        words = dict.fromkeys(_WORD.findall(query.lower()))
        if not words:
            return []
        rows = self._database.execute(
            "SELECT title, snippet(pages, 1, '', '', '…', ?) FROM pages WHERE pages MATCH ? "
            "ORDER BY bm25(pages, ?, 1.0), rowid LIMIT ?",
            # Each word is quoted, so that nothing in a query is an operator.
            (_SNIPPET_WORDS, " OR ".join(f'"{word}"' for word in words), _TITLE_WEIGHT, count),
        )
        return [Hit(title, snippet) for title, snippet in rows]

    async def read(self, page: str, replies: Replies) -> str | None:
        """The page with this title."""
        return self._pages.get(page)


def _indexable(page: tuple[str, str]) -> tuple[str, ...]:
    # SQLite takes no lone surrogates, and ends a text at NUL.
    return tuple(part.encode("utf-8", "replace").decode().replace("\0", " ") for part in page)
