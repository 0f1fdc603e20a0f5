"""Bodies that are cut, hostile or too large: refused in words, and nothing of them stays."""

import random
import socket
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import httpx
import pytest

from tests.factories import AnUpload, an_upload
from tests.hub_server.checking import blob_count, check_whole, uploads_under_way
from tests.hub_server.running_hub import RunningHub, run_hub
from tests.hub_server.test_push import assert_refused
from tests.waiting import wait_until

BOUNDARY = b"cut-here"
FORM_TYPE = f"multipart/form-data; boundary={BOUNDARY.decode()}"
LIMIT_BYTES = 300_000


def part(disposition: str, content: bytes, more: str = "") -> bytes:
    head = f"Content-Disposition: {disposition}\r\n{more}\r\n".encode("utf-8", "surrogateescape")
    return b"--" + BOUNDARY + b"\r\n" + head + content + b"\r\n"


def wheel_part(upload: AnUpload) -> bytes:
    name = upload.wheel.name
    return part(f'form-data; name="wheel"; filename="{name}"', upload.wheel.read_bytes())


END = b"--" + BOUNDARY + b"--\r\n"


@pytest.fixture(scope="module")
def strict_hub(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningHub]:
    """A hub that takes files of at most `LIMIT_BYTES`, and nothing was ever published on it."""
    data = tmp_path_factory.mktemp("strict") / "data"
    with run_hub(data, max_file_bytes=str(LIMIT_BYTES)) as running:
        yield running
        assert check_whole(running.settings) == 0


@pytest.fixture
def send(strict_hub: RunningHub) -> Iterator[Callable[..., httpx.Response]]:
    """Sends a raw body; after the test nothing of it may be left."""
    owner, token = strict_hub.new_user()

    def post(body: bytes, content_type: str = FORM_TYPE) -> httpx.Response:
        headers = {"content-type": content_type}
        with strict_hub.client(token) as client:
            path = f"/api/v1/owners/{owner}/versions"
            return client.post(path, content=body, headers=headers)

    yield post
    assert uploads_under_way(strict_hub.settings) == []
    assert blob_count(strict_hub.settings) == 0


HOSTILE = {
    "empty": b"",
    "no form at all": b"hello" * 100,
    "cut before the end": part('form-data; name="tree_digest"', b"00"),
    "no wheel": part('form-data; name="tree_digest"', b"00") + END,
    "only the end": END,
    "unknown field": part('form-data; name="spoon"', b"1") + END,
    "unknown file": part('form-data; name="spoon"; filename="a"', b"1") + END,
    "field twice": part('form-data; name="tree_digest"', b"0") * 2 + END,
    "file twice": part('form-data; name="wheel"; filename="a.whl"', b"0") * 2 + END,
    "file without a name": part('form-data; name="wheel"', b"0") + END,
    "part without a name": part("form-data", b"0") + END,
    "part of another kind": part('attachment; name="wheel"; filename="a.whl"', b"0") + END,
    "disposition twice": part("form-data", b"0", "Content-Disposition: form-data\r\n") + END,
    "huge header": part('form-data; name="wheel"; filename="a.whl"', b"", f"X: {'x' * 9000}\r\n"),
    "many headers": part(
        'form-data; name="wheel"; filename="a.whl"',
        b"",
        "".join(f"X-{n}: 1\r\n" for n in range(99)),
    ),
    "field that is no text": part('form-data; name="tree_digest"', b"\xff\xfe") + END,
    "name that is no text": part('form-data; name="\udcff"', b"0") + END,
    "filename that is no text": part('form-data; name="wheel"; filename="\udcff"', b"0") + END,
    "bare line feeds": b"--cut-here\nContent-Disposition: form-data\n\n0\n--cut-here--\n",
}


@pytest.mark.parametrize("body", HOSTILE.values(), ids=HOSTILE)
def test_a_body_that_is_no_such_form_is_refused(
    send: Callable[..., httpx.Response], body: bytes
) -> None:
    assert_refused(send(body), 400, "malformed_body")


@pytest.mark.parametrize(
    "name", ["../../a.whl", "/etc/passwd", "a\x00b.whl", "C:\\a.whl", "x" * 900]
)
def test_a_files_name_is_never_a_path(send: Callable[..., httpx.Response], name: str) -> None:
    response = send(part(f'form-data; name="wheel"; filename="{name}"', b"0") + END)

    assert_refused(response, 422, "invalid_package")


@pytest.mark.parametrize(
    ("content_type", "status", "code"),
    [
        ("application/json", 415, "unsupported_media_type"),
        ("", 415, "unsupported_media_type"),
        ("multipart/form-data", 400, "malformed_body"),
        ("multipart/form-data; boundary=", 400, "malformed_body"),
        (f"multipart/form-data; boundary={'x' * 300}", 400, "malformed_body"),
    ],
)
def test_a_body_of_another_type_is_refused(
    send: Callable[..., httpx.Response], content_type: str, status: int, code: str
) -> None:
    assert_refused(send(b"{}", content_type), status, code)


def test_a_file_above_the_limit_is_refused_with_the_limit(
    send: Callable[..., httpx.Response],
) -> None:
    big = part('form-data; name="wheel"; filename="a.whl"', b"x" * (LIMIT_BYTES + 1))

    response = send(big + END)

    assert "limit for a file" in assert_refused(response, 413, "too_large")


def test_a_body_that_announces_too_much_is_refused_before_it_is_read(
    strict_hub: RunningHub,
) -> None:
    owner, token = strict_hub.new_user()
    with connect(strict_hub) as connection:
        connection.sendall(request_head(owner, token, 10 * LIMIT_BYTES * LIMIT_BYTES))
        answer = connection.recv(65536)

    assert answer.startswith(b"HTTP/1.1 413")


def test_a_field_above_the_limit_is_refused(send: Callable[..., httpx.Response]) -> None:
    response = send(part('form-data; name="visibility"', b"x" * 10_000) + END)

    assert_refused(response, 413, "too_large")


def test_a_client_without_a_token_is_refused_before_it_sends(strict_hub: RunningHub) -> None:
    with connect(strict_hub) as connection:
        connection.sendall(request_head("ada", "none", 1000))
        answer = connection.recv(65536)

    assert answer.startswith(b"HTTP/1.1 401")


@pytest.mark.parametrize("share", [0.0, 0.01, 0.5, 0.99])
def test_a_connection_that_breaks_leaves_nothing_and_the_push_can_be_repeated(
    hub: RunningHub, tmp_path: Path, share: float
) -> None:
    owner, token = hub.new_user()
    upload = an_upload(tmp_path, files={"maze.py": random.Random(1).randbytes(200_000).hex()})
    body = wheel_part(upload) + END
    before = blob_count(hub.settings)
    with connect(hub) as connection:
        connection.sendall(request_head(owner, token, len(body)))
        connection.sendall(body[: int(len(body) * share)])
        time.sleep(0.05)

    wait_until(lambda: uploads_under_way(hub.settings) == [])
    assert blob_count(hub.settings) == before
    assert hub.get(f"/api/v1/environments/{owner}/maze").status_code == 404
    assert hub.push(token, owner, upload).status_code == 201


def test_mutated_forms_are_refused_and_never_break_the_hub(
    strict_hub: RunningHub, send: Callable[..., httpx.Response], tmp_path: Path
) -> None:
    chance = random.Random(7)
    whole = wheel_part(an_upload(tmp_path)) + part('form-data; name="tree_digest"', b"0" * 64) + END

    for _ in range(150):
        body = bytearray(whole)
        for _ in range(chance.randint(1, 4)):
            at = chance.randrange(len(body))
            body[at : at + chance.randint(0, 30)] = chance.randbytes(chance.randint(0, 30))
        response = send(bytes(body))
        assert 400 <= response.status_code < 500, response.text


def test_a_large_upload_takes_constant_memory(hub_data: Path, tmp_path: Path) -> None:
    size_bytes = 90_000_000
    with run_hub(hub_data) as hub:
        owner, token = hub.new_user()
        assert hub.push(token, owner, an_upload(tmp_path / "warm", version="0.0.1")).is_success
        before = peak_memory_bytes(hub)
        big = part('form-data; name="wheel"; filename="a-1-py3-none-any.whl"', b"\x01" * size_bytes)
        with hub.client(token) as client:
            response = client.post(
                f"/api/v1/owners/{owner}/versions",
                content=big + END,
                headers={"content-type": FORM_TYPE},
            )

        assert_refused(response, 422, "invalid_package")
        assert peak_memory_bytes(hub) - before < 30_000_000


def peak_memory_bytes(hub: RunningHub) -> int:
    status = Path(f"/proc/{hub.process.pid}/status").read_text()
    line = next(line for line in status.splitlines() if line.startswith("VmHWM"))
    return int(line.split()[1]) * 1024


def connect(hub: RunningHub) -> socket.socket:
    url = httpx.URL(hub.url)
    return socket.create_connection((url.host, url.port), timeout=60)


def request_head(owner: str, token: str, length: int) -> bytes:
    return (
        f"POST /api/v1/owners/{owner}/versions HTTP/1.1\r\nHost: hub\r\n"
        f"Authorization: Bearer {token}\r\nContent-Type: {FORM_TYPE}\r\n"
        f"Content-Length: {length}\r\n\r\n"
    ).encode()
