"""A yanked version stays there and is never chosen; yanking can be taken back."""

from pathlib import Path

import httpx
import pytest

from strop.hub.wire import Scope
from tests.factories import an_upload
from tests.hub_server.running_hub import RunningHub
from tests.hub_server.test_push import assert_refused


@pytest.fixture
def published(hub: RunningHub, tmp_path: Path) -> tuple[str, str]:
    """An owner of `maze` 1.0, 1.1 and 2.0rc1, and a token."""
    owner, token = hub.new_user()
    for version in ("1.0", "1.1", "2.0rc1"):
        upload = an_upload(tmp_path, version=version, manifest={"summary": f"Maze {version}."})
        assert hub.push(token, owner, upload).status_code == 201
    return owner, token


def yank(
    hub: RunningHub, token: str | None, owner: str, version: str, reason: str = "leaky grader"
) -> httpx.Response:
    with hub.client(token) as client:
        path = f"/api/v1/environments/{owner}/maze/versions/{version}/yank"
        return client.post(path, json={"reason": reason})


def unyank(hub: RunningHub, token: str | None, owner: str, version: str) -> httpx.Response:
    with hub.client(token) as client:
        return client.delete(f"/api/v1/environments/{owner}/maze/versions/{version}/yank")


def latest(hub: RunningHub, owner: str) -> tuple[str | None, str]:
    environment = hub.get(f"/api/v1/environments/{owner}/maze").json()
    return environment["latest_version"], environment["summary"]


def test_the_latest_version_passes_over_yanked_ones_and_pre_releases_come_last(
    hub: RunningHub, published: tuple[str, str]
) -> None:
    owner, token = published
    assert latest(hub, owner) == ("1.1", "Maze 1.1.")

    seen = []
    for version in ("1.1", "1.0", "2.0rc1"):
        response = yank(hub, token, owner, version)
        assert response.status_code == 200, response.text
        assert response.json()["is_yanked"]
        assert response.json()["yank_reason"] == "leaky grader"
        seen.append(latest(hub, owner)[0])

    assert seen == ["1.0", "2.0rc1", None]
    assert unyank(hub, token, owner, "1.1").json()["yank_reason"] is None
    assert latest(hub, owner) == ("1.1", "Maze 1.1.")


def test_a_yanked_version_is_still_there_for_those_who_name_it(
    hub: RunningHub, published: tuple[str, str]
) -> None:
    owner, token = published
    yank(hub, token, owner, "1.0")

    version = hub.get(f"/api/v1/environments/{owner}/maze/versions/1.0").json()

    path = httpx.URL(version["files"][0]["url"]).path
    assert hub.get(path).status_code == 200


def test_yanking_again_changes_at_most_the_reason(
    hub: RunningHub, published: tuple[str, str]
) -> None:
    owner, token = published
    first = yank(hub, token, owner, "1.0").json()

    again = yank(hub, token, owner, "1.0").json()
    reworded = yank(hub, token, owner, "1.0", "reward is \x00 wrong").json()

    assert again == first
    assert reworded["yank_reason"] == "reward is \ufffd wrong"
    assert unyank(hub, token, owner, "1.1").status_code == 200


def test_who_may_not_yank_is_refused(hub: RunningHub, published: tuple[str, str]) -> None:
    owner, _ = published
    _, stranger = hub.new_user()
    publishing = hub.new_token(owner, scopes=[Scope.PUBLISH])

    assert_refused(yank(hub, None, owner, "1.0"), 401, "token_missing")
    assert_refused(yank(hub, stranger, owner, "1.0"), 403, "forbidden")
    assert "`yank`" in assert_refused(yank(hub, publishing, owner, "1.0"), 403, "scope_missing")
    assert_refused(unyank(hub, stranger, owner, "1.0"), 403, "forbidden")
    assert latest(hub, owner)[0] == "1.1"


def test_what_is_not_there_or_not_visible_is_not_found(hub: RunningHub, tmp_path: Path) -> None:
    owner, token = hub.new_user()
    _, stranger = hub.new_user()
    hub.push(token, owner, an_upload(tmp_path), visibility="private")

    assert_refused(yank(hub, token, owner, "9.9"), 404, "not_found")
    assert_refused(yank(hub, token, owner, "not-a-version"), 404, "not_found")
    assert_refused(yank(hub, stranger, owner, "0.1.0"), 404, "not_found")
    yanking = hub.new_token(owner, scopes=[Scope.YANK])
    assert yank(hub, yanking, owner, "0.1.0").status_code == 200


def test_a_reason_that_is_too_long_or_no_text_is_refused(
    hub: RunningHub, published: tuple[str, str]
) -> None:
    owner, token = published

    response = yank(hub, token, owner, "1.0", "x" * 501)

    assert_refused(response, 422, "invalid_request")
    assert "reason" in response.json()["problems"][0]
