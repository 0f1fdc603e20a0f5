"""What the hub tells about one environment, and to whom."""

from pathlib import Path

import pytest

from tests.hub_server.author import API, Author
from tests.hub_server.running_hub import RunningHub


@pytest.fixture
def author(hub: RunningHub, tmp_path: Path) -> Author:
    return Author.new(hub, tmp_path)


def test_an_environment_is_shown_through_its_latest_version(author: Author) -> None:
    author.publish("maze", "1.0", "2.0b1", readme="# Näme\n")

    shown = author.hub.get(f"{API}/{author.owner}/maze").json()

    assert shown["latest_version"] == "1.0"
    assert shown["latest"]["version"] == "1.0"
    assert shown["latest"]["readme"] == "# Näme\n"
    assert shown["latest"]["manifest"]["reward-range"] == [0, 1]
    assert [file["kind"] for file in shown["latest"]["files"]] == ["wheel", "source"]


@pytest.mark.parametrize("spelling", ["My-Env", "my_env", "MY.ENV", "my--env"])
def test_every_spelling_of_a_name_is_the_same_environment(author: Author, spelling: str) -> None:
    author.publish("my-env")

    assert author.hub.get(f"{API}/{author.owner.upper()}/{spelling}").status_code == 200


def test_versions_come_newest_first_by_number_in_pages(author: Author) -> None:
    numbers = ["1.0", "1.0.post1", "0.9", "1.0rc1", "0.10", "1!0.1", "1.0+git.2"]
    author.publish("maze", *numbers)
    path = f"{API}/{author.owner}/maze/versions"

    first = author.hub.get(f"{path}?limit=4").json()
    rest = author.hub.get(f"{path}?limit=4&cursor={first['next_cursor']}").json()

    shown = [item["version"] for item in first["items"] + rest["items"]]
    assert shown == ["1!0.1", "1.0.post1", "1.0+git.2", "1.0", "1.0rc1", "0.10", "0.9"]
    assert rest["next_cursor"] is None


@pytest.mark.parametrize("number", ["1.0", "1.0.0", "1", "v1.0"])
def test_a_version_is_found_by_any_equal_number(author: Author, number: str) -> None:
    author.publish("maze", "1.0")

    shown = author.hub.get(f"{API}/{author.owner}/maze/versions/{number}").json()

    assert shown["version"] == "1.0"


def test_an_environment_whose_versions_are_all_yanked_is_still_there(author: Author) -> None:
    author.publish("maze", "1.0")
    author.yank("maze", "1.0", "leaky grader")

    shown = author.hub.get(f"{API}/{author.owner}/maze").json()
    (version,) = author.hub.get(f"{API}/{author.owner}/maze/versions").json()["items"]

    assert (shown["latest_version"], shown["latest"]) == (None, None)
    assert (version["is_yanked"], version["yank_reason"]) == (True, "leaky grader")


@pytest.mark.parametrize(
    "tail",
    ["", "/versions", "/versions/0.1.0", "/versions/0.1.0/files/maze-0.1.0-py3-none-any.whl"],
)
def test_what_is_hidden_is_answered_like_what_is_absent(author: Author, tail: str) -> None:
    author.publish("hidden", visibility="private")
    _, stranger = author.hub.new_user()

    for token in (None, stranger):
        hidden = author.hub.get(f"{API}/{author.owner}/hidden{tail}", token)
        absent = author.hub.get(f"{API}/{author.owner}/absent{tail}", token)

        assert hidden.status_code == absent.status_code == 404
        ours, theirs = hidden.json(), absent.json()
        del ours["request_id"], theirs["request_id"]
        assert str(ours).replace("hidden", "absent") == str(theirs)


def test_a_missing_name_suggests_near_names_that_the_caller_can_see(author: Author) -> None:
    author.publish("maze-env")
    author.publish("maze-end", visibility="private")

    path = f"{API}/{author.owner}/maze-enf"

    assert f"`{author.owner}/maze-env`" in author.hub.get(path).json()["detail"]
    assert "maze-end" not in author.hub.get(path).json()["detail"]
    assert "maze-end" in author.hub.get(path, author.reader()).json()["detail"]


def test_a_missing_version_names_those_that_are_there(author: Author) -> None:
    author.publish("maze", "1.0", "1.1")

    refusal = author.hub.get(f"{API}/{author.owner}/maze/versions/9.9").json()

    assert refusal["code"] == "not_found"
    assert "1.1, 1.0" in refusal["detail"]


@pytest.mark.parametrize(
    "path",
    ["/a/b/versions/banana", "/-a/b", "/a/..%2Fb", "/a/%00", "/a/b/versions/%F0%9F%90%8D", "/é/b"],
)
def test_names_that_nothing_can_have_are_not_found(hub: RunningHub, path: str) -> None:
    response = hub.get(API + path)

    assert response.status_code == 404, response.text
    assert response.headers["content-type"] == "application/problem+json"
