"""A hub under load stays fair: limits by caller, patience that ends, several processes, metrics."""

import json
import random
import re
import socket
from pathlib import Path

import httpx
import pytest

from strop_hub.http import protocol
from strop_hub.serve import _listen
from strop_hub.settings import Settings
from tests.factories import an_upload
from tests.hub_server.checking import check_whole
from tests.hub_server.hostile.sockets import exchange, statuses
from tests.hub_server.running_hub import RunningHub, run_hub
from tests.waiting import wait_until

SHORT_S = 120


def raw(hub: RunningHub) -> socket.socket:
    url = httpx.URL(hub.url)
    return socket.create_connection((url.host, url.port), timeout=SHORT_S)


def test_who_asks_too_often_waits_and_others_do_not(hub_data: Path) -> None:
    # One at once, the next after ten seconds: it holds however slow the machine is.
    with run_hub(hub_data, requests_per_minute="6") as hub:
        _, token = hub.new_user()
        answers = [hub.get("/api/v1/environments") for _ in range(8)]
        refused = [answer for answer in answers if answer.status_code == 429]
        other = hub.get("/api/v1/whoami", token)
        healthy = [hub.get("/healthz").status_code for _ in range(8)]

    assert answers[0].status_code == 200
    assert len(refused) >= 1
    assert refused[0].json()["code"] == "rate_limited"
    assert 1 <= int(refused[0].headers["retry-after"]) <= 10
    assert other.status_code == 200
    assert healthy == [200] * 8


def test_a_body_that_does_not_come_is_refused(hub_data: Path) -> None:
    with run_hub(hub_data, body_idle_s="1") as hub, raw(hub) as connection:
        connection.sendall(
            b"POST /api/v1/resolve HTTP/1.1\r\nhost: x\r\ncontent-type: application/json\r\n"
            b"content-length: 100\r\n\r\n{"
        )
        answer = connection.recv(4096)

    assert answer.startswith(b"HTTP/1.1 408 ")


def test_an_upload_that_stops_is_refused_and_leaves_nothing(hub_data: Path, tmp_path: Path) -> None:
    upload = an_upload(tmp_path)
    with run_hub(hub_data, body_idle_s="3") as hub:
        owner, token = hub.new_user()
        request = httpx.Request("POST", hub.url, **upload.form())
        head = (
            f"POST /api/v1/owners/{owner}/versions HTTP/1.1\r\nhost: x\r\n"
            f"authorization: Bearer {token}\r\n"
            f"content-type: {request.headers['content-type']}\r\n"
            f"content-length: {request.headers['content-length']}\r\n\r\n"
        )
        with raw(hub) as connection:
            connection.sendall(head.encode() + request.read()[:300])
            answer = connection.recv(4096)

        assert answer.startswith(b"HTTP/1.1 408 ")
        assert list(hub.settings.uploads.iterdir()) == []
        assert hub.push(token, owner, upload).status_code == 201


def test_headers_that_do_not_end_are_not_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    import asyncio
    import threading

    import uvicorn

    async def app(scope: object, receive: object, send: object) -> None:
        raise AssertionError

    monkeypatch.setattr(protocol, "HEADER_S", 0.3)
    listener = socket.create_server(("127.0.0.1", 0))
    config = uvicorn.Config(app, http=protocol.ImpatientProtocol, lifespan="off", log_config=None)
    server = uvicorn.Server(config)
    thread = threading.Thread(target=lambda: asyncio.run(server.serve(sockets=[listener])))
    thread.start()
    try:
        with socket.create_connection(listener.getsockname(), timeout=SHORT_S) as connection:
            connection.sendall(b"GET / HTTP/1.1\r\nhost")
            assert connection.recv(100) == b""
    finally:
        server.should_exit = True
        thread.join()


def test_a_hub_that_is_read_only_is_read_and_not_written(hub_data: Path, tmp_path: Path) -> None:
    with run_hub(hub_data, read_only="1") as hub:
        owner, token = hub.new_user()
        refused = hub.push(token, owner, an_upload(tmp_path))
        with hub.client() as client:
            resolved = client.post("/api/v1/resolve", json={"references": ["a/b"]})
        listed = hub.get("/api/v1/environments")

    assert (refused.status_code, refused.json()["code"]) == (503, "read_only")
    assert resolved.status_code == listed.status_code == 200


def test_several_processes_are_one_hub(hub_data: Path, tmp_path: Path) -> None:
    with run_hub(hub_data, arguments=("--workers", "2")) as hub:
        owner, token = hub.new_user()
        for number in range(3):
            upload = an_upload(tmp_path / str(number), name="maze", version=f"1.{number}")
            assert hub.push(token, owner, upload).status_code == 201
        counts: list[int] = []

        def all_have_heard() -> bool:
            page = hub.get(f"/owners/{owner}/simple/maze/").text
            counts.append(page.count(".whl</a>"))
            return counts[-12:] == [3] * 12

        def is_counted() -> bool:
            metrics = hub.get("/metrics").text
            found = re.findall(r'strop_hub_requests_total\{.*route="index".*\} (\d+)', metrics)
            return sum(map(int, found)) == len(counts)

        # Other processes hear of it soon, and count what they answered after they did.
        wait_until(all_have_heard)
        wait_until(is_counted)

    assert check_whole(hub.settings) == 3


TARGETS = {
    b"/simple/": 200,
    b"http://elsewhere.example/healthz?x=1": 200,
    b"/simple/%00/": 404,
    b"/simple/?format=%00": 422,
}


@pytest.mark.embedded
def test_granian_serves_the_same_hub(hub_data: Path, tmp_path: Path) -> None:
    pytest.importorskip("granian")
    with run_hub(hub_data, arguments=("--server", "granian")) as hub:
        # It accepts connections as soon as it tells its address.
        head = b" HTTP/1.1\r\nHost: hub\r\nConnection: close\r\n\r\n"
        for target, status in TARGETS.items():
            assert statuses(exchange(hub, b"GET " + target + head)) == [status], target
        owner, token = hub.new_user()
        assert hub.push(token, owner, an_upload(tmp_path, name="maze")).status_code == 201
        assert "maze" in hub.get(f"/owners/{owner}/simple/").text
    assert check_whole(hub.settings) == 1


def test_metrics_name_routes_and_never_paths(hub: RunningHub) -> None:
    hub.get("/api/v1/environments/ada/nothing-like-this")
    counted = 'route="/api/v1/environments/{owner}/{name}",status="404"'

    wait_until(lambda: counted in hub.get("/metrics").text)

    text = hub.get("/metrics").text
    assert "nothing-like-this" not in text
    assert "strop_hub_request_seconds_bucket" in text


def test_a_log_for_machines_is_json_with_the_id_of_the_request(
    hub_data: Path, tmp_path: Path
) -> None:
    with run_hub(hub_data, log_format="json") as hub:
        owner, token = hub.new_user()
        answer = hub.push(token, owner, an_upload(tmp_path))
    lines = [json.loads(line) for line in hub.log.read_text().splitlines()]
    published = [line for line in lines if line["message"].startswith("published")]

    assert [line["request_id"] for line in published] == [answer.headers["x-request-id"]]


@pytest.mark.embedded
def test_nginx_is_told_where_a_large_file_lies(hub_data: Path, tmp_path: Path) -> None:
    files = {"maze.py": "x = 1\n", "noise.txt": random.Random(0).randbytes(10**6).hex()}
    with run_hub(hub_data, accel_prefix="/blobs/") as hub:
        owner, token = hub.new_user()
        pushed = hub.push(token, owner, an_upload(tmp_path, name="maze", files=files)).json()
        (wheel,) = [file for file in pushed["version"]["files"] if file["kind"] == "wheel"]
        answer = hub.get(httpx.URL(wheel["url"]).path)

    sha256 = wheel["sha256"]
    place = f"/blobs/{sha256[:2]}/{sha256[2:]}"
    assert answer.headers["x-accel-redirect"] == place
    assert answer.headers["etag"] == f'"{sha256}"'


def test_small_answers_do_not_wait_for_an_acknowledgement(tmp_path: Path) -> None:
    with _listen(Settings.read({}, data=tmp_path, port=0)) as listener:
        assert listener.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY)
