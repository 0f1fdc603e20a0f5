"""Finding environments by text, owner, category and tag."""

from pathlib import Path
from typing import Any

import pytest

from tests.hub_server.author import API, Author, names_in
from tests.hub_server.running_hub import RunningHub


@pytest.fixture
def author(hub: RunningHub, tmp_path: Path) -> Author:
    return Author.new(hub, tmp_path)


def listed(author: Author, token: str | None = None, **query: str) -> list[dict[str, Any]]:
    with author.hub.client(token) as client:
        response = client.get(API, params={"owner": author.owner} | query)
    assert response.status_code == 200, response.text
    items: list[dict[str, Any]] = response.json()["items"]
    return items


def test_a_listing_shows_each_environment_through_its_latest_version(author: Author) -> None:
    author.publish("maze", "0.9.0", "0.10.0", "1.0rc1")

    (item,) = listed(author)

    assert item["latest_version"] == "0.10.0"
    assert item["summary"] == "Find the exit of a hidden grid."
    assert (item["category"], item["tags"], item["is_private"]) == ("logic", ["multi-turn"], False)


def test_filters_narrow_and_combine(author: Author) -> None:
    author.publish("maze", manifest={"tags": ["grid", "tools"]})
    author.publish("sums", manifest={"tags": ["tools"], "category": "math"})

    assert names_in(listed(author, tag="grid")) == ["maze"]
    assert names_in(listed(author, category="math")) == ["sums"]
    assert names_in(listed(author, tag="tools")) == ["sums", "maze"]
    assert listed(author, tag="grid", category="math") == []
    assert listed(author, tag="gri") == []


def test_search_finds_all_words_and_puts_the_best_match_first(author: Author) -> None:
    author.publish("other", manifest={"summary": "Not a maze at all, just walls."})
    author.publish("big-maze", manifest={"summary": "Walls."})
    author.publish("maze-env", manifest={"summary": "Walls."})
    author.publish("maze", manifest={"summary": "Walls."})
    author.publish("sums", manifest={"summary": "Addition."})

    assert names_in(listed(author, q="maze")) == ["maze", "maze-env", "big-maze", "other"]
    assert names_in(listed(author, q="MAZE just")) == ["other"]
    assert names_in(listed(author, q="maze env")) == ["maze-env"]


@pytest.mark.parametrize("text", ["%", "_", "\\", "'", '"; drop table x', "é", "*", "a" * 190])
def test_search_text_is_text_and_nothing_else(author: Author, text: str) -> None:
    author.publish("maze")

    assert listed(author, q=f"{text}zzz") == []


def test_pages_join_without_gaps_or_repeats_while_others_publish(author: Author) -> None:
    names = [f"env-{number}" for number in range(7)]
    for name in names:
        author.publish(name)
    seen, cursor = [], ""
    with author.hub.client() as client:
        while cursor is not None:
            query = {"owner": author.owner, "limit": "3", "q": "env"}
            page = client.get(API, params=query | ({"cursor": cursor} if cursor else {})).json()
            seen += names_in(page["items"])
            cursor = page["next_cursor"]
            author.publish(f"late-env-{len(seen)}")

    assert [name for name in seen if name in names] == names[::-1]


def test_private_environments_are_listed_for_their_readers_alone(author: Author) -> None:
    author.publish("open")
    author.publish("hidden", visibility="private")
    _, stranger = author.hub.new_user()

    assert names_in(listed(author)) == ["open"]
    assert names_in(listed(author, stranger)) == ["open"]
    assert names_in(listed(author, author.reader())) == ["hidden", "open"]


def test_cursors_tell_nothing_of_what_is_hidden(author: Author) -> None:
    for name in ("a", "b", "c"):
        author.publish(name)
    with author.hub.client() as client:
        query = {"owner": author.owner, "limit": "2"}
        without = client.get(API, params=query).json()["next_cursor"]
        author.publish("hidden", visibility="private")
        with_gap = client.get(API, params=query).json()["next_cursor"]

    assert without == with_gap


@pytest.mark.parametrize("query", [{"cursor": "x"}, {"limit": "0"}, {"limit": "999"}])
def test_a_page_that_does_not_exist_is_the_callers_mistake(
    hub: RunningHub, query: dict[str, str]
) -> None:
    with hub.client() as client:
        response = client.get(API, params=query)

    assert response.status_code == 422
    assert response.json()["code"] in ("invalid_cursor", "invalid_request")
