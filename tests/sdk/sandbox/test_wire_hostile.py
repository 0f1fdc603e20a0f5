"""Frames, results and handshakes that nobody honest has written are refused, never believed."""

import asyncio
import contextlib
import json
import os
import socket
import struct
from collections.abc import AsyncIterator
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from strop.errors import SandboxError
from strop.sandbox.backends.handshake import (
    check_as_agent,
    proof,
    prove_as_client,
    read_words,
    send_words,
)
from strop.sandbox.base import Level
from strop.sandbox.channel import SocketChannel
from strop.sandbox.result import Origin, read_result
from strop.sandbox.wire import HEADER, pack_frame, pack_result

ORIGIN = Origin("local", Level.NAMESPACE, queue_s=1.5, total_s=3.0)
HEAD: dict[str, Any] = {
    "status": "ok",
    "exit_code": 0,
    "signal": None,
    "limit": None,
    "stdout_bytes": 1,
    "stderr_bytes": 2,
    "wall_s": 1.0,
    "cpu_s": 0.5,
    "peak_bytes": 7,
}
TOKEN = "a token that nobody guesses"


def _payload(head: dict[str, Any], blobs: list[bytes]) -> bytes:
    return pack_result(b"r", head, blobs)[HEADER.size :]


def _files(head: object, blobs: list[bytes]) -> bytes:
    return _payload(HEAD, [b"", b"", pack_result(b"r", head, blobs)[HEADER.size :]])  # type: ignore[arg-type]


def test_a_result_says_what_it_was_told_and_where_it_ran() -> None:
    result = read_result(_payload(HEAD, [b"o", b"ee"]), ORIGIN)

    assert (result.stdout, result.stderr) == (b"o", b"ee")
    assert (result.backend, result.isolation) == ("local", Level.NAMESPACE)
    assert (result.queue_s, result.setup_s, result.wall_s) == (1.5, 2.0, 1.0)
    assert not result.is_truncated
    assert result.is_ok


def test_time_that_nobody_measured_is_no_setup() -> None:
    assert read_result(_payload(HEAD, [b"", b""]), Origin("x", Level.NONE)).setup_s == 0
    assert read_result(_payload(HEAD, [b"", b""]), Origin("x", Level.NONE, 0, 0.5)).setup_s == 0


def test_trouble_is_an_error_of_the_sandbox_and_no_result() -> None:
    with pytest.raises(SandboxError, match="local could not prepare a run: no space"):
        read_result(_payload({"trouble": "no space"}, []), ORIGIN)


def test_collected_files_come_with_their_errors() -> None:
    head = {"names": ["a"], "errors": {"b": [2, "No such file"]}}
    files = read_result(_files(head, [b"content"]), ORIGIN).files

    assert files["a"] == b"content"
    assert isinstance(files["b"], FileNotFoundError)
    assert files["b"].filename == "b"


@pytest.mark.parametrize(
    ("head", "blobs"),
    [
        ({}, []),
        ({"names": ["a"]}, [b""]),
        ({"names": ["a"], "errors": {}}, []),
        ({"names": [], "errors": {}}, [b"x"]),
        ({"names": 1, "errors": {}}, []),
        ({"names": [], "errors": []}, []),
        ({"names": [], "errors": {"a": 5}}, []),
    ],
)
def test_garbled_collections_are_refused(head: dict[str, Any], blobs: list[bytes]) -> None:
    with pytest.raises(SandboxError, match="garbled"):
        read_result(_files(head, blobs), ORIGIN)


HEADS = st.recursive(
    st.none() | st.integers() | st.text(max_size=5) | st.just("names"),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(st.sampled_from(["names", "errors", "sizes", "a"]), inner, max_size=4)
    ),
    max_leaves=8,
)


@given(st.binary(max_size=60) | HEADS.map(lambda head: _words(head) + b"rest"))
def test_whatever_a_confined_process_tells_of_its_files_is_read_or_refused(blob: bytes) -> None:
    with contextlib.suppress(SandboxError):
        read_result(_payload(HEAD, [b"", b"", blob]), ORIGIN)


@contextlib.asynccontextmanager
async def _channels() -> AsyncIterator[tuple[SocketChannel, SocketChannel]]:
    near, far = socket.socketpair()
    one, other = SocketChannel(near), SocketChannel(far)
    try:
        yield one, other
    finally:
        one.close()
        other.close()


@pytest.mark.parametrize("size", [0, 1, 4, 5, 1 << 18, (1 << 18) + 1, 3_000_000])
async def test_frames_of_any_size_arrive_in_order(size: int) -> None:
    async with _channels() as (one, other):
        frames = [pack_frame(b"o", bytes([n]) * size) for n in range(3)]
        sending = asyncio.gather(*(one.send(frame) for frame in frames[:1]))
        received = [await other.receive()]
        await sending
        for frame in frames[1:]:
            task = asyncio.create_task(one.send(frame))
            received.append(await other.receive())
            await task

    assert [reply.payload for reply in received if reply] == [bytes([n]) * size for n in range(3)]


async def test_frames_that_come_byte_by_byte_are_put_together() -> None:
    near, far = socket.socketpair()
    channel = SocketChannel(far)
    frame = pack_frame(b"e", b"hello")
    with near:
        waiting = asyncio.create_task(channel.receive())
        for byte in frame * 2:
            near.send(bytes([byte]))
            await asyncio.sleep(0)
        first, second = await waiting, await channel.receive()
    channel.close()

    assert first == second
    assert first is not None
    assert (first.tag, first.payload) == (b"e", b"hello")


@pytest.mark.parametrize("cut", range(1, 10))
async def test_a_frame_that_is_cut_is_none(cut: int) -> None:
    near, far = socket.socketpair()
    channel = SocketChannel(far)
    with near:
        near.send(pack_frame(b"e", b"hello")[:-cut])
    assert await channel.receive() is None
    channel.close()


async def test_closing_wakes_whoever_waits_and_frees_the_descriptor() -> None:
    closed: list[int] = []
    near, far = socket.socketpair()
    channel = SocketChannel(near, on_close=lambda: closed.append(1))
    waiting = asyncio.create_task(channel.receive())
    await asyncio.sleep(0)
    channel.close()
    channel.close()

    assert await asyncio.wait_for(waiting, 60) is None
    assert await channel.receive() is None
    await channel.send(b"ignored")
    assert near.fileno() == -1
    assert closed == [1]
    far.close()


async def test_a_cancelled_reader_leaves_the_channel_usable() -> None:
    async with _channels() as (one, other):
        waiting = asyncio.create_task(other.receive())
        await asyncio.sleep(0)
        waiting.cancel()
        await asyncio.gather(waiting, return_exceptions=True)
        await one.send(pack_frame(b"o", b"later"))
        reply = await other.receive()

    assert reply is not None
    assert reply.payload == b"later"


async def test_sending_to_nobody_is_noticed_by_the_reader_only() -> None:
    async with _channels() as (one, other):
        other.close()
        await one.send(pack_frame(b"o", b"x" * 1_000_000))
        assert await one.receive() is None


@contextlib.asynccontextmanager
async def _streams() -> AsyncIterator[
    tuple[
        tuple[asyncio.StreamReader, asyncio.StreamWriter],
        tuple[asyncio.StreamReader, asyncio.StreamWriter],
    ]
]:
    near, far = socket.socketpair()
    one = await asyncio.open_connection(sock=near)
    other = await asyncio.open_connection(sock=far)
    try:
        yield one, other
    finally:
        for writer in (one[1], other[1]):
            writer.close()
            with contextlib.suppress(OSError):
                await writer.wait_closed()


async def _agent(streams: tuple[asyncio.StreamReader, asyncio.StreamWriter], token: str) -> Any:
    try:
        call, answer = await check_as_agent(*streams, token)
    except SandboxError as error:
        await send_words(streams[1], {"error": str(error)})
        return error
    await send_words(streams[1], {"proof": answer})
    return call


async def test_both_sides_of_one_token_agree() -> None:
    async with _streams() as (client, agent):
        serving = asyncio.create_task(_agent(agent, TOKEN))
        await prove_as_client(*client, TOKEN, {"call": "run", "n": [1]})

        assert await serving == {"call": "run", "n": [1]}


@pytest.mark.parametrize("token", ["", TOKEN + " ", TOKEN[:-1], TOKEN.upper(), "é"])
async def test_another_token_is_refused_by_both(token: str) -> None:
    async with _streams() as (client, agent):
        serving = asyncio.create_task(_agent(agent, TOKEN))
        with pytest.raises(SandboxError, match="the agent refused: wrong token"):
            await prove_as_client(*client, token, {})
        assert isinstance(await serving, SandboxError)


async def test_a_recorded_handshake_is_worth_nothing_the_next_time() -> None:
    async with _streams() as (client, agent):
        serving = asyncio.create_task(_agent(agent, TOKEN))
        greeting = await read_words(client[0])
        body = "{}"
        words = {"nonce": "n", "call": body}
        words["proof"] = proof(TOKEN, "client", greeting["nonce"], "n", body)
        await send_words(client[1], words)
        assert await serving == {}
    async with _streams() as (client, agent):
        serving = asyncio.create_task(_agent(agent, TOKEN))
        await read_words(client[0])
        await send_words(client[1], words)
        assert isinstance(await serving, SandboxError)


async def test_a_call_that_was_changed_on_the_way_is_refused() -> None:
    async with _streams() as (client, agent):
        serving = asyncio.create_task(_agent(agent, TOKEN))
        greeting = await read_words(client[0])
        words = {"nonce": "n", "call": '{"mount": "/"}'}
        words["proof"] = proof(TOKEN, "client", greeting["nonce"], "n", "{}")
        await send_words(client[1], words)

        assert isinstance(await serving, SandboxError)


def test_sides_and_nonces_do_not_stand_for_each_other() -> None:
    proofs = {
        proof(TOKEN, "client", "a", "b"),
        proof(TOKEN, "agent", "a", "b"),
        proof(TOKEN, "client", "b", "a"),
        proof(TOKEN, "client", "ab"),
        proof(TOKEN + "x", "client", "a", "b"),
    }

    assert len(proofs) == 5


def _words(content: object) -> bytes:
    text = json.dumps(content).encode()
    return struct.pack("!I", len(text)) + text


@pytest.mark.parametrize(
    ("sent", "words"),
    [
        (b"", "hung up"),
        (b"\0", "hung up"),
        (b"HTTP/1.1 400 Bad Request\r\n\r\n", "does not speak"),
        (struct.pack("!I", 5) + b"abc", "hung up"),
        (struct.pack("!I", 3) + b"abc", "hung up"),
        (struct.pack("!I", 2) + b"\xff\xfe", "hung up"),
        (_words([1]), "does not speak"),
        (_words("text"), "does not speak"),
        (_words({}), "the agent speaks None"),
        (_words({"protocol": "strop-sandbox/0"}), "the agent speaks 'strop-sandbox/0'"),
        (_words({"protocol": "strop-sandbox/1"}) + _words({}), "does not know the token"),
        (_words({"protocol": "strop-sandbox/1", "nonce": "x"}), "hung up"),
        (
            _words({"protocol": "strop-sandbox/1", "nonce": "x"}) + _words({"proof": "0" * 64}),
            "does not know the token",
        ),
    ],
)
async def test_something_that_is_no_agent_is_told_apart(sent: bytes, words: str) -> None:
    async with _streams() as (client, agent):
        agent[1].write(sent)
        agent[1].write_eof()
        with pytest.raises(SandboxError, match=words):
            await prove_as_client(*client, TOKEN, {})


@pytest.mark.parametrize("content", [b"", os.urandom(64), _words({}), _words({"proof": None})])
async def test_something_that_is_no_client_is_refused(content: bytes) -> None:
    async with _streams() as (client, agent):
        client[1].write(content)
        client[1].write_eof()
        with pytest.raises(SandboxError):
            await check_as_agent(*agent, TOKEN)
