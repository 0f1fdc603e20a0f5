"""Pages of a list that grows while it is read, and cursors that nobody gave out."""

import base64
import json
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from strop_hub.errors import InvalidRequestError
from strop_hub.pagination import read_cursor, write_cursor
from tests.hub_server.author import API, Author
from tests.hub_server.running_hub import RunningHub

_TEXT = st.text(st.characters(exclude_characters="\0", codec="utf-8"), max_size=30)
_POSITIONS = st.lists(st.one_of(_TEXT, st.integers(-(2**62), 2**62)), max_size=5)


@pytest.fixture
def author(hub: RunningHub, tmp_path: Path) -> Author:
    return Author.new(hub, tmp_path)


def pages(
    author: Author,
    query: str,
    path: str = API,
    *,
    limit: int = 3,
    between: Callable[[int], object] = lambda _: None,
) -> Iterator[list[dict[str, Any]]]:
    """Every page of a list; `between` is called after each."""
    cursor, number = "", 0
    with author.hub.client(author.token) as client:
        while True:
            response = client.get(f"{path}?limit={limit}&{query}{cursor}")
            assert response.status_code == 200, response.text
            page = response.json()
            yield page["items"]
            if page["next_cursor"] is None:
                return
            cursor = f"&cursor={page['next_cursor']}"
            between(number)
            number += 1


def test_what_was_there_at_the_start_comes_once_while_others_are_published(author: Author) -> None:
    there = [f"maze-{number}" for number in range(8)]
    for name in there:
        author.publish(name)

    found = [
        item["name"]
        for page in pages(
            author, f"owner={author.owner}", between=lambda number: author.publish(f"late-{number}")
        )
        for item in page
    ]

    assert len(found) == len(set(found))
    assert [name for name in found if name in there] == list(reversed(there))


def test_a_search_shows_each_match_once_while_others_are_published(author: Author) -> None:
    word = f"zebra{author.owner.replace('-', '')}"
    there = [f"{word}-{number}" for number in range(4)] + [f"a-{word}-{n}" for n in range(4)]
    for name in there:
        author.publish(name)

    found = [
        item["name"]
        for page in pages(
            author, f"q={word}", between=lambda number: author.publish(f"b-{word}-{number}")
        )
        for item in page
    ]

    assert len(found) == len(set(found))
    assert set(there) <= set(found)


def test_what_is_published_anew_while_it_is_read_comes_no_second_time(author: Author) -> None:
    there = [f"maze-{number}" for number in range(7)]
    for name in there:
        author.publish(name)

    found = [
        item["name"]
        for page in pages(
            author,
            f"owner={author.owner}",
            # It is the newest now, and has been shown already.
            between=lambda number: author.publish(there[-1], f"0.2.{number}"),
        )
        for item in page
    ]

    assert found == list(reversed(there))


@pytest.mark.parametrize("limit", [1, 2, 5, 200])
def test_versions_come_once_and_in_order_whatever_the_limit(author: Author, limit: int) -> None:
    numbers = ["1.0", "1.0rc1", "1.0.post1", "2.0.dev1", "1!0.1", "1.0+b", "0.9"]
    author.publish("maze", *numbers)
    path = f"{API}/{author.owner}/maze/versions"

    listed = list(pages(author, "", path, limit=limit))

    assert [item["version"] for page in listed for item in page] == [
        *("1!0.1", "2.0.dev1", "1.0.post1", "1.0+b", "1.0", "1.0rc1", "0.9")
    ]
    assert all(len(page) == limit for page in listed[:-1])


def test_pages_hide_what_a_caller_may_not_see_and_count_nothing_of_it(author: Author) -> None:
    for number in range(6):
        visibility = "public" if number % 2 else "private"
        author.publish(f"maze-{number}", visibility=visibility)
    stranger = Author(author.hub, author.folder, author.owner, author.hub.new_user()[1])

    listed = list(pages(stranger, f"owner={author.owner}", limit=2))

    assert [[item["name"] for item in page] for page in listed] == [
        ["maze-5", "maze-3"],
        ["maze-1"],
    ]


@settings(max_examples=200, deadline=None)
@given(_POSITIONS)
def test_a_cursor_says_again_what_was_written(position: list[str | int]) -> None:
    kinds = [type(part) for part in position]

    assert list(read_cursor(write_cursor(*position), *kinds)) == position


@settings(max_examples=300, deadline=None)
@given(st.one_of(st.text(max_size=60), st.binary(max_size=60).map(lambda raw: raw.hex())))
def test_no_other_text_is_taken_for_a_cursor(text: str) -> None:
    with pytest.raises(InvalidRequestError):
        read_cursor(text, int, str, str, str)


def forged(*position: object) -> str:
    return base64.urlsafe_b64encode(json.dumps(position).encode()).decode().rstrip("=")


NOW = datetime(2026, 1, 1, tzinfo=UTC).isoformat()
FORGED = [
    forged(),
    forged(0, NOW, "a"),
    forged("0", NOW, "a", "b"),
    forged(True, NOW, "a", "b"),
    forged(0, "yesterday", "a", "b"),
    forged(0, "2026-01-01T00:00:00", "a", "b"),
    forged(0, "9999-99-99T00:00:00+00:00", "a", "b"),
    forged(0, NOW, "\0", "b"),
    forged(0, NOW, "\ud800", "b"),
    forged(2**64, NOW, "a", "b"),
    forged(0.5, NOW, "a", "b"),
    forged(None, NOW, "a", "b"),
    forged(0, NOW, ["a"], "b"),
    "W10",
    "====",
    "é",
]


@pytest.mark.parametrize("cursor", FORGED, ids=range(len(FORGED)))
def test_a_forged_cursor_is_refused(author: Author, cursor: str) -> None:
    response = author.hub.get(f"{API}?cursor={cursor}")

    assert (response.status_code, response.json()["code"]) == (422, "invalid_cursor")


@pytest.mark.parametrize(
    "when", ["0001-01-01T00:00:00", "9999-12-31T23:59:59.999999", "2999-01-01T00:00:00"]
)
def test_a_forged_cursor_of_any_time_shows_no_more_than_an_honest_one(
    author: Author, when: str
) -> None:
    author.publish("hidden", visibility="private")
    for zone in ("+00:00", "+14:00", "-12:00"):
        cursor = forged(0, when + zone, "", "")

        response = author.hub.get(f"{API}?owner={author.owner}&cursor={cursor}")

        assert response.status_code in (200, 422), response.text
        assert "hidden" not in response.text
