"""A client that keeps the hub waiting, sending or reading, is given up after a time."""

import time
from contextlib import suppress
from pathlib import Path

import pytest

from tests.hub_server.hostile.sockets import Connection
from tests.hub_server.running_hub import run_hub
from tests.hub_server.test_large_files import a_large_wheel, push
from tests.waiting import LIMIT_S, wait_until


@pytest.mark.embedded
@pytest.mark.slow
def test_a_body_that_trickles_is_refused_when_its_time_is_up(hub_data: Path) -> None:
    answer, deadline = b"", time.monotonic() + LIMIT_S
    with run_hub(hub_data, body_s="1") as hub, Connection.to(hub) as connection:
        connection.send(
            b"POST /api/v1/resolve HTTP/1.1\r\nhost: x\r\ncontent-type: application/json\r\n"
            b"content-length: 100000\r\n\r\n"
        )
        connection.socket.settimeout(0.1)
        # Far sooner than the hub's patience with a body of which nothing comes.
        while not answer and time.monotonic() < deadline:
            with suppress(OSError):
                connection.send(b" ")
            with suppress(TimeoutError):
                answer = connection.socket.recv(4096)

    assert answer.startswith(b"HTTP/1.1 408 ")


@pytest.mark.embedded
@pytest.mark.slow
def test_a_client_that_does_not_read_is_given_up(hub_data: Path, tmp_path: Path) -> None:
    # More than lies in the buffers of both ends.
    wheel = a_large_wheel(tmp_path, 24)
    with run_hub(hub_data, reader_idle_s="1") as hub:
        owner, token = hub.new_user()
        assert push(hub, owner, token, wheel).status_code == 201
        with Connection.to(hub) as connection:
            path = f"/owners/{owner}/files/maze/{wheel.name}"
            connection.send(f"GET {path} HTTP/1.1\r\nhost: x\r\n\r\n".encode())
            wait_until(lambda: "TimeoutError" in hub.log.read_text())
            received_bytes = 0
            with suppress(ConnectionError):
                while piece := connection.socket.recv(1 << 20):
                    received_bytes += len(piece)
        assert hub.get("/readyz").status_code == 200

    assert 0 < received_bytes < wheel.stat().st_size
