"""A download is whole and right, or it is not there."""

import hashlib
import os
from datetime import UTC, datetime
from pathlib import Path

import pytest

from strop.errors import DigestMismatchError, HubRefusedError, HubUnreachableError, NotAHubError
from strop.hub.client import HubClient
from strop.hub.wire import FileKind, PublishedFile
from tests.sdk.loopback import HUB, Request, Server, reply, serve

CONTENT = bytes(range(256)) * 4000
PATH = "/api/v1/environments/ada/maze/versions/0.1.0/files/maze.whl"


def a_file(url: str = f"http://hub.example{PATH}", content: bytes = CONTENT) -> PublishedFile:
    return PublishedFile(
        filename="maze.whl",
        kind=FileKind.WHEEL,
        sha256=hashlib.sha256(content).hexdigest(),
        size_bytes=len(content),
        url=url,
        uploaded_at=datetime.now(UTC),
    )


def fetch(server: Server, target: Path, file: PublishedFile | None = None) -> list[int]:
    seen: list[int] = []
    with HubClient(server.url, "strop_token", timeout_s=60, attempt_count=2) as client:
        client.download(file or a_file(), target, lambda gone, total: seen.append(gone))
    return seen


def range_of(request: Request) -> int:
    return int(request.headers.get("range", "bytes=0-")[6:-1])


def serve_range(request: Request, cut: int | None = None) -> bytes:
    start = range_of(request)
    rest = CONTENT[start:]
    headers = HUB | {"content-range": f"bytes {start}-{len(CONTENT) - 1}/{len(CONTENT)}"}
    return reply(206 if start else 200, rest[:cut], headers, length=len(rest))


def test_a_download_arrives_whole_and_tells_how_far_it_is(tmp_path: Path) -> None:
    with serve(serve_range) as server:
        seen = fetch(server, tmp_path / "new" / "maze.whl")

    assert (tmp_path / "new" / "maze.whl").read_bytes() == CONTENT
    assert seen == sorted(seen)
    assert seen[-1] == len(CONTENT)


def test_a_file_is_fetched_from_the_hub_that_was_asked_whatever_it_calls_itself(
    tmp_path: Path,
) -> None:
    with serve(serve_range) as server:
        fetch(server, tmp_path / "maze.whl")

        assert server.requests[0].path == PATH
        assert server.requests[0].headers["authorization"] == "Bearer strop_token"


def test_a_cut_download_goes_on_where_it_stopped(tmp_path: Path) -> None:
    with serve(lambda request: serve_range(request, cut=200_000)) as server:
        fetch(server, tmp_path / "maze.whl")

        starts = [range_of(request) for request in server.requests]
        assert starts == sorted(set(starts))
        assert len(starts) > 2
        assert server.requests[1].headers["if-range"] == f'"{a_file().sha256}"'
    assert (tmp_path / "maze.whl").read_bytes() == CONTENT


def test_a_server_that_ignores_the_range_starts_again(tmp_path: Path) -> None:
    def answer(request: Request) -> bytes:
        cut = None if "range" in request.headers else 1000
        return reply(200, CONTENT[:cut], length=len(CONTENT))

    with serve(answer) as server:
        fetch(server, tmp_path / "maze.whl")
    assert (tmp_path / "maze.whl").read_bytes() == CONTENT


def test_a_connection_that_brings_nothing_any_more_is_given_up(tmp_path: Path) -> None:
    def answer(request: Request) -> bytes | None:
        return None if "range" in request.headers else serve_range(request, cut=1000)

    with serve(answer) as server, pytest.raises(HubUnreachableError):
        fetch(server, tmp_path / "maze.whl")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("sent", "said"),
    [
        (b"X" + CONTENT[1:], "came with sha256"),
        (CONTENT + b"more", f"more than {len(CONTENT)}"),
    ],
)
def test_altered_bytes_leave_nothing(sent: bytes, said: str, tmp_path: Path) -> None:
    with (
        serve(lambda request: reply(200, sent)) as server,
        pytest.raises(DigestMismatchError, match=said),
    ):
        fetch(server, tmp_path / "maze.whl")
    assert list(tmp_path.iterdir()) == []


def test_an_answer_that_ends_early_as_if_it_were_whole_leaves_nothing(tmp_path: Path) -> None:
    def answer(request: Request) -> bytes:
        return reply(200, CONTENT[:500])

    with serve(answer) as server, pytest.raises(HubUnreachableError, match="after 500 of"):
        fetch(server, tmp_path / "maze.whl")
    assert list(tmp_path.iterdir()) == []


def test_another_range_than_was_asked_for_is_refused(tmp_path: Path) -> None:
    def answer(request: Request) -> bytes:
        if "range" not in request.headers:
            return serve_range(request, cut=1000)
        return reply(206, CONTENT[5:], HUB | {"content-range": f"bytes 5-9/{len(CONTENT)}"})

    with serve(answer) as server, pytest.raises(NotAHubError, match="another range"):
        fetch(server, tmp_path / "maze.whl")
    assert list(tmp_path.iterdir()) == []


def test_what_was_at_the_target_stays_when_the_download_fails(tmp_path: Path) -> None:
    (tmp_path / "maze.whl").write_text("earlier")
    with (
        serve(lambda request: reply(200, CONTENT[::-1])) as server,
        pytest.raises(DigestMismatchError),
    ):
        fetch(server, tmp_path / "maze.whl")
    assert (tmp_path / "maze.whl").read_text() == "earlier"


def test_a_refusal_is_no_download(tmp_path: Path) -> None:
    problem = {"title": "Gone", "status": 404, "detail": "Not here.", "code": "not_found"}
    with (
        serve(lambda request: reply(404, problem)) as server,
        pytest.raises(HubRefusedError, match="Not here"),
    ):
        fetch(server, tmp_path / "maze.whl")
    assert list(tmp_path.iterdir()) == []


def test_a_redirect_to_a_store_is_followed_without_the_token(tmp_path: Path) -> None:
    with serve(lambda request: reply(200, CONTENT, {})) as store:
        away = reply(302, headers=HUB | {"location": f"{store.url}/blob?signature=abc"})
        with serve(lambda request: away) as server:
            fetch(server, tmp_path / "maze.whl")
        assert "authorization" not in store.requests[0].headers
    assert (tmp_path / "maze.whl").read_bytes() == CONTENT


def test_a_file_elsewhere_is_fetched_without_the_token(tmp_path: Path) -> None:
    with serve(lambda request: reply(200, CONTENT, {})) as store, serve(serve_range) as server:
        fetch(server, tmp_path / "maze.whl", a_file(f"{store.url}/mirror/maze.whl"))

        assert server.requests == []
        assert "authorization" not in store.requests[0].headers


def test_parts_that_a_killed_download_left_are_swept_in_time(tmp_path: Path) -> None:
    old, fresh = tmp_path / ".maze.whl.a.part", tmp_path / ".maze.whl.b.part"
    for part in (old, fresh):
        part.write_bytes(b"half")
    os.utime(old, (0, 0))
    with serve(serve_range) as server:
        fetch(server, tmp_path / "maze.whl")

    assert not old.exists()
    assert fresh.exists()
