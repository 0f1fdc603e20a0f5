"""A private environment is told from an absent one by nothing: status, headers, body (I12)."""

import re
from pathlib import Path

import httpx
import pytest

from strop.hub.wire import Scope
from tests.hub_server.author import Author
from tests.hub_server.checks.report import a_report
from tests.hub_server.running_hub import RunningHub

# Equally long, and no word of any other test.
HIDDEN, ABSENT = "zqhidden-wxy", "zqabsent-wxy"
ADDRESSES = [
    "/api/v1/environments/{owner}/{name}",
    "/api/v1/environments/{owner}/{name}/versions",
    "/api/v1/environments/{owner}/{name}/versions?limit=1",
    "/api/v1/environments/{owner}/{name}/versions/0.1.0",
    "/api/v1/environments/{owner}/{name}/versions/7.0",
    "/api/v1/environments/{owner}/{name}/versions/no-version",
    "/api/v1/environments/{owner}/{name}/versions/0.1.0/files/{file}",
    "/api/v1/environments/{owner}/{name}/versions/0.1.0/yank",
    "/api/v1/environments/{owner}/{name}/versions/0.1.0/close",
    "/api/v1/environments/{owner}/{name}/versions/0.1.0/checks",
    "/api/v1/environments/{owner}/{name}/versions/0.1.0/quarantine",
    "/api/v1/environments/{owner}/{name}/tags",
    "/api/v1/environments/{owner}/{name}/tags/stable",
    "/api/v1/environments/{owner}/{name}/status",
    "/api/v1/environments/{owner}/{name}/purge",
    "/api/v1/environments?owner={owner}&q={name}",
    "/api/v1/environments?q={name}&limit=1",
    "/api/v1/changes?since=0&limit=1",
    "/{owner}/{name}",
    "/{owner}/{name}/0.1.0",
    "/{owner}/{name}?cursor=x",
    "/?q={name}",
    "/?q={name}&owner={owner}",
    "/simple/{name}/",
    "/simple/{name}",
    "/owners/{owner}/simple/{name}/",
    "/owners/{owner}/simple/{name}",
    "/owners/{owner}/files/{name}/{file}",
    "/owners/{owner}/files/{name}/{file}.metadata",
    "/auth/owners/{owner}/simple/{name}/",
    "/auth/owners/{owner}/files/{name}/{file}",
    "/auth/owners/{owner}/files/{name}/{file}.metadata",
]
METHODS = ("GET", "HEAD", "PUT", "POST", "DELETE", "PATCH", "OPTIONS")
BODY = {"reason": "x", "status": "active", "version": "0.1.0"} | a_report("0" * 64)
VARYING = {"x-request-id", "date"}


@pytest.fixture
def author(hub: RunningHub, tmp_path: Path) -> Author:
    """The author of one hidden environment and a public one."""
    author = Author.new(hub, tmp_path)
    author.publish(HIDDEN, visibility="private")
    author.publish("shown")
    return author


def strangers(author: Author) -> list[str | None]:
    """Tokens that must not show the hidden environment."""
    new = author.hub.new_token
    _, foreign = author.hub.new_user()
    return [
        None,
        foreign,
        new(author.owner, scopes=[Scope.CREATE]),
        new(author.owner, limited_to=f"{author.owner}/shown"),
    ]


def told(response: httpx.Response, name: str) -> tuple[int, dict[str, str], str]:
    """What an answer tells, with the name that was asked for taken out."""
    headers = {key: value for key, value in response.headers.items() if key not in VARYING}
    text = re.sub(r'"request_id":"[^"]+"', "", response.text)
    # Both names have as many letters, so lengths must agree as they are.
    replaced = {key: value.replace(name, "NAME") for key, value in headers.items()}
    replaced.pop("etag", None)
    return response.status_code, replaced, text.replace(name, "NAME")


@pytest.mark.parametrize("address", ADDRESSES)
def test_no_method_tells_a_hidden_environment_from_an_absent_one(
    author: Author, address: str
) -> None:
    for token in strangers(author):
        with author.hub.client(token) as client:
            for method in METHODS:
                found = []
                for name in (HIDDEN, ABSENT):
                    file = f"{name.replace('-', '_')}-0.1.0-py3-none-any.whl"
                    path = address.format(owner=author.owner, name=name, file=file)
                    response = client.request(
                        method, path, json=BODY if method in ("PUT", "POST") else None
                    )
                    told_of_file = file.replace(name.replace("-", "_"), "NAME")
                    status, headers, text = told(response, name)
                    found.append((status, headers, text.replace(file, told_of_file)))
                assert found[0] == found[1], (method, token)


@pytest.mark.parametrize(
    "headers",
    [
        {"if-none-match": "*"},
        {"if-match": "*"},
        {"if-modified-since": "Wed, 04 Mar 2026 05:06:07 GMT"},
        {"range": "bytes=0-0"},
        {"range": "bytes=99999999-"},
        {"accept": "application/vnd.pypi.simple.v1+json"},
        {"accept": "text/html"},
        {"accept": "image/png"},
        {"expect": "100-continue"},
        {"x-http-method-override": "DELETE"},
        {"origin": "https://evil.example"},
    ],
    ids=lambda headers: " ".join(headers.values())[:20],
)
def test_no_header_tells_a_hidden_environment_from_an_absent_one(
    author: Author, headers: dict[str, str]
) -> None:
    with author.hub.client() as client:
        for address in ADDRESSES:
            found = []
            for name in (HIDDEN, ABSENT):
                path = address.format(owner=author.owner, name=name, file="maze.whl")
                found.append(told(client.get(path, headers=headers), name))
            assert found[0] == found[1], address


def test_no_suggestion_names_what_is_hidden(author: Author) -> None:
    for token in strangers(author):
        for near in (HIDDEN[:-1], f"{HIDDEN}s", "hidden_maz", HIDDEN.upper()):
            (item,) = author.resolve(f"{author.owner}/{near}", token=token)
            assert item["code"] == "not_found"
            assert HIDDEN not in item["detail"].replace(near.lower(), "").replace("_", "-")


def test_resolving_says_the_same_of_hidden_and_absent(author: Author) -> None:
    selectors = ["", "@latest", "@0.1.0", "@7", "@>=0", "@sha256:" + "a" * 12, "@stable"]
    for token in strangers(author):
        hidden, absent = (
            author.resolve(*(f"{author.owner}/{name}{one}" for one in selectors), token=token)
            for name in (HIDDEN, ABSENT)
        )
        for one, other in zip(hidden, absent, strict=True):
            assert one["code"] == other["code"] == "not_found"
            assert one["detail"].replace(HIDDEN, "X") == other["detail"].replace(ABSENT, "X")


def test_lists_and_feeds_do_not_count_what_is_hidden(author: Author, tmp_path: Path) -> None:
    hub = author.hub
    feed = hub.get("/api/v1/changes?since=0&limit=1").json()["last_serial"]
    etag = hub.get("/simple/").headers["etag"]
    owners = hub.get(f"/owners/{author.owner}/simple/").headers["etag"]
    listed = hub.get(f"/api/v1/environments?owner={author.owner}&limit=1").json()
    page = hub.get(f"/?owner={author.owner}").text

    author.publish("another-hidden", "0.1.0", "0.2.0", visibility="private")
    author.yank("another-hidden", "0.1.0")

    assert hub.get("/api/v1/changes?since=0&limit=1").json()["last_serial"] == feed
    assert hub.get("/simple/").headers["etag"] == etag
    assert hub.get(f"/owners/{author.owner}/simple/").headers["etag"] == owners
    assert hub.get(f"/api/v1/environments?owner={author.owner}&limit=1").json() == listed
    assert hub.get(f"/?owner={author.owner}").text == page


def test_an_owner_with_nothing_but_hidden_environments_is_as_an_owner_who_is_absent(
    hub: RunningHub, tmp_path: Path
) -> None:
    author = Author.new(hub, tmp_path)
    author.publish(HIDDEN, visibility="private")
    absent = author.owner[::-1]

    for address in (
        "/owners/{owner}/simple/",
        f"/owners/{{owner}}/simple/{HIDDEN}/",
        "/api/v1/environments?owner={owner}",
        "/{owner}",
        "/?owner={owner}",
        f"/{{owner}}/{HIDDEN}",
    ):
        one, other = (hub.get(address.format(owner=name)) for name in (author.owner, absent))
        assert told(one, author.owner) == told(other, absent), address


def test_a_dependency_on_a_hidden_name_is_published_like_one_on_an_absent_name(
    author: Author, tmp_path: Path
) -> None:
    stranger = Author.new(author.hub, tmp_path)

    for number, name in enumerate((HIDDEN, "absent-entirely")):
        published = stranger.publish(
            f"user-of-{number}", manifest={"dependencies": [f"{name}>=0.1"]}
        )
        assert published[0]["manifest"]["dependencies"] == [f"{name}>=0.1"]


def test_a_hidden_name_is_free_for_others_on_the_shared_index(
    hub: RunningHub, tmp_path: Path
) -> None:
    first, second = Author.new(hub, tmp_path / "1"), Author.new(hub, tmp_path / "2")
    name = f"claim-{first.owner}"
    first.publish(name, visibility="private")

    second.publish(name)

    page = hub.get(f"/simple/{name}/")
    assert page.status_code == 200
    assert f"/{second.owner}/files/" in page.text
    assert first.owner not in page.text.replace(name, "")
