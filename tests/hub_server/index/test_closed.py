"""The closed door: an owner's index and files for those whom a token shows them."""

import subprocess
import sys
from pathlib import Path

import httpx
import pytest

from strop.hub.wire import Scope
from strop_hub import admin
from tests.hub_server.author import Author, ask
from tests.hub_server.index.test_index import JSON
from tests.hub_server.running_hub import RunningHub


@pytest.fixture
def author(hub: RunningHub, tmp_path: Path) -> Author:
    return Author.new(hub, tmp_path)


def door(author: Author, rest: str = "simple/maze/") -> str:
    return f"/auth/owners/{author.owner}/{rest}"


def file_url(author: Author, token: str) -> str:
    page = ask(author.hub, "GET", door(author), token, accept=JSON)
    assert page.status_code == 200, page.text
    (file,) = page.json()["files"]
    return str(httpx.URL(author.hub.url + door(author)).join(file["url"]).path)


@pytest.mark.parametrize(
    "path",
    ["simple/", "simple/maze/", "simple/nothing/", "files/maze/maze.whl", "%2e%2e/x", "", "zz"],
)
@pytest.mark.parametrize("token", [None, "strop_wrong"])
def test_without_a_valid_token_every_address_asks_for_one(
    author: Author, path: str, token: str | None
) -> None:
    author.publish("maze", visibility="private")

    response = ask(author.hub, "GET", door(author, path), token)

    assert response.status_code == 401
    assert response.headers["www-authenticate"].startswith("Basic ")
    assert "private" in response.headers["cache-control"]


def test_a_revoked_token_is_no_token(author: Author) -> None:
    author.publish("maze", visibility="private")
    token = author.reader()
    assert ask(author.hub, "GET", door(author), token).status_code == 200

    admin.token_revoke(author.hub.settings, token[:20])

    assert ask(author.hub, "GET", door(author), token).status_code == 401


def test_absent_and_invisible_are_the_same_404(author: Author) -> None:
    author.publish("maze", visibility="private")
    _, stranger = author.hub.new_user()
    elsewhere = author.hub.new_token(author.owner, limited_to=f"{author.owner}/other")
    publisher = author.hub.new_token(author.owner, scopes=[Scope.PUBLISH])
    filename = file_url(author, author.token).rpartition("/")[2]

    for token in (stranger, elsewhere, publisher):
        for rest in ("simple/maze/", f"files/maze/{filename}", f"files/maze/{filename}.metadata"):
            hidden = ask(author.hub, "GET", door(author, rest), token)
            absent = ask(author.hub, "GET", door(author, rest.replace("maze/", "nothing/")), token)
            assert hidden.status_code == absent.status_code == 404
            assert hidden.content == absent.content
        assert ask(author.hub, "GET", door(author, "simple/"), token).status_code == 404


def test_the_owner_sees_private_and_public_pages_and_files(author: Author) -> None:
    author.publish("maze", visibility="private")
    author.publish("open-maze")
    token = author.reader()

    listing = ask(author.hub, "GET", door(author, "simple/"), token, accept=JSON)
    url = file_url(author, token)
    wheel = ask(author.hub, "GET", url, token)
    metadata = ask(author.hub, "GET", f"{url}.metadata", token)
    part = ask(author.hub, "GET", url, token, range="bytes=0-3", if_range=wheel.headers["etag"])

    assert [project["name"] for project in listing.json()["projects"]] == ["maze", "open-maze"]
    assert listing.headers["cache-control"].startswith("private")
    assert listing.headers["vary"] == "Accept, Authorization"
    assert "access-control-allow-origin" not in listing.headers
    assert wheel.headers["cache-control"].startswith("private")
    assert wheel.headers["vary"] == "Authorization"
    assert b"Name: maze\n" in metadata.content
    assert (part.status_code, part.content) == (206, wheel.content[:4])
    assert ask(author.hub, "GET", url.removeprefix("/auth")).status_code == 404


def test_a_page_is_answered_with_304_head_and_a_redirect_to_its_normal_address(
    author: Author,
) -> None:
    author.publish("maze", visibility="private")
    token = author.token
    page = ask(author.hub, "GET", door(author), token)

    again = ask(author.hub, "GET", door(author), token, if_none_match=page.headers["etag"])
    head = ask(author.hub, "HEAD", door(author), token)
    moved = ask(author.hub, "GET", door(author, "simple/MAZE"), token)
    posted = ask(author.hub, "POST", door(author), token)

    assert again.status_code == 304
    assert (head.status_code, head.content) == (200, b"")
    target = httpx.URL(author.hub.url + door(author, "simple/MAZE")).join(moved.headers["location"])
    assert (moved.status_code, target.path) == (301, door(author))
    assert posted.status_code == 405


def with_token(author: Author, token: str) -> str:
    return f"{author.hub.url}/auth/owners/{author.owner}/simple/".replace(
        "://", f"://__token__:{token}@"
    )


@pytest.mark.parametrize("client", ["pip", "uv"])
def test_installers_take_private_packages_with_a_token(
    author: Author, tmp_path: Path, client: str
) -> None:
    author.publish("maze", visibility="private", files={"maze_module.py": "X = 1\n"})
    commands = {
        "pip": [sys.executable, "-m", "pip", "install", "--no-cache-dir"],
        "uv": [str(Path(sys.executable).with_name("uv")), "pip", "install", "--no-cache"],
    }
    index = ["--index-url", with_token(author, author.reader())]
    target = ["--no-deps", "--target", str(tmp_path / "site"), "maze"]
    uv_only = ["--python", sys.executable] if client == "uv" else []

    finished = subprocess.run(
        [*commands[client], *index, *uv_only, *target], capture_output=True, text=True, timeout=120
    )

    assert finished.returncode == 0, finished.stderr
    assert (tmp_path / "site" / "maze_module.py").is_file()
