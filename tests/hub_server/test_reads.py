"""What every read allows: HEAD, pages of other sites, proxies, feed readers."""

from pathlib import Path
from xml.etree import ElementTree

import pytest
from sqlalchemy import select

from strop_hub import admin
from strop_hub.models import AuditLine
from tests.hub_server.author import API, Author, ask
from tests.hub_server.running_hub import RunningHub, run_hub


@pytest.fixture
def author(hub: RunningHub, tmp_path: Path) -> Author:
    return Author.new(hub, tmp_path)


def test_every_read_of_the_api_has_a_head(author: Author) -> None:
    author.publish("maze")
    version = f"{API}/{author.owner}/maze/versions/0.1.0"

    for path in (API, f"{API}/{author.owner}/maze", version, "/healthz", "/api/v1/changes"):
        head, get = ask(author.hub, "HEAD", path), ask(author.hub, "GET", path)
        assert (head.status_code, head.content) == (200, b""), path
        assert head.headers["content-length"] == str(len(get.content))
    assert ask(author.hub, "HEAD", f"{API}/{author.owner}/nothing").status_code == 404


def test_pages_of_other_sites_may_read_what_is_public(author: Author) -> None:
    (version,) = author.publish("maze")
    url = version["files"][0]["url"].removeprefix(author.hub.url)

    for path in (API, url, f"/owners/{author.owner}/simple/maze/"):
        response = ask(author.hub, "GET", path, origin="https://elsewhere.example")
        assert response.headers["access-control-allow-origin"] == "*", path
        preflight = ask(
            author.hub,
            "OPTIONS",
            path,
            origin="https://elsewhere.example",
            access_control_request_method="GET",
        )
        assert preflight.status_code == 204
        assert "authorization" not in preflight.headers["access-control-allow-headers"].lower()


def test_nothing_read_with_a_token_and_nothing_that_writes_is_for_other_sites(
    author: Author,
) -> None:
    author.publish("maze", visibility="private")
    origin = "https://elsewhere.example"

    private = ask(author.hub, "GET", f"{API}/{author.owner}/maze", author.token, origin=origin)
    closed = ask(author.hub, "GET", f"/auth/owners/{author.owner}/simple/", origin=origin)
    write = ask(
        author.hub,
        "OPTIONS",
        "/api/v1/resolve",
        origin=origin,
        access_control_request_method="POST",
    )

    assert private.headers["vary"] == "Authorization"
    assert private.headers["cache-control"].startswith("private")
    for response in (private, closed, write):
        assert "access-control-allow-origin" not in response.headers


def test_redirects_and_addresses_never_follow_the_host_header(author: Author) -> None:
    (version,) = author.publish("maze")
    evil = "evil.example"

    redirect = ask(author.hub, "GET", f"/owners/{author.owner}/simple/MAZE/", host=evil)
    detail = ask(author.hub, "GET", f"{API}/{author.owner}/maze", host=evil)
    slash = ask(author.hub, "GET", f"{API}/", host=evil)

    assert redirect.headers["location"].startswith("../")
    assert detail.json()["latest"]["files"] == version["files"]
    assert evil not in slash.text
    assert evil not in slash.headers.get("location", "")


@pytest.mark.parametrize(("trusted", "seen"), [("127.0.0.0/8", "203.0.113.9"), ("", "127.0.0.1")])
def test_only_a_trusted_proxy_tells_whose_address_a_request_has(
    hub_data: Path, tmp_path: Path, trusted: str, seen: str
) -> None:
    with run_hub(hub_data, trusted_proxies=trusted) as hub, hub.client() as client:
        author = Author.new(hub, tmp_path)
        client.post(
            f"{API}/{author.owner}/maze/versions/1/yank",
            json={},
            headers={"x-forwarded-for": "198.51.100.1, 203.0.113.9, 127.0.0.2"},
        )
        with admin.open_hub(hub.settings) as parts, parts.database.read() as session:
            address = session.scalar(select(AuditLine.address).where(AuditLine.action == "yank"))

    assert address == seen


def test_feed_readers_hear_what_is_new_and_public(author: Author) -> None:
    author.publish("maze", "0.1.0")
    author.publish("undisclosed", visibility="private")
    author.yank("maze", "0.1.0", "bell \x07 & <tag>")

    response = ask(author.hub, "GET", f"/-/rss.xml?owner={author.owner}")
    everything = ask(author.hub, "GET", "/-/rss.xml")

    assert response.headers["content-type"].startswith("application/rss+xml")
    titles = [item.text for item in ElementTree.fromstring(response.content).iter("title")]
    assert titles[1:] == [
        f"{author.owner}/maze 0.1.0: yanked",
        f"{author.owner}/maze 0.1.0: published",
    ]
    assert "<tag>" not in response.text
    assert "undisclosed" not in everything.text
