"""The catalog as a browser without scripts sees it."""

import re
import uuid
from html.parser import HTMLParser
from pathlib import Path

import httpx
import pytest

from strop_hub.app import create_app
from tests.hub_server import backends
from tests.hub_server.author import Author, ask
from tests.hub_server.running_hub import RunningHub, run_hub

BROWSER = "text/html,application/xhtml+xml,*/*;q=0.8"
VOID = {"meta", "link", "img", "input", "br", "hr", "path", "rect"}


@pytest.fixture
def author(hub: RunningHub, tmp_path: Path) -> Author:
    return Author.new(hub, tmp_path)


class Page(HTMLParser):
    """A page: its text, links, ids and headings; unbalanced markup is a fault."""

    def __init__(self, response: httpx.Response) -> None:
        super().__init__()
        self.text, self.links, self.ids = "", list[str](), list[str]()
        self.levels, self.labels, self.fields = list[int](), list[str](), list[str]()
        self._open = list[str]()
        assert response.headers["content-type"] == "text/html; charset=utf-8"
        self.feed(response.text)
        assert self._open == []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        given = dict(attrs)
        assert not [name for name in given if name.startswith("on")], self.get_starttag_text()
        assert tag not in ("script", "style", "iframe", "object")
        if tag not in VOID:
            self._open.append(tag)
        if tag == "a":
            self.links.append(given.get("href") or "")
        if re.fullmatch("h[1-6]", tag):
            self.levels.append(int(tag[1]))
        self.ids += [given["id"] or ""] if "id" in given else []
        self.labels += [given["for"] or ""] if tag == "label" else []
        self.fields += [given["id"] or ""] if given.get("type") == "search" else []

    def handle_endtag(self, tag: str) -> None:
        assert self._open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.text += data


def visit(hub: RunningHub, path: str, status: int = 200, token: str | None = None) -> Page:
    response = ask(hub, "GET", path, token, accept=BROWSER)
    assert response.status_code == status, response.text
    policy = response.headers["content-security-policy"]
    assert policy.startswith("default-src 'none'")
    assert "unsafe" not in policy
    page = Page(response)
    assert page.levels[0] == 1
    assert page.levels.count(1) == 1
    assert len(set(page.ids)) == len(page.ids)
    assert page.fields == page.labels
    return page


def test_an_empty_hub_tells_how_to_push_the_first_environment(hub_data: Path) -> None:
    with run_hub(hub_data) as hub:
        page = visit(hub, "/")

        assert "strop env init my-env" in page.text
        assert f"strop login {hub.url}" in page.text


def test_the_list_leads_to_each_environment(author: Author) -> None:
    author.publish("maze", "1.0", manifest={"summary": "Walls & <doors>."})

    page = visit(author.hub, f"/?owner={author.owner}")

    assert f"/{author.owner}/maze" in page.links
    assert "Walls & <doors>." in page.text
    assert "1.0" in page.text


def test_search_and_filters_keep_each_other(author: Author) -> None:
    author.publish("maze", manifest={"tags": ["grid"], "category": "logic"})
    author.publish("sums", manifest={"tags": ["grid"], "category": "math"})

    page = visit(author.hub, f"/?owner={author.owner}&q=grid&category=math")

    assert f"/{author.owner}/sums" in page.links
    assert f"/{author.owner}/maze" not in page.links
    assert f"/?q=grid&owner={author.owner}&category=logic" in page.links
    assert f"/?q=grid&owner={author.owner}" in page.links


def test_the_list_tells_how_many_there_are_for_whoever_asks(author: Author) -> None:
    author.publish("maze")
    author.publish("sums", visibility="private")
    path = f"/?owner={author.owner}"

    assert "1 environment\n" in visit(author.hub, path).text
    assert "2 environments\n" in visit(author.hub, path, token=author.token).text


def test_nothing_found_leads_back_to_everything(hub: RunningHub) -> None:
    page = visit(hub, f"/?q={uuid.uuid4().hex}")

    assert "Nothing here matches" in page.text
    assert "/" in page.links


def test_a_long_list_has_pages(author: Author) -> None:
    for number in range(26):
        author.publish(f"env-{number}")

    first = visit(author.hub, f"/?owner={author.owner}")
    (following,) = [link for link in first.links if "cursor=" in link]
    second = visit(author.hub, following)

    shown = {
        link
        for page in (first, second)
        for link in page.links
        if link.startswith(f"/{author.owner}/")
    }
    assert len(shown) == 26
    assert "First page" in second.text


def test_an_environment_shows_how_to_install_it_and_what_it_needs(author: Author) -> None:
    fields = {
        "secrets": ["JUDGE_KEY"],
        "requires-python": ">=3.11",
        "reward-range": [-1, 2.5],
        "dependencies": ["numpy>=2"],
    }
    (version,) = author.publish("maze", "1.0", manifest=fields, readme="# Walls\n\nand *doors*")
    reference = f"{author.owner}/maze@1.0"

    page = visit(author.hub, f"/{author.owner}/maze")

    assert f"strop env install {reference}" in page.text
    assert f'load("{reference}")' in page.text
    assert f"--index-url {author.hub.url}/owners/{author.owner}/simple/" in page.text
    for shown in ("JUDGE_KEY", ">=3.11", "-1 to 2.5", "numpy>=2", "and doors", "size", "integer"):
        assert shown in page.text
    assert version["digest"] in page.text
    for file in version["files"]:
        assert file["url"] in page.links


def test_each_version_has_a_page_that_leads_to_the_latest(author: Author) -> None:
    author.publish("maze", "1.0", readme="Old walls")
    author.publish("maze", "1.1+git.5", readme="New walls")

    old = visit(author.hub, f"/{author.owner}/maze/1.0")
    latest = visit(author.hub, f"/{author.owner}/maze/1.1%2Bgit.5")

    assert "Old walls" in old.text
    assert "The latest version is 1.1+git.5" in re.sub(r"\s+", " ", old.text)
    assert "New walls" in latest.text
    assert "The latest version is" not in latest.text
    assert f"/{author.owner}/maze/1.1%2Bgit.5" in old.links


def test_a_yanked_version_is_marked_with_its_reason(author: Author) -> None:
    author.publish("maze", "1.0", "1.1")
    author.yank("maze", "1.1", "leaky <grader>")

    latest = visit(author.hub, f"/{author.owner}/maze")
    yanked = visit(author.hub, f"/{author.owner}/maze/1.1")

    assert "strop env install " + f"{author.owner}/maze@1.0" in latest.text
    assert "leaky <grader>" in latest.text
    assert "1.1 is yanked" in yanked.text


def test_an_environment_of_which_all_is_yanked_has_a_page(author: Author) -> None:
    author.publish("maze", "1.0")
    author.yank("maze", "1.0")

    assert "1.0 is yanked" in visit(author.hub, f"/{author.owner}/maze").text


def test_what_is_uploaded_never_becomes_markup_of_the_page(author: Author) -> None:
    evil = '"><script>alert(1)</script><img src=x onerror=alert(1)>'
    fields = {
        "summary": evil,
        "license": evil,
        "authors": [evil],
        "urls": {evil: "https://example.org/" + evil, "bad": "https://a/'onclick='x"},
    }
    author.publish("maze", manifest=fields, readme=f"# {evil}\n\n[x](javascript:alert(1))")

    for path in (
        f"/{author.owner}/maze",
        f"/?owner={author.owner}",
        f"/?q={evil}",
        f"/?tag={evil}",
    ):
        response = ask(author.hub, "GET", path, accept=BROWSER)
        assert "<script" not in response.text
        assert "<img src=x" not in response.text
        assert "javascript:" not in response.text
        visit(author.hub, path)


def test_a_readme_cannot_take_the_place_of_parts_of_the_page(author: Author) -> None:
    author.publish("maze", readme="# Install\n\n<p id='main' class='notice warn'>Log in</p>")

    page = visit(author.hub, f"/{author.owner}/maze")

    assert page.ids.count("main") == 1
    assert "user-content-main" in page.ids


def test_hidden_and_absent_environments_have_the_same_page(author: Author) -> None:
    author.publish("veiled", visibility="private")

    for tail in ("", "/0.1.0"):
        hidden = ask(author.hub, "GET", f"/{author.owner}/veiled{tail}", accept=BROWSER)
        absent = ask(author.hub, "GET", f"/{author.owner}/absent{tail}", accept=BROWSER)
        assert hidden.text.replace("veiled", "absent") == absent.text
        visit(author.hub, f"/{author.owner}/veiled{tail}", status=404)


def test_a_page_that_is_missing_names_what_was_asked_and_what_is_near(author: Author) -> None:
    author.publish("maze-env")

    response = ask(author.hub, "GET", f"/{author.owner}/maze-enf", accept=BROWSER)

    assert f"<code>{author.owner}/maze-enf</code>" in response.text
    assert f"<code>{author.owner}/maze-env</code>" in response.text


def test_a_reader_sees_a_private_environment_without_the_public_way_to_install(
    author: Author,
) -> None:
    author.publish("hidden", visibility="private")

    page = visit(author.hub, f"/{author.owner}/hidden", token=author.reader())

    assert "private" in page.text
    assert "--index-url" not in page.text


def test_pages_for_one_caller_are_not_kept_for_another(author: Author) -> None:
    response = ask(author.hub, "GET", "/", accept=BROWSER)

    assert response.headers["vary"] == "Authorization"
    assert response.headers["cache-control"] == "private, no-cache"


def test_the_pages_own_files_are_kept_and_change_their_name_with_their_bytes(
    hub: RunningHub,
) -> None:
    markup = ask(hub, "GET", "/", accept=BROWSER).text
    paths = set(re.findall(r'"(/-/static/[^"]+)"', markup))

    assert len(paths) == 2
    for path in paths:
        response = ask(hub, "GET", path)
        assert response.status_code == 200
        assert "immutable" in response.headers["cache-control"]
        assert re.search(r"\.[0-9a-f]{12}\.", path)
    assert ask(hub, "GET", "/-/static/..%2Frender.py").status_code == 404


def test_an_owner_leads_to_the_list_of_what_it_published(author: Author) -> None:
    response = ask(author.hub, "GET", f"/{author.owner}", accept=BROWSER)

    assert response.status_code == 303
    assert response.headers["location"] == f"/?owner={author.owner}"
    visit(author.hub, "/robots.txt", status=404)


def test_the_catalog_leaves_other_addresses_their_own_answers(hub: RunningHub) -> None:
    assert ask(hub, "GET", "/api/v1/resolve").status_code == 405
    assert ask(hub, "GET", "/healthz").json()["status"] == "ok"
    assert ask(hub, "GET", "/api/v1/nowhere").status_code == 404


async def test_links_hold_behind_a_path_prefix(hub_data: Path, tmp_path: Path) -> None:
    with run_hub(hub_data) as hub:
        author = Author.new(hub, tmp_path)
        author.publish("maze")
    app = create_app(backends.settings_of(hub_data, public_url="https://example.org/hub/"))
    transport = httpx.ASGITransport(app)
    async with httpx.AsyncClient(transport=transport, base_url="http://inside") as client:
        page = Page(await client.get("/"))
        shown = (await client.get(f"/api/v1/environments/{author.owner}/maze")).json()
    app.state.hub.close()

    assert f"/hub/{author.owner}/maze" in page.links
    assert all(link.startswith("/hub/") or link == "#main" for link in page.links)
    assert shown["latest"]["files"][0]["url"].startswith("https://example.org/hub/api/v1/")


def test_head_answers_like_get(author: Author) -> None:
    author.publish("maze")

    for path in ("/", f"/{author.owner}/maze", f"/{author.owner}/maze/0.1.0"):
        response = ask(author.hub, "HEAD", path)
        assert (response.status_code, response.content) == (200, b"")
