"""The index in memory takes any query and any name, and finds what is there."""

import sqlite3
import time
from collections.abc import AsyncIterator

import pytest
from hypothesis import given
from hypothesis import strategies as st

from strop.replies import Replies
from strop.search import LocalIndex
from strop.search.base import MAX_HIT_COUNT

PAGES = {
    "Ada Lovelace": "Ada Lovelace wrote the first program, for an engine that was never built.",
    "Analytical Engine": "A machine that Charles Babbage designed; Ada wrote about it.",
    "Zürich": "A town on a lake. ÉTÉ means summer elsewhere.",
    "../../etc/passwd?": "A page with a name like a path.",
    "NUL\0 and \ud800": "A text with \0 and \ud800 in it, about narwhals.",
}

SYNTAX = [
    '"',
    '""',
    "'; DROP TABLE pages; --",
    "ada AND",
    "AND OR NOT NEAR",
    "NEAR(ada engine, 2)",
    "title:ada",
    "-title: ada",
    "{title text}: ada",
    "ada*",
    "^ada",
    "(ada",
    "ada)",
    "a+b",
    'ada" OR "engine',
    "\\",
    "\0ada",
    "\ud800",
    "%s %n ? ?1 :a @a $a",
]


@pytest.fixture
async def index() -> AsyncIterator[LocalIndex]:
    async with LocalIndex(PAGES) as opened:
        yield opened


async def pages_of(index: LocalIndex, query: str, count: int = 10) -> list[str]:
    return [hit.page for hit in await index.search(query, count, Replies())]


async def test_a_title_counts_more_than_a_text(index: LocalIndex) -> None:
    assert await pages_of(index, "Ada") == ["Ada Lovelace", "Analytical Engine"]
    [hit] = await index.search("babbage", 3, Replies())
    assert (hit.page, hit.snippet) == ("Analytical Engine", PAGES["Analytical Engine"])


async def test_capitals_and_accents_do_not_count_and_any_word_is_enough(index: LocalIndex) -> None:
    assert await pages_of(index, "ZURICH or nowhere") == ["Zürich"]
    assert await pages_of(index, "été?") == ["Zürich"]
    assert await pages_of(index, "?!") == []
    assert await pages_of(index, "nowhere") == []


@pytest.mark.parametrize(("count", "found"), [(1, 1), (0, 1), (-5, 1), (10**30, MAX_HIT_COUNT)])
async def test_the_count_is_kept_within_its_limits(count: int, found: int) -> None:
    async with LocalIndex({f"Page {n}": "word" for n in range(50)}) as index:
        assert len(await pages_of(index, "word", count)) == found


@pytest.mark.parametrize("query", SYNTAX)
async def test_a_query_holds_words_and_no_operators(index: LocalIndex, query: str) -> None:
    found = await pages_of(index, query)
    assert set(found) <= set(PAGES) | {"NUL  and ?"}
    assert await pages_of(index, "engine") == ["Analytical Engine", "Ada Lovelace"]


@given(query=st.text(max_size=80))
async def test_any_text_is_a_query(query: str) -> None:
    async with LocalIndex({"a": "b"}) as index:
        assert len(await index.search(query, 3, Replies())) <= 1


@pytest.mark.parametrize("query", ["word " * 1_000_000, "a" * 5_000_000, '"' * 5_000_000])
async def test_a_giant_query_takes_no_time(index: LocalIndex, query: str) -> None:
    started = time.process_time()
    await pages_of(index, query)
    assert time.process_time() - started < 4


@pytest.mark.parametrize(
    "page", ["/etc/passwd", "../../etc/passwd", "file:///etc/passwd", "ada lovelace", "", "\0"]
)
async def test_only_a_title_is_a_page(index: LocalIndex, page: str) -> None:
    assert await index.read(page, Replies()) is None


async def test_every_title_can_be_read_to_the_letter(index: LocalIndex) -> None:
    for title, text in PAGES.items():
        assert await index.read(title, Replies()) == text


async def test_it_is_filled_when_it_opens_and_can_be_opened_again() -> None:
    made: list[int] = []

    def make() -> dict[str, str]:
        made.append(1)
        return PAGES

    index = LocalIndex(make)
    assert made == []
    for _ in range(2):
        async with index:
            assert await pages_of(index, "babbage") == ["Analytical Engine"]
        with pytest.raises(AssertionError, match="not open"):
            await pages_of(index, "babbage")
    assert len(made) == 2


async def test_nothing_of_it_is_recorded(index: LocalIndex) -> None:
    replies = Replies()
    await index.search("ada", 3, replies)
    await index.read("Ada Lovelace", replies)
    assert replies.recorded() == ()


def test_this_python_has_what_it_needs() -> None:
    with sqlite3.connect(":memory:") as database:
        database.execute("CREATE VIRTUAL TABLE pages USING fts5(title)")
    database.close()
