"""Tags of one's own: pointers with a history, which references can name."""

from pathlib import Path

import pytest

from tests.hub_server.author import Author
from tests.hub_server.releases.test_deletion import delete
from tests.hub_server.releases.test_standing import call
from tests.hub_server.running_hub import RunningHub


@pytest.fixture
def author(hub: RunningHub, tmp_path: Path) -> Author:
    author = Author.new(hub, tmp_path)
    author.publish("maze", "0.1.0", "0.2.0")
    return author


def point(author: Author, tag: str, version: str) -> dict[str, str]:
    response = call(author, "PUT", f"/tags/{tag}", version=version)
    assert response.status_code == 200, response.text
    return {item["tag"]: item["version"] for item in response.json()["items"]}


def test_a_reference_by_tag_means_the_version_that_it_points_to(author: Author) -> None:
    point(author, "stable", "0.1.0")
    reference = f"{author.owner}/maze@stable"

    before = author.resolve(reference)[0]["version"]
    point(author, "stable", "0.2.0")
    (after, unknown) = author.resolve(reference, f"{author.owner}/maze@nightly")

    assert (before, after["version"]) == ("0.1.0", "0.2.0")
    assert after["reference"] == reference
    assert unknown["code"] == "version_not_found"
    assert "no tag `nightly`" in unknown["detail"]


def test_a_tags_history_tells_where_it_has_pointed(author: Author) -> None:
    point(author, "stable", "0.1.0")
    point(author, "stable", "0.2.0")
    assert point(author, "stable", "0.2.0") == {"stable": "0.2.0"}
    assert call(author, "DELETE", "/tags/stable").json()["items"] == []

    history = call(author, "GET", "/tags/stable").json()["items"]

    assert [item["version"] for item in history] == [None, "0.2.0", "0.1.0"]
    assert {item["moved_by"] for item in history} == {author.owner}
    assert call(author, "GET", "/tags").json()["items"] == []


def test_a_tag_leaves_with_the_version_that_it_points_to(author: Author) -> None:
    point(author, "stable", "0.2.0")

    delete(author)

    assert call(author, "GET", "/tags").json()["items"] == []
    assert call(author, "GET", "/tags/stable").json()["items"][0]["version"] is None


@pytest.mark.parametrize(
    ("tag", "code"),
    [("latest", "name_reserved"), ("v1", "invalid_request"), ("Stable", "invalid_request")],
)
def test_a_tag_cannot_have_the_name_of_something_else(author: Author, tag: str, code: str) -> None:
    response = call(author, "PUT", f"/tags/{tag}", version="0.1.0")

    assert (response.status_code, response.json()["code"]) == (422, code)


def test_what_is_not_there_cannot_be_tagged_or_untagged(author: Author) -> None:
    assert call(author, "PUT", "/tags/stable", version="9").status_code == 404
    assert call(author, "DELETE", "/tags/stable").status_code == 404
    assert call(author, "GET", "/tags/stable").status_code == 404
