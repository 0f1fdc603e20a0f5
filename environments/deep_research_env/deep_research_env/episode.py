"""One attempt: search, open and find within a budget, then answer and cite."""

import re

from strop import Completion, End, Episode, ToolError, tool
from strop.search import PageSource
from strop.tools import Tool

PART_CHARS = 4_000
"""Of a page that `open` shows at once."""
TOKEN_CHARS = 4
"""Budgets are counted in tokens of so many characters."""
_MAX_CHARS = 300
"""Of an answer; the rest is cut off."""


class Research(Episode):
    """Search, open and find within a budget; then answer, citing pages that were opened."""

    source: PageSource
    max_calls: int
    max_tokens: int

    async def setup(self) -> None:
        """Begin with the whole budget."""
        self.calls_left, self.tokens_left = self.max_calls, self.max_tokens
        self.listed: set[str] = set()
        self.opened: dict[str, str] = {}
        self.outcome.update(answer="", citations=[], opened=[])
        self.add_tools(_OPEN)

    @tool
    async def search(self, query: str, count: int = 5) -> str:
        """Search the pages.

        Args:
            query: Words; operators mean nothing.
            count: Most pages to list.
        """
        self._spend()
        hits = await self.source.search(query, count, self.replies)
        self.listed.update(hit.page for hit in hits)
        listed = [f"- {hit.page}: {hit.snippet}" for hit in hits]
        return self._show("\n".join(listed) or "Nothing found.")

    async def open_page(self, page: str, start: int = 0) -> str:
        """Open a page.

        Args:
            page: Its name, as `search` lists it.
            start: From which character on to show it.
        """
        self._spend()
        text, start = self.opened.get(page), max(start, 0)
        if text is None and (page in self.listed or self.source.is_closed_world):
            text = await self.source.read(page, self.replies)
        if text is None:
            raise ToolError(f"There is no page {page[:200]!r}. Use a name that `search` lists.")
        if start >= max(len(text), 1):
            raise ToolError(f"{page[:200]!r} has {len(text)} characters. Start before its end.")
        self.opened[page] = text
        self.outcome["opened"] = [*self.opened]
        shown = text[start : start + PART_CHARS]
        return self._show(f"{shown}\n[characters {start} to {start + len(shown)} of {len(text)}]")

    @tool
    async def find(self, page: str, text: str) -> str:
        """Find a text in a page that was opened.

        Args:
            page: Its name.
            text: What to look for; capitals do not count.
        """
        self._spend()
        if page not in self.opened:
            raise ToolError(f"{page[:200]!r} was not opened. Open it first.")
        whole = self.opened[page]
        places = zip(
            re.finditer(re.escape(text) or "$", whole, re.IGNORECASE), range(5), strict=False
        )
        found = [f"- …{whole[max(0, p.start() - 100) : p.end() + 100]}…" for p, _ in places]
        return self._show("\n".join(found) or "It is not there.")

    @tool
    async def answer(self, answer: str, citations: list[str]) -> End:
        """Give the final answer.

        Args:
            answer: As short as it can be: a name, a date, a number, yes or no.
            citations: Names of the opened pages that it rests on.
        """
        for page in citations:
            if page not in self.opened:
                raise ToolError(f"{page[:200]!r} was not opened. Cite opened pages only.")
        self.outcome.update(answer=answer[:_MAX_CHARS], citations=[*dict.fromkeys(citations)])
        return End()

    async def respond(self, completion: Completion) -> End:
        """A completion without a call is an answer that cites nothing."""
        self.outcome["answer"] = completion.text[:_MAX_CHARS]
        return End()

    def _spend(self) -> None:
        if min(self.calls_left, self.tokens_left) <= 0:
            raise ToolError("The budget is spent. Give your answer now, with `answer`.")
        self.calls_left -= 1

    def _show(self, text: str) -> str:
        shown = text[: self.tokens_left * TOKEN_CHARS]
        self.tokens_left -= -(-len(shown) // TOKEN_CHARS)
        advice = "" if min(self.calls_left, self.tokens_left) else " Answer now, with `answer`."
        return f"{shown}\n[left: {self.calls_left} calls, {self.tokens_left} tokens]{advice}"


# As a method it would be that of every episode which drivers call.
_OPEN = Tool("open", Research.open_page)
