"""Bytes that are no HTTP, or HTTP that two readers could take differently."""

import json
from contextlib import suppress
from pathlib import Path

import httpx
import pytest

from tests.factories import an_upload
from tests.hub_server.author import Author, ask
from tests.hub_server.checking import uploads_under_way
from tests.hub_server.hostile.sockets import Connection, exchange, statuses
from tests.hub_server.running_hub import RunningHub
from tests.waiting import wait_until

HEAD = b"Host: hub\r\n"
CLOSE = b"Connection: close\r\n"
BOTH_LENGTHS = b"Content-Length: 5\r\nTransfer-Encoding: chunked\r\n"
RESOLVE = b"POST /api/v1/resolve HTTP/1.1\r\n"
SMUGGLED = b"GET /healthz HTTP/1.1\r\nHost: hub\r\nConnection: close\r\n\r\n"


@pytest.mark.parametrize("path", [b"/", b"/simple/", b"/api/v1/resolve", b"/owners/a/legacy/"])
@pytest.mark.parametrize("method", [b"GET", b"POST"])
def test_a_body_with_two_lengths_is_refused_and_nothing_behind_it_is_answered(
    hub: RunningHub, method: bytes, path: bytes
) -> None:
    request = method + b" " + path + b" HTTP/1.1\r\n" + HEAD + BOTH_LENGTHS + b"\r\n0\r\n\r\n"

    answer = exchange(hub, request + SMUGGLED)

    assert statuses(answer) == [400]
    problem = json.loads(answer.rpartition(b"\r\n\r\n")[2])
    assert problem["code"] == "malformed_body"
    assert b"connection: close" in answer.lower()


NO_HTTP = {
    "two content lengths": b"GET /healthz HTTP/1.1\r\n"
    + HEAD
    + b"Content-Length: 3\r\nContent-Length: 4\r\n\r\nabcd",
    "a length that is no number": b"POST /api/v1/resolve HTTP/1.1\r\n"
    + HEAD
    + b"Content-Length: 1_0\r\n\r\n",
    "a negative length": b"POST /api/v1/resolve HTTP/1.1\r\n"
    + HEAD
    + b"Content-Length: -1\r\n\r\n",
    "a signed length": b"POST /api/v1/resolve HTTP/1.1\r\n"
    + HEAD
    + b"Content-Length: +2\r\n\r\n{}",
    "an unknown coding": b"GET /healthz HTTP/1.1\r\n"
    + HEAD
    + b"Transfer-Encoding: gzip, chunked\r\n\r\n0\r\n\r\n",
    "chunked twice": b"GET /healthz HTTP/1.1\r\n"
    + HEAD
    + b"Transfer-Encoding: chunked, chunked\r\n\r\n0\r\n\r\n",
    "a space before the colon": b"GET /healthz HTTP/1.1\r\nHost : hub\r\n\r\n",
    "a folded header": b"GET /healthz HTTP/1.1\r\n" + HEAD + b" Content-Length: 4\r\n\r\n",
    "no host": b"GET /healthz HTTP/1.1\r\n\r\n",
    "two hosts": b"GET /healthz HTTP/1.1\r\nHost: a\r\nHost: b\r\n\r\n",
    "NULs": b"\0" * 64 + b"\r\n\r\n",
    "a NUL in a header": b"GET /healthz HTTP/1.1\r\n" + HEAD + b"X: a\0b\r\n\r\n",
    "a NUL in the path": b"GET /health\0z HTTP/1.1\r\n" + HEAD + b"\r\n",
    "raw bytes in the path": b"GET /\xff\xfe/x HTTP/1.1\r\n" + HEAD + b"\r\n",
    "a bare line feed in a header": b"GET /healthz HTTP/1.1\r\n" + HEAD + b"X: a\rb\r\n\r\n",
    "TLS": b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + b"\0" * 32 + b"\r\n\r\n",
    "words": b"hello hub\r\n\r\n",
}


@pytest.mark.parametrize("request_bytes", NO_HTTP.values(), ids=NO_HTTP)
def test_what_is_no_http_is_answered_with_400_once_and_the_connection_ends(
    hub: RunningHub, request_bytes: bytes
) -> None:
    answer = exchange(hub, request_bytes + SMUGGLED)

    # A folded header is read as one header, after which the next request is a request.
    expected = [[200, 200], [400]] if b"\r\n Content-Length" in request_bytes else [[400]]
    assert statuses(answer) in expected
    assert hub.get("/healthz").status_code == 200


@pytest.mark.parametrize("origin", [b"http://hub", b"HTTPS://elsewhere.example:99", b"http://u@h"])
@pytest.mark.parametrize(
    ("path", "status"),
    [(b"/simple/", 200), (b"/healthz?x=1", 200), (b"", 200), (b"?q=maze", 200), (b"/a%2Fb", 404)],
)
def test_a_target_with_its_origin_is_read_as_the_path_alone(
    hub: RunningHub, origin: bytes, path: bytes, status: int
) -> None:
    answer = exchange(hub, b"GET " + origin + path + b" HTTP/1.1\r\n" + HEAD + CLOSE + b"\r\n")

    assert statuses(answer) == [status]
    assert b"elsewhere" not in answer


@pytest.mark.parametrize("target", [b"*", b"hub:80", b"http:/simple/", b"ftp://hub/simple/"])
def test_a_target_in_no_form_of_a_read_is_not_found(hub: RunningHub, target: bytes) -> None:
    answer = exchange(hub, b"GET " + target + b" HTTP/1.1\r\n" + HEAD + CLOSE + b"\r\n")

    assert statuses(answer) == [404]


BAD_CHUNKS = [b"ZZ\r\n{}\r\n0\r\n\r\n", b"-1\r\n{}\r\n", b"2;\0\r\n{}\r\n", b"f" * 40 + b"\r\n{}"]


@pytest.mark.parametrize("chunks", BAD_CHUNKS)
def test_a_body_in_wrong_chunks_ends_the_connection(hub: RunningHub, chunks: bytes) -> None:
    head = b"POST /api/v1/resolve HTTP/1.1\r\n" + HEAD + b"Content-Type: application/json\r\n"

    answer = exchange(hub, head + b"Transfer-Encoding: chunked\r\n\r\n" + chunks + SMUGGLED)

    assert statuses(answer) == [400]


def test_a_head_without_end_is_cut_off(hub: RunningHub) -> None:
    answer = b""
    with Connection.to(hub) as connection, suppress(ConnectionError):
        connection.send(b"GET /healthz HTTP/1.1\r\n" + HEAD)
        for _ in range(40):
            connection.send(b"X: " + b"x" * 8000 + b"\r\n")
        # Without a limit this would wait for an answer that never comes.
        answer = connection.read_all()

    assert statuses(answer) in ([], [400])
    assert hub.get("/healthz").status_code == 200


@pytest.mark.parametrize("protocol", [b"HTTP/1.0", b"HTTP/1.1"])
def test_a_request_in_single_bytes_is_answered_as_one(hub: RunningHub, protocol: bytes) -> None:
    with Connection.to(hub) as connection:
        for byte in b"GET /healthz " + protocol + b"\r\n" + HEAD + CLOSE + b"\r\n":
            connection.send(bytes([byte]))
        answer = connection.read_all()

    assert statuses(answer) == [200]
    assert json.loads(answer.rpartition(b"\r\n\r\n")[2])["status"] == "ok"


def test_requests_in_one_packet_are_answered_in_order(hub: RunningHub) -> None:
    asked = [b"/healthz", b"/nothing/here/at/all", b"/simple/", b"/api/v1/whoami"]
    requests = [b"GET " + path + b" HTTP/1.1\r\n" + HEAD + b"\r\n" for path in asked]

    answer = exchange(hub, b"".join(requests) + SMUGGLED)

    assert statuses(answer) == [200, 404, 200, 401, 200]


def test_many_connections_that_send_nothing_keep_nobody_out(hub: RunningHub) -> None:
    idle = [Connection.to(hub) for _ in range(120)]
    try:
        for connection in idle[::2]:
            connection.send(
                b"POST /api/v1/resolve HTTP/1.1\r\n" + HEAD + b"Content-Length: 9\r\n\r\n{"
            )
        for path in ("/healthz", "/readyz", "/simple/", "/", "/api/v1/environments"):
            assert hub.get(path).status_code == 200
    finally:
        for connection in idle:
            connection.socket.close()


def test_many_uploads_that_stand_still_keep_no_other_push_out(
    hub: RunningHub, tmp_path: Path
) -> None:
    owner, token = hub.new_user()
    head = (
        f"POST /api/v1/owners/{owner}/versions HTTP/1.1\r\nHost: hub\r\n"
        f"Authorization: Bearer {token}\r\nContent-Length: 100000\r\n"
        "Content-Type: multipart/form-data; boundary=b\r\n\r\n"
        '--b\r\nContent-Disposition: form-data; name="wheel"; filename="a.whl"\r\n\r\nPK'
    ).encode()
    slow = [Connection.to(hub) for _ in range(40)]
    try:
        for connection in slow:
            connection.send(head)

        assert hub.push(token, owner, an_upload(tmp_path)).status_code == 201
    finally:
        for connection in slow:
            connection.socket.close()
    wait_until(lambda: uploads_under_way(hub.settings) == [])


@pytest.mark.parametrize("method", ["TRACE", "CONNECT", "PATCH", "PROPFIND", "get", "X" * 200])
@pytest.mark.parametrize(
    "path", ["/", "/healthz", "/simple/", "/api/v1/environments", "/api/v1/resolve", "/a/b"]
)
def test_no_other_method_does_anything(hub: RunningHub, method: str, path: str) -> None:
    request = f"{method} {path} HTTP/1.1\r\n".encode() + HEAD + CLOSE + b"\r\n"

    (status,) = statuses(exchange(hub, request))

    assert status in (400, 404, 405)


def test_an_upgrade_to_another_protocol_is_never_made(hub: RunningHub) -> None:
    upgrade = (
        b"Upgrade: websocket\r\nConnection: Upgrade, close\r\nSec-WebSocket-Version: 13\r\n"
        b"Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n"
    )

    for path in (b"/healthz", b"/simple/", b"/"):
        answer = exchange(hub, b"GET " + path + b" HTTP/1.1\r\n" + HEAD + upgrade)
        assert 101 not in statuses(answer)


@pytest.mark.parametrize(
    "host", ["evil.example", "evil.example:80", "127.0.0.1@evil.example", '"><script>', ""]
)
def test_no_answer_repeats_the_host_that_a_request_names(
    hub: RunningHub, tmp_path: Path, host: str
) -> None:
    author = Author.new(hub, tmp_path)
    author.publish("maze")
    name = author.owner

    for path in (
        "/",
        f"/{name}",
        f"/{name}/maze",
        "/simple",
        "/simple/MAZE",
        f"/owners/{name}/simple/MAZE/",
        f"/api/v1/environments/{name}/maze",
        "/openapi.json",
        "/nothing/there/is/here",
    ):
        forwarded = {"x_forwarded_host": "evil.example", "forwarded": "host=evil.example"}
        response = ask(hub, "GET", path, host=host, x_forwarded_proto="evil", **forwarded)
        told = response.text + str(response.headers)
        assert response.status_code < 500
        assert "evil" not in told
        assert "<script>" not in told


def test_a_redirect_leads_nowhere_but_to_the_hub_itself(hub: RunningHub, tmp_path: Path) -> None:
    author = Author.new(hub, tmp_path)
    author.publish("maze")
    for path in (
        "/simple/MAZE",
        "/simple",
        f"/owners/{author.owner.upper()}/simple/maze/",
        "/%2Fevil.example",
        "/%5Cevil.example",
        "//evil.example/simple/MAZE",
        "/simple/%2F%2Fevil.example/",
        "/simple/..%2F..%2Fevil.example/x",
        "/evil.example",
        "/evil@x",
        "/%0d%0alocation:x",
    ):
        with hub.client() as client:
            response = client.send(httpx.Request("GET", hub.url + path))
        location = response.headers.get("location")
        if location is not None:
            target = httpx.URL(hub.url + path).join(location)
            assert (target.host, target.port) == (httpx.URL(hub.url).host, httpx.URL(hub.url).port)
        assert "location:x" not in str(response.headers)


@pytest.mark.parametrize("given", ["a" * 65, "a b", "é", "a\tb", "", '"><script>', "../x"])
def test_a_request_id_that_could_do_harm_is_replaced(hub: RunningHub, given: str) -> None:
    with hub.client() as client:
        response = client.get("/api/v1/whoami", headers={b"x-request-id": given.encode()})

    assert response.headers["x-request-id"] != given
    assert response.json()["request_id"] == response.headers["x-request-id"]


def test_a_proxys_request_id_is_kept(hub: RunningHub) -> None:
    response = ask(hub, "GET", "/api/v1/whoami", x_request_id="proxy-1.a_B")

    assert response.json()["request_id"] == response.headers["x-request-id"] == "proxy-1.a_B"
