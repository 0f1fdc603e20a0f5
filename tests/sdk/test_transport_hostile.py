"""A client holds against whatever answers: odd redirects, floods, drips, lies and half bodies."""

import gzip
import hashlib
import json
import socket
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from strop.errors import (
    ConfigError,
    DigestMismatchError,
    HubError,
    HubRefusedError,
    HubUnreachableError,
    NotAHubError,
)
from strop.hub import transport
from strop.hub.client import HubClient
from strop.hub.wire import Problem
from tests.sdk.loopback import HUB, Request, reply, serve
from tests.sdk.test_download import CONTENT, PATH, a_file

WHOAMI = {
    "user": "ada",
    "is_admin": False,
    "owners": ["ada"],
    "scopes": ["read"],
    "limited_to": None,
    "expires_at": None,
}


def answered(content: bytes, *, attempt_count: int = 1, token: str | None = "strop_x") -> Any:
    """What `whoami` makes of these bytes."""
    with (
        serve(lambda request: content) as server,
        HubClient(server.url, token, timeout_s=60, attempt_count=attempt_count) as client,
    ):
        return client.whoami()


def downloaded(content: bytes, target: Path, url: str = f"http://hub.example{PATH}") -> None:
    with (
        serve(lambda request: content) as server,
        HubClient(server.url, "strop_x", timeout_s=60, attempt_count=1) as client,
    ):
        client.download(a_file(url), target)


LOCATIONS = [
    "http://[::1",
    "http://h:99999/",
    "http://h:port/",
    "//",
    "",
    "javascript:alert(1)",
    "ftp://hub.example/",
    "file:///etc/passwd",
    "http://two words/",
    "http://\xff/",
    "http://",
    "///",
    "?",
    "#",
    "\\\\evil\\share",
    "http://ada:pw@127.0.0.1:1/",
    "h" * 9000,
]


@pytest.mark.parametrize("location", LOCATIONS, ids=range(len(LOCATIONS)))
def test_a_redirect_to_nowhere_is_named_and_leaves_nothing(location: str, tmp_path: Path) -> None:
    content = (
        b"HTTP/1.1 302 Found\r\nconnection: close\r\ncontent-length: 0\r\nstrop-hub: 1\r\n"
        b"location: " + location.encode("latin-1") + b"\r\n\r\n"
    )

    with pytest.raises(HubError) as caught:
        answered(content)
    assert len(str(caught.value)) > 40
    with pytest.raises(HubError):
        downloaded(content, tmp_path / "maze.whl")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    "url",
    [
        "http://[::1",
        "http://h:99999/",
        "http://\u2100/",
        "http://ü..example/",
        "http://\U0001f600.invalid/",
        "file:///etc/passwd",
        "",
        "x",
        "javascript:alert(1)",
        "http://",
    ],
)
def test_a_file_at_an_address_that_is_none_is_refused_by_name(url: str, tmp_path: Path) -> None:
    with pytest.raises((NotAHubError, HubUnreachableError)):
        downloaded(b"", tmp_path / "maze.whl", url)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    "url", ["http://ü..example", "http://\U0001f600.invalid", "http://" + "ü" * 100]
)
def test_a_host_that_no_name_can_have_is_no_hub(url: str) -> None:
    with HubClient(url, "strop_x", attempt_count=1) as client, pytest.raises(HubError):
        client.whoami()


@pytest.mark.parametrize("url", ["hub.example", "http://[::1", "ftp://hub.example", "http://a b"])
def test_an_address_that_is_none_is_refused_before_anything_is_sent(url: str) -> None:
    with pytest.raises(ConfigError):
        HubClient(url)


@pytest.mark.parametrize(
    "value", ["²", "-1", "soon", "", "1e9", "0x1", "Wed, 21 Oct 2015 07:28:00 GMT", "٣"]
)
def test_an_odd_wish_to_wait_is_no_wish(value: str) -> None:
    head = b"HTTP/1.1 503 Busy\r\nconnection: close\r\ncontent-length: 0\r\nstrop-hub: 1\r\n"
    content = head + b"retry-after: " + value.encode("utf-8") + b"\r\n\r\n"
    started_at = time.monotonic()

    with pytest.raises(HubRefusedError):
        answered(content, attempt_count=2)

    # A wish that was taken for one would be waited for as long as is ever waited: 20 s.
    assert time.monotonic() - started_at < 18


@pytest.mark.parametrize(
    ("status", "body"),
    [
        (400, b""),
        (400, b"[" * 200_000),
        (400, b"\xff\xfe"),
        (400, b"null"),
        (400, b'{"title": 1}'),
        (403, b"<html>"),
        (404, json.dumps({"detail": "x"}).encode()),
        (418, b"{}"),
        (500, b"x" * 3_000_000),
        (599, b"?"),
    ],
)
def test_a_refusal_that_does_not_explain_itself_keeps_its_status(status: int, body: bytes) -> None:
    with pytest.raises(HubRefusedError, match="does not say why") as caught:
        answered(reply(status, body))

    assert (caught.value.status, caught.value.code) == (status, "unexplained")
    assert caught.value.request_id == "r-1"
    assert str(status) in str(caught.value)


@settings(max_examples=30, deadline=None)
@given(st.text(max_size=20), st.lists(st.text(max_size=10), max_size=3), st.text(max_size=10))
def test_a_refusal_says_all_that_the_hub_said(detail: str, problems: list[str], code: str) -> None:
    problem = Problem(title="t", status=409, detail=detail, code=code, problems=problems)

    with pytest.raises(HubRefusedError) as caught:
        answered(reply(409, problem.model_dump_json()))

    assert caught.value.code == code
    assert all(each in str(caught.value) for each in [detail, *problems])


@pytest.mark.parametrize(
    "body",
    [b"", b"null", b"[]", b"{}", b"{", b"\xff", b"[" * 200_000, b'{"user": 1}', b"\x00", b"NaN"],
    ids=range(10),
)
def test_an_answer_of_another_shape_asks_for_matching_versions(body: bytes) -> None:
    with pytest.raises(HubError, match=r"is no WhoAmI\. Bring strop and the hub"):
        answered(reply(200, body))


def test_an_answer_may_be_packed_and_is_read_whole() -> None:
    body = gzip.compress(json.dumps(WHOAMI).encode())

    assert answered(reply(200, body, HUB | {"content-encoding": "gzip"})).user == "ada"


@pytest.mark.parametrize("coding", ["gzip", "deflate"])
def test_a_body_that_is_not_packed_as_it_says_is_no_answer(coding: str) -> None:
    with pytest.raises(NotAHubError, match="cannot be read"):
        answered(reply(200, b"not packed", HUB | {"content-encoding": coding}))


def test_an_answer_that_unpacks_without_end_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(transport, "MAX_ANSWER_BYTES", 100_000)
    bomb = gzip.compress(bytes(50_000_000))
    assert len(bomb) < 100_000

    with pytest.raises(NotAHubError, match="more than 100000 bytes"):
        answered(reply(200, bomb, HUB | {"content-encoding": "gzip"}))


@contextmanager
def flooding(head: bytes, chunk: bytes, pause_s: float = 0.0) -> Iterator[str]:
    """A server that sends `head`, then `chunk` for ever."""
    is_over = threading.Event()
    with socket.create_server(("127.0.0.1", 0)) as listener:

        def work() -> None:
            while not is_over.is_set():
                try:
                    connection, _ = listener.accept()
                except OSError:
                    return
                with connection:
                    try:
                        connection.recv(65536)
                        connection.sendall(head)
                        while not is_over.is_set():
                            connection.sendall(chunk)
                            time.sleep(pause_s)
                    except OSError:
                        continue

        thread = threading.Thread(target=work, daemon=True)
        thread.start()
        try:
            yield f"http://127.0.0.1:{listener.getsockname()[1]}"
        finally:
            is_over.set()
            listener.shutdown(socket.SHUT_RDWR)
            thread.join(60)


OK = b"HTTP/1.1 200 OK\r\nstrop-hub: 1\r\ntransfer-encoding: chunked\r\n\r\n"


def test_an_answer_without_end_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(transport, "MAX_ANSWER_BYTES", 500_000)

    with (
        flooding(OK, b"10000\r\n" + b"x" * 65536 + b"\r\n") as url,
        HubClient(url, timeout_s=60, attempt_count=1) as client,
        pytest.raises(NotAHubError, match="more than 500000 bytes"),
    ):
        client.whoami()


def test_headers_without_end_are_no_hub() -> None:
    with (
        flooding(b"HTTP/1.1 200 OK\r\n", b"a: " + b"b" * 5000 + b"\r\n") as url,
        HubClient(url, timeout_s=60, attempt_count=1) as client,
        pytest.raises(HubError),
    ):
        client.whoami()


def test_an_answer_that_stands_still_is_given_up_in_time() -> None:
    with (
        flooding(OK + b"1\r\n{\r\n", b"", pause_s=0.05) as url,
        HubClient(url, timeout_s=0.3, attempt_count=1) as client,
        pytest.raises(HubUnreachableError, match=r"did not answer within 0\.3 s"),
    ):
        client.whoami()


def test_a_download_that_brings_more_than_it_should_is_cut_off_at_once(tmp_path: Path) -> None:
    with (
        flooding(OK, b"10000\r\n" + b"x" * 65536 + b"\r\n") as url,
        HubClient(url, timeout_s=60, attempt_count=1) as client,
        pytest.raises(DigestMismatchError, match="came with more than"),
    ):
        client.download(a_file(), tmp_path / "maze.whl")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    "content_range",
    ["", "bytes 0-9/10", "bytes */1024000", "bytes 5-1/3", "lines 1-2/3", "bytes 99999-/x"],
)
def test_another_range_than_was_asked_for_is_refused(content_range: str, tmp_path: Path) -> None:
    def answer(request: Request) -> bytes:
        if "range" not in request.headers:
            return reply(200, CONTENT[:1000], length=len(CONTENT))
        return reply(206, CONTENT[1000:], HUB | {"content-range": content_range})

    with (
        serve(answer) as server,
        HubClient(server.url, attempt_count=3, timeout_s=60) as client,
        pytest.raises(NotAHubError, match="another range"),
    ):
        client.download(a_file(), tmp_path / "maze.whl")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("cuts", [[], [0], [1, 2], [500_000], [len(CONTENT) - 1]])
def test_a_download_cut_at_any_places_arrives_exactly(tmp_path: Path, cuts: list[int]) -> None:
    target = tmp_path / "maze.whl"
    left = list(cuts)

    def answer(request: Request) -> bytes:
        start = int(request.headers.get("range", "bytes=0-")[6:-1])
        end = left.pop(0) if left else len(CONTENT)
        headers = HUB | {"content-range": f"bytes {start}-{len(CONTENT) - 1}/{len(CONTENT)}"}
        rest = len(CONTENT) - start
        return reply(206 if start else 200, CONTENT[start:end], headers, length=rest)

    with serve(answer) as server, HubClient(server.url, attempt_count=3, timeout_s=60) as client:
        client.download(a_file(), target)

    assert hashlib.sha256(target.read_bytes()).hexdigest() == a_file().sha256
    assert [each.name for each in target.parent.iterdir()] == ["maze.whl"]


def test_an_empty_file_arrives(tmp_path: Path) -> None:
    with serve(lambda request: reply(200, b"")) as server, HubClient(server.url) as client:
        client.download(a_file(content=b""), tmp_path / "empty")

    assert (tmp_path / "empty").read_bytes() == b""


def test_many_downloads_to_one_place_leave_one_whole_file(tmp_path: Path) -> None:
    target = tmp_path / "maze.whl"
    errors: list[Exception] = []

    def fetch(url: str) -> None:
        try:
            with HubClient(url, attempt_count=1, timeout_s=60) as client:
                client.download(a_file(), target)
        except Exception as error:  # noqa: BLE001 - any is one too many
            errors.append(error)

    with serve(lambda request: reply(200, CONTENT)) as server:
        threads = [threading.Thread(target=fetch, args=(server.url,)) for _ in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()

    assert errors == []
    assert target.read_bytes() == CONTENT
    assert [each.name for each in tmp_path.iterdir()] == ["maze.whl"]


@pytest.mark.parametrize(
    ("owner", "name"), [("..", "x"), ("a/b", "x"), ("a?b", "x#y"), ("a b", "%2e%2e"), ("ü", "\n")]
)
def test_odd_names_stay_one_part_of_the_path(owner: str, name: str) -> None:
    with (
        serve(lambda request: reply(404, b"")) as server,
        HubClient(server.url, attempt_count=1) as client,
        pytest.raises(HubRefusedError),
    ):
        client.version(owner, name, "1.0")

    (request,) = server.requests
    if owner != "..":
        assert request.path.startswith("/api/v1/environments/")
        assert request.path.count("/") == 7
    assert " " not in request.path


def test_the_token_never_leaves_for_another_host(tmp_path: Path) -> None:
    with serve(lambda request: reply(200, CONTENT)) as elsewhere:
        location = HUB | {"location": f"{elsewhere.url}/blob"}
        with (
            serve(lambda request: reply(302, b"", location)) as server,
            HubClient(server.url, "strop_secret", attempt_count=1) as client,
        ):
            client.download(a_file(), tmp_path / "maze.whl")
            with pytest.raises(NotAHubError, match="where your token does not belong"):
                client.whoami()

        assert len(elsewhere.requests) == 1
        assert "strop_secret" not in str(elsewhere.requests[0].headers)
    assert (tmp_path / "maze.whl").read_bytes() == CONTENT


@pytest.mark.parametrize("cursors", [["a"], ["a", "b"], ["a", "b", "c", "a"]])
def test_a_listing_that_goes_in_a_circle_ends(cursors: list[str]) -> None:
    asked: list[str] = []

    def answer(request: Request) -> bytes:
        asked.append(request.path)
        cursor = cursors[len(asked) % len(cursors)]
        return reply(200, {"items": [], "next_cursor": cursor})

    with serve(answer) as server, HubClient(server.url, attempt_count=1) as client:
        with pytest.raises(HubError, match="lists in a circle"):
            list(client.environments())
        with pytest.raises(HubError, match="lists in a circle"):
            list(client.versions("ada", "maze"))

    assert len(asked) <= 10


def test_a_listing_is_fetched_only_as_far_as_it_is_read() -> None:
    asked: list[str] = []

    def answer(request: Request) -> bytes:
        asked.append(request.path)
        return reply(200, {"items": [], "next_cursor": str(len(asked)) if len(asked) < 4 else None})

    with serve(answer) as server, HubClient(server.url, attempt_count=1) as client:
        pages = client.environments("maze & exit", tag="a b")
        assert asked == []
        assert list(pages) == []

    assert len(asked) == 4
    assert asked[0].endswith("/environments?q=maze+%26+exit&tag=a+b")
    assert asked[3].endswith("&cursor=3")
