"""How index pages look to the machines that read them."""

import json
from datetime import datetime, timedelta, timezone
from html.parser import HTMLParser
from typing import Any

from strop_hub.index.negotiation import Form
from strop_hub.index.pages import IndexFile, render_project

TIME = datetime(2026, 3, 4, 5, 6, 7, 89, tzinfo=timezone(timedelta(hours=2)))


def a_file(version: str = "1.0", **changes: object) -> IndexFile:
    fields: dict[str, object] = {
        "filename": f"maze_env-{version}-py3-none-any.whl",
        "version": version,
        "owner": "ada",
        "sha256": "a" * 64,
        "size_bytes": 12,
        "uploaded_at": TIME,
        "metadata_sha256": "b" * 64,
    }
    return IndexFile(**(fields | changes))  # type: ignore[arg-type]


def as_json(*files: IndexFile) -> dict[str, Any]:
    page = render_project("maze-env", files, "../../owners/{owner}/files")
    document: dict[str, Any] = json.loads(page.by_form[Form.JSON_V1].body)
    return document


def anchors(*files: IndexFile) -> list[dict[str, str | None]]:
    found: list[dict[str, str | None]] = []

    class Parser(HTMLParser):
        def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
            if tag == "a":
                found.append(dict(attrs))

    page = render_project("maze-env", files, "../../files")
    Parser().feed(page.by_form[Form.HTML].body.decode())
    return found


def test_a_json_page_says_size_time_digest_and_metadata_of_each_file() -> None:
    document = as_json(a_file(requires_python=">=3.11"))

    assert document["meta"] == {"api-version": "1.4"}
    assert document["project-status"] == {"status": "active"}
    assert document["versions"] == ["1.0"]
    assert document["files"] == [
        {
            "filename": "maze_env-1.0-py3-none-any.whl",
            "url": "../../owners/ada/files/maze-env/maze_env-1.0-py3-none-any.whl",
            "hashes": {"sha256": "a" * 64},
            "size": 12,
            "upload-time": "2026-03-04T03:06:07.000089Z",
            "yanked": False,
            "core-metadata": {"sha256": "b" * 64},
            "data-dist-info-metadata": {"sha256": "b" * 64},
            "requires-python": ">=3.11",
        }
    ]


def test_versions_are_listed_once_and_in_order() -> None:
    document = as_json(a_file("1.10"), a_file("1.9"), a_file("1.9", filename="maze_env-1.9.tar.gz"))

    assert document["versions"] == ["1.9", "1.10"]


def test_a_file_without_metadata_of_its_own_does_not_promise_any() -> None:
    (entry,) = as_json(a_file(metadata_sha256=None))["files"]
    (anchor,) = anchors(a_file(metadata_sha256=None))

    assert entry["core-metadata"] is False
    assert "data-core-metadata" not in anchor


def test_html_carries_what_json_does() -> None:
    (anchor,) = anchors(a_file(requires_python="<4,>=3.11", yanked='leaky "grader" <b>'))

    assert anchor == {
        "href": f"../../files/maze-env/maze_env-1.0-py3-none-any.whl#sha256={'a' * 64}",
        "data-requires-python": "<4,>=3.11",
        "data-core-metadata": f"sha256={'b' * 64}",
        "data-dist-info-metadata": f"sha256={'b' * 64}",
        "data-yanked": 'leaky "grader" <b>',
    }


def test_a_yank_without_a_reason_is_true_and_an_empty_attribute() -> None:
    (entry,) = as_json(a_file(yanked=True))["files"]
    (anchor,) = anchors(a_file(yanked=True))

    assert entry["yanked"] is True
    assert anchor["data-yanked"] == ""


def test_the_plus_of_a_local_version_is_escaped_in_addresses_only() -> None:
    (entry,) = as_json(a_file("1.0+git.5"))["files"]

    assert entry["url"].endswith("/maze_env-1.0%2Bgit.5-py3-none-any.whl")
    assert entry["filename"] == "maze_env-1.0+git.5-py3-none-any.whl"


def test_a_reason_that_utf8_cannot_hold_still_makes_a_page() -> None:
    page = render_project("maze-env", [a_file(yanked="\ud800")], "../../files")

    assert b"\\ud800" in page.by_form[Form.JSON_V1].body


def test_the_etag_changes_with_the_bytes_and_with_the_form_only() -> None:
    one, again = (render_project("maze-env", [a_file()], "../../files") for _ in range(2))
    other = render_project("maze-env", [a_file(yanked=True)], "../../files")

    assert one.by_form[Form.JSON_V1].etag == again.by_form[Form.JSON_V1].etag
    assert one.by_form[Form.JSON_V1].etag != one.by_form[Form.HTML].etag
    assert one.by_form[Form.JSON_V1].etag != other.by_form[Form.JSON_V1].etag
