"""A raw server that answers with bytes of the test's choice, and a small real proxy."""

from __future__ import annotations

import asyncio
import contextlib
import socket
import ssl
import threading
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from typing import TypeAlias

Reader: TypeAlias = asyncio.StreamReader
Writer: TypeAlias = asyncio.StreamWriter
Talk: TypeAlias = Callable[[Reader, Writer], Awaitable[None]]


@contextlib.asynccontextmanager
async def listening(talk: Talk, tls: ssl.SSLContext | None = None) -> AsyncIterator[int]:
    """The port of a server that runs `talk` for each connection while the block does."""
    running: set[asyncio.Task[None]] = set()

    def serve(reader: Reader, writer: Writer) -> None:
        task = asyncio.ensure_future(_guarded(talk, reader, writer))
        running.add(task)
        task.add_done_callback(running.discard)

    server = await asyncio.start_server(serve, "127.0.0.1", 0, ssl=tls)
    try:
        yield server.sockets[0].getsockname()[1]
    finally:
        server.close()
        for task in tuple(running):
            task.cancel()
        await asyncio.gather(*running, return_exceptions=True)
        await server.wait_closed()


async def _guarded(talk: Talk, reader: Reader, writer: Writer) -> None:
    try:
        with contextlib.suppress(OSError, asyncio.IncompleteReadError):
            await talk(reader, writer)
    finally:
        writer.close()


async def read_head(reader: Reader) -> bytes:
    """A request's line and headers; its body is read too."""
    head = await reader.readuntil(b"\r\n\r\n")
    for line in head.split(b"\r\n"):
        if line.lower().startswith(b"content-length:"):
            await reader.readexactly(int(line.split(b":")[1]))
    return head


def saying(*answers: bytes) -> Talk:
    """A connection that gives one answer to each request, then closes."""

    async def talk(reader: Reader, writer: Writer) -> None:
        for answer in answers:
            await read_head(reader)
            writer.write(answer)
            await writer.drain()

    return talk


def ok(body: bytes, *headers: str) -> bytes:
    """A whole response."""
    lines = ["HTTP/1.1 200 OK", f"content-length: {len(body)}", *headers]
    return "\r\n".join(lines).encode() + b"\r\n\r\n" + body


class ProxyServer:
    """An HTTP proxy that leads every name to one port, and wants a password if told so."""

    def __init__(self, target_port: int, authorization: str | None = None) -> None:
        self.target_port = target_port
        self.authorization = authorization
        self.requests: list[str] = []

    async def talk(self, reader: Reader, writer: Writer) -> None:
        head = await reader.readuntil(b"\r\n\r\n")
        self.requests.append(head.split(b"\r\n")[0].decode())
        wanted = self.authorization
        if wanted is not None and f"proxy-authorization: {wanted}".encode() not in head:
            writer.write(b"HTTP/1.1 407 Who are you\r\ncontent-length: 0\r\n\r\n")
            return
        there = await asyncio.open_connection("127.0.0.1", self.target_port)
        if head.startswith(b"CONNECT"):
            writer.write(b"HTTP/1.1 200 Connected\r\n\r\n")
        else:
            there[1].write(head)
        pumps = [
            asyncio.create_task(_pump(reader, there[1])),
            asyncio.create_task(_pump(there[0], writer)),
        ]
        try:
            await asyncio.gather(*pumps)
        finally:
            for pump in pumps:
                pump.cancel()
            there[1].close()


async def _pump(source: Reader, target: Writer) -> None:
    with contextlib.suppress(OSError):
        while piece := await source.read(65536):
            target.write(piece)
            await target.drain()
    target.close()


@contextlib.contextmanager
def telling_why(tls: ssl.SSLContext, answer: bytes) -> Iterator[int]:
    """The port of a server whose TLS alerts arrive; those of asyncio hang up and tell nothing."""
    listener = socket.create_server(("127.0.0.1", 0))
    is_over = threading.Event()

    def serve() -> None:
        while True:
            raw, _ = listener.accept()
            if is_over.is_set():
                raw.close()
                return
            with tls.wrap_socket(raw, True, do_handshake_on_connect=False) as connection:
                _greet(connection, answer)

    server = threading.Thread(target=serve)
    server.start()
    port: int = listener.getsockname()[1]
    try:
        yield port
    finally:
        is_over.set()
        socket.create_connection(("127.0.0.1", port)).close()
        server.join()
        listener.close()


def _greet(connection: ssl.SSLSocket, answer: bytes) -> None:
    with contextlib.suppress(OSError):
        try:
            connection.do_handshake()
        except ssl.SSLError:
            # A reset, which unread bytes would cause, could overtake the alert.
            connection.shutdown(socket.SHUT_WR)
        else:
            connection.recv(65536)
            connection.sendall(answer)
        while connection.recv(65536):
            pass
