"""Text that one database keeps and the other does not is refused alike, wherever it stands."""

from typing import Any

import pytest

from tests.hub_server.author import Author
from tests.hub_server.running_hub import RunningHub

PATHS = (
    "/%00",
    "/ada/%00",
    "/simple/%00/",
    "/owners/%00/simple/",
    "/owners/%00/files/maze/maze.whl",
    "/auth/owners/ada/files/maze/%00",
    "/api/v1/environments/ada/maze%00",
    "/api/v1/environments/ada/maze/tags/%00",
)
QUERIES = (
    "/?q=%00",
    "/simple/?format=%00",
    "/api/v1/environments?q=%00",
    "/api/v1/environments?owner=ada%00",
    "/api/v1/environments?cursor=%00",
)
BODIES: tuple[tuple[str, str, dict[str, Any]], ...] = (
    ("PUT", "/tags/stable", {"version": "0.1.0\0"}),
    ("POST", "/status", {"status": "active\0"}),
    ("POST", "/versions/0.1.0\ud800/yank", {"reason": "x"}),
)


@pytest.fixture
def author(hub: RunningHub, tmp_path: Any) -> Author:
    return Author.new(hub, tmp_path)


@pytest.mark.parametrize("path", PATHS)
def test_no_address_has_a_nul(author: Author, path: str) -> None:
    response = author.hub.get(path, author.token)

    assert (response.status_code, response.json()["code"]) == (404, "not_found")


@pytest.mark.parametrize("path", QUERIES)
def test_a_parameter_with_a_nul_is_refused(author: Author, path: str) -> None:
    response = author.hub.get(path, author.token)

    assert (response.status_code, response.json()["code"]) == (422, "invalid_request")


def test_a_body_with_a_nul_is_refused_or_means_nothing(author: Author) -> None:
    author.publish("maze")
    with author.hub.client(author.token) as client:
        for method, path, body in BODIES:
            room = f"/api/v1/environments/{author.owner}/maze"
            response = client.request(method, room + path.replace("\ud800", "%00"), json=body)
            assert response.status_code in (404, 405, 422), (path, response.text)


@pytest.mark.parametrize(
    ("text", "status", "kept"), [("a\\u0000b", 200, "a\ufffdb"), ("\\ud800", 422, None)]
)
def test_a_reason_is_kept_without_what_no_database_keeps(
    author: Author, text: str, status: int, kept: str | None
) -> None:
    author.publish("maze")
    path = f"/api/v1/environments/{author.owner}/maze/versions/0.1.0/yank"
    with author.hub.client(author.token) as client:
        headers = {"content-type": "application/json"}
        response = client.post(path, content=f'{{"reason": "{text}"}}', headers=headers)

    assert (response.status_code, response.json().get("yank_reason")) == (status, kept)
