"""The list of all projects: the same in every form, however long, and in constant memory."""

import json
import tracemalloc
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import httpx
import pytest

from strop_hub.db import Database
from strop_hub.index.listing import render_listing
from strop_hub.index.negotiation import Form
from strop_hub.index.pages import RenderedPage
from tests.benchmarks.hub_catalog import fill
from tests.hub_server.running_hub import RunningHub, run_hub

JSON = {"accept": "application/vnd.pypi.simple.v1+json"}
MANY = 20_000
SERVED = 11_000


def content_of(page: RenderedPage) -> bytes:
    """The bytes of a page, wherever they lie."""
    content = page.body
    if page.spooled is not None:
        assert content == b""
        while piece := page.spooled.read(len(content)):
            content += piece
    assert len(content) == page.size_bytes
    return content


@pytest.mark.parametrize("count", [0, 1, 2, 999, 1000, 1001, MANY])
def test_a_listing_names_every_project_once_in_every_form(count: int) -> None:
    names = [f"maze-{number:05}" for number in range(count)]
    page = render_listing(iter(names))

    document = json.loads(content_of(page.by_form[Form.JSON_V1]))
    html = content_of(page.by_form[Form.HTML]).decode()

    assert document["meta"] == {"api-version": "1.4"}
    assert [project["name"] for project in document["projects"]] == names
    assert html.count("<a href=") == count
    assert all(f'<a href="{name}/">{name}</a>' in html for name in names[::500])
    assert page.has_entries == bool(count)
    assert (page.by_form[Form.JSON_V1].spooled is not None) == (count == MANY)


def test_the_etag_changes_with_the_names_only() -> None:
    first, again, other = (render_listing(names) for names in (["a", "b"], ["a", "b"], ["a"]))

    for form in Form:
        assert first.by_form[form].etag == again.by_form[form].etag
        assert first.by_form[form].etag != other.by_form[form].etag
    assert first.by_form[Form.JSON_V1].etag != first.by_form[Form.HTML].etag


def test_a_long_listing_takes_no_memory() -> None:
    def names() -> Iterator[str]:
        return (f"a-rather-long-name-of-an-environment-{number}" for number in range(5 * MANY))

    tracemalloc.start()
    page = render_listing(names())
    _, peak_bytes = tracemalloc.get_traced_memory()
    tracemalloc.stop()

    assert page.by_form[Form.HTML].size_bytes > 8_000_000
    assert peak_bytes < 3_000_000


@pytest.fixture
def large(hub_data: Path) -> Iterator[RunningHub]:
    with run_hub(hub_data) as hub:
        database = Database.open(hub.settings.database)
        fill(database, SERVED, SERVED)
        database.close()
        yield hub


@pytest.mark.embedded
def test_a_long_listing_is_streamed_to_many_at_once_with_etag_head_and_304(
    large: RunningHub,
) -> None:
    url = f"{large.url}/simple/"
    # A hub learns of what another process wrote within a second; this one was just started.
    with httpx.Client(timeout=60) as client:
        client.get(url)

    def fetch(_: int) -> tuple[int, str, bytes]:
        response = httpx.get(url, headers=JSON, timeout=60)
        return response.status_code, response.headers["etag"], response.content

    with ThreadPoolExecutor(8) as pool:
        answers = list(pool.map(fetch, range(8)))
    _, etag, content = answers[0]
    head = httpx.head(url, headers=JSON)
    same = httpx.get(url, headers=JSON | {"if-none-match": etag})

    assert set(answers) == {(200, etag, content)}
    assert len(json.loads(content)["projects"]) == SERVED
    assert head.headers["content-length"] == str(len(content))
    assert (head.content, head.headers["etag"]) == (b"", etag)
    assert (same.status_code, same.content, same.headers["etag"]) == (304, b"", etag)
