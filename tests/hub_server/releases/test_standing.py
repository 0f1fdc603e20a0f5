"""Deprecated, archived, quarantined, closed: what still works, and who may say so."""

import uuid
from pathlib import Path

import httpx
import pytest

from strop.hub.wire import Scope
from tests.factories import a_sdist, an_upload
from tests.hub_server.author import API, Author, ask
from tests.hub_server.index.test_index import document
from tests.hub_server.running_hub import RunningHub


@pytest.fixture
def author(hub: RunningHub, tmp_path: Path) -> Author:
    return Author.new(hub, tmp_path)


def call(
    author: Author, method: str, rest: str, token: str | None = None, **body: object
) -> httpx.Response:
    """A request about ``maze``, by its author unless another token is given."""
    with author.hub.client(token or author.token) as client:
        path = f"{API}/{author.owner}/maze{rest}"
        return client.request(method, path, json=body or None)


def set_status(
    author: Author, status: str, reason: str = "", token: str | None = None
) -> httpx.Response:
    return call(author, "PUT", "/status", token, status=status, reason=reason)


def push(author: Author, version: str) -> httpx.Response:
    upload = an_upload(author.folder / uuid.uuid4().hex, version=version)
    return author.hub.push(author.token, author.owner, upload)


def page(author: Author) -> dict[str, object]:
    return document(author.hub, f"/owners/{author.owner}/simple/maze/")


def test_a_deprecated_environment_is_served_and_extended_with_a_warning(author: Author) -> None:
    author.publish("maze")

    response = set_status(author, "deprecated", "use labyrinth")

    assert response.json()["status"] == "deprecated", response.text
    assert response.json()["status_reason"] == "use labyrinth"
    assert page(author)["project-status"] == {"status": "deprecated", "reason": "use labyrinth"}
    assert push(author, "0.2.0").status_code == 201
    (item,) = author.resolve(f"{author.owner}/maze")
    assert item["warnings"] == [f"`{author.owner}/maze` is deprecated: use labyrinth."]


def test_an_archived_environment_takes_no_uploads_until_it_is_active_again(author: Author) -> None:
    author.publish("maze")
    set_status(author, "archived", "done")

    refused = push(author, "0.2.0")

    assert (refused.status_code, refused.json()["code"]) == (403, "archived")
    assert "done" in refused.json()["detail"]
    assert page(author)["files"]
    set_status(author, "active")
    assert page(author)["project-status"] == {"status": "active"}
    assert push(author, "0.2.0").status_code == 201


def test_a_quarantined_environment_offers_no_files_and_takes_none(author: Author) -> None:
    (version,) = author.publish("maze")
    (file,) = [file for file in version["files"] if file["kind"] == "wheel"]
    open_url = f"/owners/{author.owner}/files/maze/{file['filename']}"
    set_status(author, "quarantined", "steals secrets", author.hub.admin_token)

    assert page(author)["files"] == []
    assert page(author)["project-status"] == {"status": "quarantined", "reason": "steals secrets"}
    assert ask(author.hub, "GET", open_url).status_code == 404
    download = ask(author.hub, "GET", httpx.URL(file["url"]).path)
    assert (download.status_code, download.json()["code"]) == (403, "quarantined")
    assert push(author, "0.2.0").json()["code"] == "quarantined"
    (item,) = author.resolve(f"{author.owner}/maze@0.1.0")
    assert item["code"] == "environment_quarantined"
    assert "steals secrets" in item["detail"]


def test_only_an_administrator_lifts_a_quarantine(author: Author) -> None:
    author.publish("maze")
    set_status(author, "quarantined", "leaky")

    refused = set_status(author, "active")
    lifted = set_status(author, "active", token=author.hub.admin_token)

    assert refused.status_code == 403
    assert lifted.json()["status"] == "active"
    assert page(author)["files"]


def test_one_quarantined_version_is_never_chosen_and_says_why_when_named(author: Author) -> None:
    _, version = author.publish("maze", "0.1.0", "0.2.0")

    response = call(
        author, "POST", "/versions/0.2.0/quarantine", author.hub.admin_token, reason="leaky grader"
    )

    assert response.json()["is_quarantined"] is True, response.text
    newest, named = author.resolve(f"{author.owner}/maze", f"{author.owner}/maze@0.2.0")
    assert newest["version"] == "0.1.0"
    assert named["code"] == "version_quarantined"
    assert f"`{author.owner}/maze@0.2.0` is quarantined: leaky grader" in named["detail"]
    assert page(author)["versions"] == ["0.1.0"]
    for file in version["files"]:
        assert ask(author.hub, "GET", httpx.URL(file["url"]).path).status_code == 403
    assert call(author, "GET", "/versions/0.2.0").json()["quarantine_reason"] == "leaky grader"
    assert call(author, "DELETE", "/versions/0.2.0/quarantine").status_code == 403

    call(author, "DELETE", "/versions/0.2.0/quarantine", author.hub.admin_token)

    assert author.resolve(f"{author.owner}/maze")[0]["version"] == "0.2.0"
    assert page(author)["versions"] == ["0.1.0", "0.2.0"]


def test_a_closed_version_takes_no_further_file(author: Author, tmp_path: Path) -> None:
    author.publish("maze")
    sdist = a_sdist(tmp_path)

    closed = call(author, "POST", "/versions/0.1.0/close")
    with author.hub.client() as client:
        response = client.post(
            "/legacy/",
            files={"content": (sdist.name, sdist.read_bytes())},
            auth=("__token__", author.token),
        )

    assert closed.json()["is_closed"] is True
    assert (response.status_code, response.json()["code"]) == (409, "version_closed")


@pytest.mark.parametrize(
    ("method", "rest", "body"),
    [
        ("PUT", "/status", {"status": "archived"}),
        ("POST", "/versions/0.1.0/quarantine", {"reason": "x"}),
        ("POST", "/versions/0.1.0/close", {}),
        ("DELETE", "/versions/0.1.0", {}),
        ("DELETE", "", {}),
        ("POST", "/purge", {"reason": "x"}),
        ("PUT", "/tags/stable", {"version": "0.1.0"}),
        ("DELETE", "/tags/stable", {}),
    ],
)
def test_who_may_not_is_refused_and_who_may_not_see_finds_nothing(
    author: Author, method: str, rest: str, body: dict[str, str]
) -> None:
    author.publish("maze", visibility="private")
    _, stranger = author.hub.new_user()
    reader = author.reader()
    publisher = author.hub.new_token(author.owner, scopes=[Scope.READ, Scope.CREATE])

    with author.hub.client() as client:
        nobody = client.request(method, f"{API}/{author.owner}/maze{rest}", json=body or None)
    unseen = call(author, method, rest, stranger, **body)
    seen = [call(author, method, rest, token, **body) for token in (reader, publisher)]

    assert nobody.status_code == unseen.status_code == 404
    assert [response.status_code for response in seen] == [403, 403]
    assert call(author, "GET", "").json()["status"] == "active"
