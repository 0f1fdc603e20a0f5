"""The server's side of HTTP holds against clients that are slow, rude or gone."""

import asyncio
import json
from collections.abc import AsyncIterator

import pytest

from strop.serve.http import Answer, HttpServer, Request, json_answer
from strop.serve.http.server import bind
from tests.waiting import until


class Served:
    """A server that echoes, waits or raises, as its path says."""

    def __init__(self) -> None:
        self.cancelled_count = 0

    async def answer(self, request: Request) -> Answer:
        if request.path == "/wait":
            try:
                await asyncio.sleep(float(request.query.get("s", "3600")))
            except asyncio.CancelledError:
                self.cancelled_count += 1
                raise
        if request.path == "/raise":
            raise LookupError("as told")
        return json_answer({"path": request.path, "body": request.body.decode("latin-1")})


@pytest.fixture
def served() -> Served:
    return Served()


@pytest.fixture
async def server(served: Served) -> AsyncIterator[HttpServer]:
    running = await HttpServer(served.answer, body_bytes=1000).start()
    yield running
    await running.close()


async def exchange(server: HttpServer, sent: bytes) -> bytes:
    """Send bytes, of which the last request ends the connection, and read all that comes."""
    reader, writer = await asyncio.open_connection("127.0.0.1", server.port)
    writer.write(sent)
    async with asyncio.timeout(60):
        received = await reader.read()
    writer.close()
    await writer.wait_closed()
    return received


CLOSE = "connection: close"


def post(path: str, body: bytes, *headers: str) -> bytes:
    lines = [f"POST {path} HTTP/1.1", "host: x", f"content-length: {len(body)}", *headers]
    return "\r\n".join(lines).encode() + b"\r\n\r\n" + body


async def test_requests_on_one_connection_are_answered_in_order(server: HttpServer) -> None:
    received = await exchange(server, post("/a", b"1") + post("/b", b"2", CLOSE))
    assert received.count(b"HTTP/1.1 200") == 2
    assert received.index(b'"/a"') < received.index(b'"/b"')


async def test_a_body_may_come_in_chunks_and_after_a_hundred(server: HttpServer) -> None:
    head = b"POST /c HTTP/1.1\r\nhost: x\r\nconnection: close\r\ntransfer-encoding: chunked\r\n"
    received = await exchange(server, head + b"\r\n3\r\nabc\r\n2\r\nde\r\n0\r\n\r\n")
    assert b'"body":"abcde"' in received
    received = await exchange(server, post("/c", b"x", "expect: 100-continue", CLOSE))
    assert b" 200 " in received


@pytest.mark.parametrize(
    ("sent", "status"),
    [
        (b"\x16\x03\x01 tls\r\n\r\n", b"400"),
        (b"GET / HTTP/1.1\r\n\r\n", b"400"),
        (post("/a", b"x" * 1001), b"413"),
        (b"GET / HTTP/1.1\r\nhost: x\r\na: " + b"b" * 70_000, b"431"),
    ],
    ids=["no HTTP", "no host", "long body", "long head"],
)
async def test_what_is_no_request_is_refused_and_the_connection_closed(
    server: HttpServer, sent: bytes, status: bytes
) -> None:
    received = await exchange(server, sent)
    assert received.startswith(b"HTTP/1.1 " + status)
    assert b"connection: close" in received.lower() or received.endswith(b"}")
    assert await exchange(server, post("/after", b"", CLOSE)) != b""


async def test_a_fault_is_an_answer_and_the_server_goes_on(server: HttpServer) -> None:
    received = await exchange(server, post("/raise", b"") + post("/a", b"", CLOSE))
    assert received.startswith(b"HTTP/1.1 500")
    assert b"LookupError: as told" in received
    assert b"HTTP/1.1 200" in received


async def test_a_client_that_leaves_cancels_its_request(server: HttpServer, served: Served) -> None:
    _, writer = await asyncio.open_connection("127.0.0.1", server.port)
    writer.write(post("/wait", b""))
    await until(lambda: server.busy_count == 1)
    writer.transport.abort()
    await until(lambda: served.cancelled_count)
    assert server.busy_count == 0


async def test_closing_breaks_what_is_under_way_and_frees_the_port(served: Served) -> None:
    running = await HttpServer(served.answer).start()
    waiting = asyncio.ensure_future(exchange(running, post("/wait", b"")))
    await until(lambda: running.busy_count == 1)
    await running.close()
    assert served.cancelled_count == 1
    # Nothing that could be taken for an answer.
    assert await waiting == b""
    bind("127.0.0.1", running.port).close()


async def test_blanks_keep_a_slow_answer_alive_and_the_document_whole(served: Served) -> None:
    running = await HttpServer(served.answer, heartbeat_s=0.1).start()
    received = await exchange(running, post("/wait?s=2", b"x", CLOSE))
    await running.close()
    head, _, body = received.partition(b"\r\n\r\n")
    assert b"chunked" in head
    blanks = [line for line in body.split(b"\r\n") if line == b" "]
    assert len(blanks) >= 2
    document = next(line for line in body.split(b"\r\n") if line.startswith(b"{"))
    assert json.loads(document) == {"path": "/wait", "body": "x"}


async def test_a_fault_after_a_blank_is_still_told(served: Served) -> None:
    async def fail(request: Request) -> Answer:
        await asyncio.sleep(0.3)
        raise ValueError("late")

    running = await HttpServer(fail, heartbeat_s=0.1).start()
    received = await exchange(running, post("/", b"", CLOSE))
    await running.close()
    assert b"ValueError: late" in received


async def test_thirty_servers_at_once_each_have_a_port_of_their_own() -> None:
    async def serve(number: int) -> HttpServer:
        async def answer(request: Request) -> Answer:
            return json_answer({"number": number})

        return await HttpServer(answer).start()

    for _ in range(10):
        servers = await asyncio.gather(*[serve(number) for number in range(30)])
        try:
            assert len({server.port for server in servers}) == 30
            for number in (0, 17, 29):
                sent = post("/", b"", CLOSE)
                received = await exchange(servers[number], sent)
                assert json.loads(received.partition(b"\r\n\r\n")[2]) == {"number": number}
        finally:
            await asyncio.gather(*[server.close() for server in servers])
