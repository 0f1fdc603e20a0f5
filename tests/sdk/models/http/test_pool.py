"""Connections are kept, shared, limited, replaced and closed as the pool promises."""

from __future__ import annotations

import asyncio
import gzip
import zlib

import pytest

from strop.errors import (
    ConfigError,
    ModelReplyError,
    ModelRequestError,
    ModelUnavailableError,
    StropError,
)
from strop.models.http import HttpPool, Limits, Proxies, Request, Url
from tests.model_server import Fault, ModelServer
from tests.sdk.loopback import unused_port
from tests.sdk.models.conftest import until
from tests.sdk.models.http.peers import Reader, Writer, listening, ok, read_head, saying

DIRECT = Proxies()


def pool_with(**limits: float) -> HttpPool:
    return HttpPool(Limits(**limits), proxies=DIRECT)  # type: ignore[arg-type]


def get(port: int, path: str = "/", *headers: tuple[str, str]) -> Request:
    return Request("GET", Url.parse(f"http://127.0.0.1:{port}{path}"), headers)


async def test_calls_one_after_the_other_share_a_connection(server: ModelServer) -> None:
    async with pool_with() as pool:
        for _ in range(5):
            response = await pool.fetch(get(server.port, "/v1/models"))
            assert response.status == 200

    assert server.connection_count == 1


async def test_calls_at_once_open_no_more_than_the_limit_and_are_served_in_order(
    server: ModelServer,
) -> None:
    async with pool_with(connection_count=3) as pool:
        requests = [get(server.port, f"/{number}") for number in range(30)]
        await asyncio.gather(*map(pool.fetch, requests))

        assert pool.open_count == 3

    assert server.connection_count == 3
    paths = [call.path for call in server.calls]
    assert sorted(paths[:3]) == ["/0", "/1", "/2"]
    assert [int(path[1:]) // 3 for path in paths] == sorted(int(path[1:]) // 3 for path in paths)


async def test_waiting_for_a_place_is_not_charged_to_the_time_limits(server: ModelServer) -> None:
    server.faults.extend([Fault(delay_s=0.4)] * 10)
    async with pool_with(connection_count=1, total_s=3.5, read_s=3.5) as pool:
        responses = await asyncio.gather(*(pool.fetch(get(server.port)) for _ in range(10)))

    assert [response.status for response in responses] == [200] * 10


async def test_a_waiter_that_gives_up_takes_no_place(server: ModelServer) -> None:
    server.faults.append(Fault(delay_s=1.0))
    async with pool_with(connection_count=1) as pool:
        first = asyncio.create_task(pool.fetch(get(server.port, "/first")))
        await until(lambda: bool(server.calls))
        given_up = asyncio.create_task(pool.fetch(get(server.port, "/given-up")))
        last = asyncio.create_task(pool.fetch(get(server.port, "/last")))
        await asyncio.sleep(0)
        given_up.cancel()

        await asyncio.gather(first, last)

    assert [call.path for call in server.calls] == ["/first", "/last"]


async def test_a_waiter_cancelled_as_its_place_comes_passes_it_on(server: ModelServer) -> None:
    async with pool_with(connection_count=1) as pool:
        async with pool.stream(get(server.port)) as response:
            await response.read()
            unlucky = asyncio.create_task(pool.fetch(get(server.port, "/unlucky")))
            next_one = asyncio.create_task(pool.fetch(get(server.port, "/next")))
            await asyncio.sleep(0)
        unlucky.cancel()

        assert (await next_one).status == 200
        assert pool.open_count == 1


async def test_cancelling_closes_the_socket_at_once(server: ModelServer) -> None:
    server.faults.append(Fault(delay_s=30))
    async with pool_with() as pool:
        call = asyncio.create_task(pool.fetch(get(server.port)))
        await until(lambda: bool(server.calls))
        call.cancel()
        with pytest.raises(asyncio.CancelledError):
            await call

        await until(lambda: not server.peers)
        assert pool.open_count == 0


async def test_cancelling_while_connecting_leaves_the_place_free(server: ModelServer) -> None:
    async with pool_with(connection_count=1) as pool:
        call = asyncio.create_task(pool.fetch(get(server.port)))
        await asyncio.sleep(0)
        call.cancel()
        with pytest.raises(asyncio.CancelledError):
            await call

        assert (await pool.fetch(get(server.port))).status == 200


async def test_a_connection_dropped_while_idle_is_replaced_unseen(server: ModelServer) -> None:
    async with pool_with() as pool:
        await pool.fetch(get(server.port))
        for peer in tuple(server.peers):
            peer.transport.close()
        await until(lambda: pool.open_count == 0)

        assert (await pool.fetch(get(server.port))).status == 200


async def test_a_kept_connection_that_closes_before_the_reply_is_tried_once_more(
    server: ModelServer,
) -> None:
    async with pool_with() as pool:
        await pool.fetch(get(server.port))
        server.faults.append(Fault(is_closed=True))

        assert (await pool.fetch(get(server.port))).status == 200

    assert len(server.calls) == 3


async def test_a_fresh_connection_that_closes_before_the_reply_is_an_error(
    server: ModelServer,
) -> None:
    server.faults.append(Fault(is_closed=True))
    async with pool_with() as pool:
        with pytest.raises(ModelUnavailableError, match="before it replied"):
            await pool.fetch(get(server.port))

    assert len(server.calls) == 1


async def test_a_second_drop_in_a_row_is_an_error(server: ModelServer) -> None:
    async with pool_with() as pool:
        await pool.fetch(get(server.port))
        server.faults.extend([Fault(is_closed=True)] * 2)

        with pytest.raises(ModelUnavailableError):
            await pool.fetch(get(server.port))


async def test_a_reply_cut_in_its_middle_is_never_tried_again(server: ModelServer) -> None:
    async with pool_with() as pool:
        await pool.fetch(get(server.port))
        server.faults.append(Fault(body=b"x" * 100, cut_at=0.5))

        with pytest.raises(ModelUnavailableError, match="cut its reply"):
            await pool.fetch(get(server.port))

    assert len(server.calls) == 2


async def test_an_unused_connection_is_closed_after_its_time(server: ModelServer) -> None:
    async with pool_with(idle_s=0.05) as pool:
        await pool.fetch(get(server.port))
        assert pool.open_count == 1

        await until(lambda: pool.open_count == 0)
        assert (await pool.fetch(get(server.port))).status == 200


async def test_closing_ends_calls_under_way_and_refuses_later_ones(server: ModelServer) -> None:
    server.faults.append(Fault(delay_s=30))
    pool = pool_with(connection_count=1)
    calls = [asyncio.create_task(pool.fetch(get(server.port))) for _ in range(2)]
    await until(lambda: bool(server.calls))

    await pool.close()

    outcomes = await asyncio.gather(*calls, return_exceptions=True)
    assert all(isinstance(outcome, StropError) for outcome in outcomes)
    assert pool.open_count == 0
    with pytest.raises(StropError, match="closed"):
        await pool.fetch(get(server.port))


def test_a_pool_works_on_the_next_event_loop() -> None:
    pool = pool_with(idle_s=0.01)

    async def call() -> int:
        async with ModelServer() as server:
            status = (await pool.fetch(get(server.port))).status
        await until(lambda: pool.open_count == 0)
        return status

    assert asyncio.run(call()) == 200
    assert asyncio.run(call()) == 200


async def test_a_pool_whose_loop_still_runs_refuses_another_one(server: ModelServer) -> None:
    async with pool_with() as pool:
        await pool.fetch(get(server.port))

        with pytest.raises(StropError, match="one pool a loop"):
            await asyncio.to_thread(asyncio.run, pool.fetch(get(server.port)))


async def test_hundreds_of_calls_cancelled_at_once_leave_nothing(server: ModelServer) -> None:
    server.faults.extend([Fault(delay_s=30)] * 200)
    async with pool_with(connection_count=100) as pool:
        calls = [asyncio.create_task(pool.fetch(get(server.port))) for _ in range(300)]
        await until(lambda: len(server.calls) == 100)
        for call in calls:
            call.cancel()
        outcomes = await asyncio.gather(*calls, return_exceptions=True)
        await until(lambda: not server.peers)

        assert all(isinstance(outcome, asyncio.CancelledError) for outcome in outcomes)
        assert pool.open_count == 0
        server.faults.clear()
        assert (await pool.fetch(get(server.port))).status == 200


async def test_a_reset_is_said_as_one(server: ModelServer) -> None:
    server.faults.append(Fault(is_reset=True))
    async with pool_with() as pool:
        with pytest.raises(ModelUnavailableError, match="broke off"):
            await pool.fetch(get(server.port))


async def test_nobody_there_is_said_with_the_address() -> None:
    port = unused_port()
    async with pool_with() as pool:
        with pytest.raises(ModelUnavailableError, match=f"127.0.0.1:{port} cannot be reached"):
            await pool.fetch(get(port))


async def test_an_unknown_name_is_said() -> None:
    async with pool_with() as pool:
        with pytest.raises(ModelUnavailableError, match=r"nowhere\.invalid"):
            await pool.fetch(Request("GET", Url.parse("http://nowhere.invalid/")))


async def test_silence_and_slowness_have_limits_of_their_own(server: ModelServer) -> None:
    server.faults.extend([Fault(delay_s=30), Fault(chunk_delay_s=0.02)])
    body = b'{"model": "tiny", "messages": [{"role": "user", "content": "%s"}], "stream": true}'
    url = Url.parse(f"{server.base_url}/chat/completions")
    async with pool_with(read_s=0.5) as pool:
        with pytest.raises(ModelUnavailableError, match=r"no bytes for 0\.5 s"):
            await pool.fetch(get(server.port))
    async with pool_with(total_s=1.5) as pool:
        with pytest.raises(ModelUnavailableError, match=r"no whole reply within 1\.5 s"):
            await pool.fetch(Request("POST", url, body=body % (b"long " * 400)))


@pytest.mark.parametrize("coding", ["gzip", "deflate", "raw deflate", "identity"])
async def test_packed_bodies_are_unpacked(coding: str) -> None:
    text = b"some text, " * 100
    raw = zlib.compressobj(wbits=-15)
    packed = {
        "gzip": gzip.compress(text),
        "deflate": zlib.compress(text),
        "raw deflate": raw.compress(text) + raw.flush(),
        "identity": text,
    }[coding]
    answer = ok(packed, f"content-encoding: {coding.removeprefix('raw ')}")
    async with listening(saying(answer, answer)) as port, pool_with() as pool:
        assert (await pool.fetch(get(port))).body == text
        async with pool.stream(get(port)) as response:
            assert await response.read() == text


@pytest.mark.parametrize(
    "answer",
    [
        ok(gzip.compress(b"x" * 1000)[:-9], "content-encoding: gzip"),
        ok(b"no gzip at all", "content-encoding: gzip"),
        ok(b"?", "content-encoding: br"),
    ],
    ids=["cut", "other bytes", "unasked coding"],
)
async def test_a_badly_packed_body_is_a_reply_error(answer: bytes) -> None:
    async with listening(saying(answer)) as port, pool_with() as pool:
        with pytest.raises(ModelReplyError):
            await pool.fetch(get(port))


@pytest.mark.parametrize(
    "answer",
    [
        ok(b"x" * 3_000_000),
        ok(gzip.compress(b"x" * 3_000_000), "content-encoding: gzip"),
        b"HTTP/1.1 200 OK\r\n\r\n" + b"x" * 3_000_000,
    ],
    ids=["long", "bomb", "endless"],
)
async def test_a_body_beyond_the_limit_is_refused(answer: bytes) -> None:
    async with listening(saying(answer)) as port, pool_with(body_bytes=2_000_000) as pool:
        with pytest.raises(ModelReplyError, match="limit"):
            await pool.fetch(get(port))


async def test_headers_beyond_the_limit_are_refused() -> None:
    async with listening(saying(ok(b"", "x: " + "y" * 100_000))) as port, pool_with() as pool:
        with pytest.raises(ModelReplyError):
            await pool.fetch(get(port))


@pytest.mark.parametrize("answer", [b"SSH-2.0-OpenSSH\r\n\r\n", b"\x00\xff" * 50 + b"\r\n\r\n"])
async def test_what_is_no_http_is_a_reply_error(answer: bytes) -> None:
    async with listening(saying(answer)) as port, pool_with() as pool:
        with pytest.raises(ModelReplyError, match="does not answer in HTTP"):
            await pool.fetch(get(port))


async def test_a_body_without_a_length_ends_with_its_connection() -> None:
    answer = b"HTTP/1.0 200 OK\r\n\r\nall of it"
    async with listening(saying(answer)) as port, pool_with() as pool:
        assert (await pool.fetch(get(port))).body == b"all of it"
        await until(lambda: pool.open_count == 0)


async def test_interim_responses_are_passed_over() -> None:
    answer = b"HTTP/1.1 103 Early Hints\r\n\r\n" + ok(b"final")
    async with listening(saying(answer)) as port, pool_with() as pool:
        assert (await pool.fetch(get(port))).body == b"final"


async def test_bytes_that_nobody_asked_for_end_the_connection() -> None:
    answer = ok(b"one") + ok(b"forged")
    async with listening(saying(answer, ok(b"two"))) as port, pool_with() as pool:
        assert (await pool.fetch(get(port))).body == b"one"
        await until(lambda: pool.open_count == 0)


async def test_a_redirect_is_reported_and_not_followed(server: ModelServer) -> None:
    server.faults.append(Fault(status=307, headers={"location": "http://elsewhere.invalid/"}))
    async with pool_with() as pool:
        response = await pool.fetch(get(server.port))

    assert (response.status, response.headers["location"]) == (307, "http://elsewhere.invalid/")


async def test_leaving_a_stream_early_closes_its_connection(server: ModelServer) -> None:
    server.faults.append(Fault(body=b"x" * 5_000_000))
    async with pool_with() as pool:
        async with pool.stream(get(server.port)) as response:
            async for _ in response:
                break

        await until(lambda: pool.open_count == 0)


async def test_a_slow_reader_holds_the_sender_back() -> None:
    sent = 0

    async def talk(reader: Reader, writer: Writer) -> None:
        nonlocal sent
        await read_head(reader)
        writer.write(b"HTTP/1.1 200 OK\r\ncontent-length: 64000000\r\n\r\n")
        for _ in range(1000):
            writer.write(b"x" * 64_000)
            await writer.drain()
            sent += 64_000

    async with listening(talk) as port, pool_with() as pool, pool.stream(get(port)) as response:
        await asyncio.sleep(0.2)
        held_back_at = sent
        assert len(await response.read()) == 64_000_000

    assert held_back_at < 32_000_000


async def test_a_header_with_a_line_break_is_refused_before_it_is_sent(
    server: ModelServer,
) -> None:
    async with pool_with() as pool:
        with pytest.raises(ModelRequestError, match="API key"):
            await pool.fetch(get(server.port, "/", ("authorization", "Bearer sk\r\nx: y")))

        assert (await pool.fetch(get(server.port))).status == 200
    assert len(server.calls) == 1


@pytest.mark.parametrize(
    ("text", "authority", "target"),
    [
        ("http://host", "host", "/"),
        ("http://host:80/v1", "host", "/v1"),
        ("https://host:8443/v1?a=b", "host:8443", "/v1?a=b"),
        ("http://[::1]:8000/", "[::1]:8000", "/"),
    ],
)
def test_an_address_is_taken_apart(text: str, authority: str, target: str) -> None:
    url = Url.parse(text)

    assert (url.authority, url.target) == (authority, target)


@pytest.mark.parametrize(
    "text", ["", "host:8000", "ftp://host/", "http://", "http://host:x/", "http://a:b@host/"]
)
def test_what_is_no_address_is_refused(text: str) -> None:
    with pytest.raises(ConfigError):
        Url.parse(text)
