"""The open index over HTTP: pages, their forms and freshness, and files."""

from pathlib import Path
from typing import Any

import httpx
import pytest

from strop_hub.index.cache import CHECK_INTERVAL_S
from tests.hub_server.author import Author, ask
from tests.hub_server.checking import lose_blob
from tests.hub_server.running_hub import RunningHub, run_hub
from tests.waiting import wait_until

JSON = "application/vnd.pypi.simple.v1+json"


def document(hub: RunningHub, path: str) -> dict[str, Any]:
    response = ask(hub, "GET", path, accept=JSON)
    assert response.status_code == 200, response.text
    assert response.headers["content-type"] == JSON
    found: dict[str, Any] = response.json()
    return found


def names_on(hub: RunningHub, path: str) -> list[str]:
    return [project["name"] for project in document(hub, path)["projects"]]


def test_a_page_lists_wheels_and_never_source_archives(author: Author, name: str) -> None:
    author.publish(name, "0.1", "0.2", manifest={"requires-python": ">=3.11"})

    page = document(author.hub, f"/owners/{author.owner}/simple/{name}/")

    assert page["versions"] == ["0.1", "0.2"]
    assert [file["filename"].endswith(".whl") for file in page["files"]] == [True, True]
    assert page["files"][0]["requires-python"] == ">=3.11"


@pytest.mark.parametrize("door", ["/simple/", "/owners/{owner}/simple/"])
def test_the_relative_addresses_of_a_page_lead_to_file_and_metadata(
    author: Author, name: str, door: str
) -> None:
    author.publish(name, "0.1+git.1")
    path = f"{door.format(owner=author.owner)}{name}/"

    (file,) = document(author.hub, path)["files"]
    url = httpx.URL(author.hub.url + path).join(file["url"])
    wheel = httpx.get(url)
    metadata = httpx.get(f"{url}.metadata")

    assert "%2B" in file["url"]
    assert wheel.headers["etag"] == f'"{file["hashes"]["sha256"]}"'
    assert len(wheel.content) == file["size"]
    assert metadata.headers["etag"] == f'"{file["core-metadata"]["sha256"]}"'
    assert metadata.text.startswith("Metadata-Version: 2.1\n")


def test_the_shared_index_has_one_owner_for_each_name(
    author: Author, name: str, tmp_path: Path
) -> None:
    other = Author.new(author.hub, tmp_path / "other")
    author.publish(name, "0.1")
    other.publish(name, "9.9")

    page = document(author.hub, f"/simple/{name}/")

    assert page["versions"] == ["0.1"]
    assert names_on(author.hub, "/simple/").count(name) == 1
    assert document(author.hub, f"/owners/{other.owner}/simple/{name}/")["versions"] == ["9.9"]


def test_hidden_and_absent_are_the_same_404_whoever_asks(author: Author, name: str) -> None:
    author.publish(name, visibility="private")
    owner = author.owner
    wheel = f"{name.replace('-', '_')}-0.1.0-py3-none-any.whl"
    pairs = [
        (f"/simple/{name}/", f"/simple/{name}x/"),
        (f"/owners/{owner}/simple/{name}/", f"/owners/{owner}/simple/{name}x/"),
        (f"/owners/{owner}/simple/", f"/owners/{owner}x/simple/"),
        (f"/owners/{owner}/files/{name}/{wheel}", f"/owners/{owner}/files/{name}/x{wheel}"),
        (f"/owners/{owner}/files/{name}/{wheel}.metadata", f"/owners/{owner}/files/x/x.metadata"),
    ]

    for hidden, absent in pairs:
        for token in (None, author.reader()):
            ours, theirs = (ask(author.hub, "GET", path, token) for path in (hidden, absent))
            assert (ours.status_code, ours.content) == (404, theirs.content)
            assert theirs.status_code == 404
    assert name not in names_on(author.hub, "/simple/")


@pytest.mark.parametrize("spelling", ["{upper}/", "{under}/", "{plain}", "{upper}"])
def test_other_spellings_lead_to_the_normal_address(
    author: Author, name: str, spelling: str
) -> None:
    author.publish(name)
    asked = spelling.format(upper=name.upper(), under=name.replace("-", "__"), plain=name)

    for door in ("/simple/", f"/owners/{author.owner.upper()}/simple/"):
        response = ask(author.hub, "GET", door + asked)
        location = httpx.URL(author.hub.url + door + asked).join(response.headers["location"])

        assert response.status_code == 301
        assert not response.headers["location"].startswith(("/", "http"))
        assert location.path == f"{door.lower()}{name}/"


def test_the_lists_redirect_to_their_slash(hub: RunningHub) -> None:
    for path in ("/simple", "/owners/ada/simple"):
        response = ask(hub, "GET", path)
        assert response.status_code == 301
        assert httpx.URL(hub.url + path).join(response.headers["location"]).path == f"{path}/"


@pytest.mark.parametrize(
    "path", ["/simple/-x/", "/simple/a/b/", "/simple/%C3%A9/", "/owners/-/simple/"]
)
def test_names_that_nothing_can_have_are_not_found(hub: RunningHub, path: str) -> None:
    assert ask(hub, "GET", path).status_code == 404


def test_the_form_follows_the_client_and_caches_are_told_so(author: Author, name: str) -> None:
    author.publish(name)
    path = f"/simple/{name}/"

    html = ask(author.hub, "GET", path, accept="text/html")
    v1_html = ask(author.hub, "GET", path, accept="application/vnd.pypi.simple.v1+html")
    by_query = ask(author.hub, "GET", f"{path}?format={JSON}", accept="text/html")
    refused = ask(author.hub, "GET", path, accept="application/json")

    assert html.headers["content-type"] == "text/html; charset=utf-8"
    assert html.text.startswith("<!DOCTYPE html>")
    assert v1_html.headers["content-type"].startswith("application/vnd.pypi.simple.v1+html")
    assert by_query.headers["content-type"] == JSON
    assert refused.status_code == 406
    assert JSON in refused.text
    for response in (html, v1_html, by_query, refused):
        assert response.headers["vary"] == "Accept"


def test_a_page_that_the_client_has_is_304_until_it_changes(author: Author, name: str) -> None:
    author.publish(name, "0.1")
    path = f"/owners/{author.owner}/simple/{name}/"
    first = ask(author.hub, "GET", path, accept=JSON)

    same = ask(author.hub, "GET", path, accept=JSON, if_none_match=first.headers["etag"])
    author.publish(name, "0.2")
    changed = ask(author.hub, "GET", path, accept=JSON, if_none_match=first.headers["etag"])

    assert (same.status_code, same.content) == (304, b"")
    assert same.headers["vary"] == "Accept"
    assert same.headers["cache-control"] == first.headers["cache-control"]
    assert changed.status_code == 200
    assert changed.json()["versions"] == ["0.1", "0.2"]


def test_head_is_get_without_the_body(author: Author, name: str) -> None:
    author.publish(name)

    got = ask(author.hub, "GET", f"/simple/{name}/")
    head = ask(author.hub, "HEAD", f"/simple/{name}/")

    assert (head.status_code, head.content) == (200, b"")
    for header in ("content-length", "content-type", "etag", "vary"):
        assert head.headers[header] == got.headers[header]


@pytest.mark.parametrize("method", ["POST", "PUT", "DELETE", "PATCH"])
def test_nothing_can_be_changed_through_the_index(hub: RunningHub, method: str) -> None:
    for path in ("/simple/", "/owners/ada/files/maze/maze-1-py3-none-any.whl"):
        response = ask(hub, method, path)
        assert response.status_code == 405
        assert response.headers["allow"] == "GET, HEAD"


def test_a_yank_shows_at_once_and_goes_when_it_is_taken_back(author: Author, name: str) -> None:
    author.publish(name)
    path = f"/simple/{name}/"
    assert document(author.hub, path)["files"][0]["yanked"] is False

    author.yank(name, "0.1.0", 'leaky "grader"')
    assert document(author.hub, path)["files"][0]["yanked"] == 'leaky "grader"'
    with author.hub.client(author.token) as client:
        client.delete(f"/api/v1/environments/{author.owner}/{name}/versions/0.1.0/yank")
    assert document(author.hub, path)["files"][0]["yanked"] is False


def test_a_yanked_file_stays_downloadable(author: Author, name: str) -> None:
    author.publish(name)
    author.yank(name, "0.1.0")
    path = f"/simple/{name}/"

    (file,) = document(author.hub, path)["files"]

    assert file["yanked"] is True
    assert httpx.get(httpx.URL(author.hub.url + path).join(file["url"])).status_code == 200


def test_what_another_process_publishes_shows_within_a_second(
    hub_data: Path, tmp_path: Path
) -> None:
    with run_hub(hub_data) as one, run_hub(hub_data) as two:
        author = Author.new(one, tmp_path)
        author.publish("maze", "0.1")
        assert document(two, "/simple/maze/")["versions"] == ["0.1"]
        author.publish("maze", "0.2")
        wait_until(lambda: document(two, "/simple/maze/")["versions"] == ["0.1", "0.2"])
    # How often it looks; a busy machine may add to that.
    assert CHECK_INTERVAL_S < 1.0


def test_the_first_environment_of_a_hub_shows_although_the_empty_list_was_read(
    hub_data: Path, tmp_path: Path
) -> None:
    with run_hub(hub_data) as hub:
        assert names_on(hub, "/simple/") == []
        Author.new(hub, tmp_path).publish("maze")
        assert names_on(hub, "/simple/") == ["maze"]


def test_ranges_of_files_are_served(author: Author, name: str) -> None:
    author.publish(name)
    path = f"/simple/{name}/"
    (file,) = document(author.hub, path)["files"]
    url = httpx.URL(author.hub.url + path).join(file["url"]).path

    tail = ask(author.hub, "GET", url, range="bytes=-10")
    head = ask(author.hub, "HEAD", url)

    assert tail.status_code == 206
    assert len(tail.content) == 10
    assert head.headers["accept-ranges"] == "bytes"
    assert head.headers["content-length"] == str(file["size"])


def test_a_file_whose_bytes_are_gone_is_503_and_the_page_stays(author: Author, name: str) -> None:
    (version,) = author.publish(name)
    path = f"/simple/{name}/"
    (file,) = document(author.hub, path)["files"]
    lose_blob(author.hub.settings, version["digest"])

    response = httpx.get(httpx.URL(author.hub.url + path).join(file["url"]))

    assert response.status_code == 503
    assert document(author.hub, path)["files"] == [file]


def test_every_answer_of_the_index_says_that_it_is_a_hub(hub: RunningHub) -> None:
    for path in ("/simple/", "/simple/nowhere/", "/simple"):
        response = ask(hub, "GET", path)
        assert response.headers["strop-hub"]
        assert response.headers["x-request-id"]
