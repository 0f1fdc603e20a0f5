"""Staged releases: nothing of them is seen, and then all at once."""

from datetime import timedelta
from pathlib import Path
from typing import Any

import httpx
import pytest
from sqlalchemy import update

from strop_hub.db import Database, now
from strop_hub.models import StagedRelease
from tests.factories import AnUpload, a_sdist, a_wheel, an_upload
from tests.hub_server.author import Author, ask
from tests.hub_server.running_hub import RunningHub

RELEASES = "/api/v1/releases"


@pytest.fixture
def author(hub: RunningHub, tmp_path: Path) -> Author:
    return Author.new(hub, tmp_path / "author")


def call(author: Author, method: str, path: str, token: str | None = None, **content: Any) -> Any:
    with author.hub.client(token or author.token) as client:
        return client.request(method, path, **content)


def begin(author: Author, **fields: str) -> str:
    response = call(author, "POST", RELEASES, json={"owner": author.owner, **fields})
    assert response.status_code == 201, response.text
    return f"{RELEASES}/{response.json()['key']}"


def stage(author: Author, release: str, upload: AnUpload) -> httpx.Response:
    response: httpx.Response = call(author, "POST", f"{release}/files", **upload.form())
    return response


def stage_sdist(author: Author, release: str, sdist: Path) -> httpx.Response:
    files = {"sdist": (sdist.name, sdist.read_bytes())}
    response: httpx.Response = call(author, "POST", f"{release}/files", files=files)
    return response


def publish(author: Author, release: str) -> httpx.Response:
    response: httpx.Response = call(author, "POST", f"{release}/publish")
    return response


def is_there(author: Author, name: str = "maze") -> bool:
    return ask(author.hub, "GET", f"/api/v1/environments/{author.owner}/{name}").status_code == 200


def test_several_versions_and_files_become_visible_in_one_step(
    author: Author, tmp_path: Path
) -> None:
    release = begin(author)
    for name in ("maze", "labyrinth"):
        assert stage(author, release, an_upload(tmp_path / name, name=name)).status_code == 200
    staged = stage_sdist(author, release, a_sdist(tmp_path / "sdist"))

    assert len(staged.json()["files"]) == 5
    assert not is_there(author)
    assert ask(author.hub, "GET", f"/owners/{author.owner}/simple/").status_code == 404

    published = publish(author, release)

    assert published.json()["state"] == "published", published.text
    assert published.json()["published"] == [
        f"{author.owner}/labyrinth@0.1.0",
        f"{author.owner}/maze@0.1.0",
    ]
    assert is_there(author)
    assert is_there(author, "labyrinth")
    detail = call(author, "GET", f"/api/v1/environments/{author.owner}/maze").json()["latest"]
    assert {file["kind"] for file in detail["files"]} == {"wheel", "source", "sdist"}
    assert publish(author, release).json() == published.json()


def test_what_refuses_one_file_refuses_all(author: Author, tmp_path: Path) -> None:
    release = begin(author)
    stage(author, release, an_upload(tmp_path / "1", name="labyrinth"))
    stage(author, release, an_upload(tmp_path / "2", tree={"a.py": "staged"}))
    author.publish("maze")

    refused = publish(author, release)

    assert (refused.status_code, refused.json()["code"]) == (409, "version_exists")
    assert not is_there(author, "labyrinth")
    assert call(author, "GET", release).json()["state"] == "open"


def test_a_staged_file_can_be_replaced_before_it_is_published(
    author: Author, tmp_path: Path
) -> None:
    release = begin(author, visibility="private")
    stage(author, release, an_upload(tmp_path / "1", is_foreign=True))
    second = an_upload(tmp_path / "2", is_foreign=True, files={"maze.py": "# better\n"})
    stage(author, release, second)

    publish(author, release)

    version = call(author, "GET", f"/api/v1/environments/{author.owner}/maze").json()
    assert version["latest"]["digest"] == second.fields["wheel_sha256"]
    assert version["is_private"] is True
    assert not is_there(author)


def test_an_abandoned_release_is_forgotten(author: Author, tmp_path: Path) -> None:
    release = begin(author)
    stage(author, release, an_upload(tmp_path))

    assert call(author, "DELETE", release).status_code == 204
    assert call(author, "DELETE", release).status_code == 204

    assert call(author, "GET", release).json()["files"] == []
    assert stage(author, release, an_upload(tmp_path)).json()["code"] == "release_closed"
    assert publish(author, release).json()["code"] == "release_closed"
    assert not is_there(author)


def test_a_published_release_cannot_be_abandoned(author: Author, tmp_path: Path) -> None:
    release = begin(author)
    stage(author, release, an_upload(tmp_path))
    publish(author, release)

    assert call(author, "DELETE", release).json()["code"] == "release_closed"
    assert is_there(author)


def test_a_release_expires(author: Author, tmp_path: Path) -> None:
    release = begin(author)
    stage(author, release, an_upload(tmp_path))
    database = Database.open(author.hub.settings.database)
    key = release.rpartition("/")[2]
    old = update(StagedRelease).where(StagedRelease.key == key)
    database.write(lambda session: session.execute(old.values(expires_at=now() - timedelta(1))))
    database.close()

    assert call(author, "GET", release).json()["state"] == "expired"
    assert publish(author, release).json()["code"] == "release_closed"
    begin(author)
    assert call(author, "GET", release).status_code == 404


def test_a_release_is_its_owners_alone(author: Author, tmp_path: Path) -> None:
    release = begin(author)
    stranger, token = author.hub.new_user()

    for method, rest in (("GET", ""), ("POST", "/publish"), ("DELETE", "")):
        hidden = call(author, method, release + rest, token)
        absent = call(author, method, f"{RELEASES}/nothing{rest}", token)
        assert hidden.status_code == absent.status_code == 404
        assert hidden.json()["detail"] == absent.json()["detail"]
    foreign = call(author, "POST", RELEASES, json={"owner": stranger})
    assert foreign.status_code == 403
    assert ask(author.hub, "GET", release).status_code in (401, 404)


def test_broken_files_and_empty_releases_are_refused(author: Author, tmp_path: Path) -> None:
    release = begin(author)
    broken = tmp_path / "maze-0.1.0.tar.gz"
    broken.write_bytes(b"no archive")

    assert publish(author, release).json()["code"] == "release_empty"
    assert stage_sdist(author, release, broken).json()["code"] == "invalid_package"
    source_only = a_wheel(tmp_path / "w")
    form = {"source": (source_only.name, source_only.read_bytes())}
    assert call(author, "POST", f"{release}/files", files=form).status_code == 400
    assert call(author, "GET", release).json()["files"] == []


def test_an_owner_has_a_bounded_number_of_open_releases(author: Author) -> None:
    for _ in range(20):
        begin(author)

    assert call(author, "POST", RELEASES, json={"owner": author.owner}).status_code == 409
