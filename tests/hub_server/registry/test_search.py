"""Environments are found by whole words, by first letters, and quickly however many there are."""

import pytest

from strop_hub.search import terms_of, words_of
from tests.hub_server.author import Author, ask, names_in
from tests.hub_server.running_hub import RunningHub


@pytest.fixture
def author(hub: RunningHub, tmp_path_factory: pytest.TempPathFactory) -> Author:
    return Author.new(hub, tmp_path_factory.mktemp("packages"))


def found(author: Author, text: str) -> list[str]:
    path = "/api/v1/environments"
    with author.hub.client() as client:
        answer = client.get(path, params={"q": text, "owner": author.owner})
    assert answer.status_code == 200, answer.text
    return names_in(answer.json()["items"])


def test_first_letters_of_names_and_beginnings_of_any_word_find(author: Author) -> None:
    author.publish("quaternion-rotor", manifest={"summary": "Turn polyhedra in space."})

    for text in (
        "qu",
        "qua",
        "quat",
        "ro",
        "rotor",
        "polyh",
        "Polyhedra space",
        "quaternion-rotor",
    ):
        assert found(author, text) == ["quaternion-rotor"], text
    for text in ("ternion", "xq", "polyhedron", "-", "quaternion maze"):
        assert found(author, text) == [], text


def test_a_new_version_is_found_by_its_new_words_only(author: Author) -> None:
    author.publish("shifting", manifest={"summary": "About ferrets."})
    author.publish("shifting", "0.2.0", manifest={"summary": "About badgers."})

    assert found(author, "badgers") == ["shifting"]
    assert found(author, "ferrets") == []


def test_what_is_private_is_found_by_its_members_only(author: Author) -> None:
    author.publish("hidden-thing", visibility="private")
    path = f"/api/v1/environments?q=hidden-thing&owner={author.owner}"

    assert ask(author.hub, "GET", path).json()["items"] == []
    assert names_in(ask(author.hub, "GET", path, author.reader()).json()["items"]) == [
        "hidden-thing"
    ]


def test_terms_are_words_and_first_letters_of_names() -> None:
    assert terms_of(["ada", "big-maze"], "ada big-maze a Grid") == {
        "ad", "ada", "bi", "big", "ma", "maz", "maze", "a", "grid",
    }  # fmt: skip
    assert words_of("Über-Maze  %_x") == ["über", "maze", "x"]
    assert len(terms_of(["n"], " ".join(f"word{number}" for number in range(500)))) < 100
