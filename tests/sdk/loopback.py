"""Small servers on this machine that misbehave on purpose."""

import atexit
import contextlib
import functools
import json
import socket
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

HUB = {"strop-hub": "0.1.0", "x-request-id": "r-1"}
"""The headers by which a client knows a hub."""


@dataclass
class Request:
    """What a client sent."""

    method: str
    path: str
    headers: dict[str, str]
    body: bytes


@dataclass
class Server:
    """A server that answers each connection with what `answer` returns."""

    port: int
    requests: list[Request] = field(default_factory=list)

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"


Answer = Callable[[Request], bytes | None]
"""The bytes to send before the connection closes; None sends nothing."""


@contextmanager
def serve(answer: Answer, *, is_eager: bool = False) -> Iterator[Server]:
    """Answer every connection once, in a thread of its own; an eager one reads nothing."""
    listener = socket.create_server(("127.0.0.1", 0))
    server = Server(listener.getsockname()[1])

    def work(connection: socket.socket) -> None:
        with connection, contextlib.suppress(OSError):
            request = Request("", "", {}, b"") if is_eager else _read(connection)
            if request is None:
                return
            server.requests.append(request)
            connection.sendall(answer(request) or b"")
            connection.shutdown(socket.SHUT_WR)
            # Reading to the end keeps the kernel from resetting what is still on its way.
            while not is_eager and connection.recv(65536):
                pass

    def accept() -> None:
        with contextlib.suppress(OSError):
            while True:
                connection, _ = listener.accept()
                connection.settimeout(60)
                threading.Thread(target=work, args=(connection,), daemon=True).start()

    thread = threading.Thread(target=accept, daemon=True)
    thread.start()
    try:
        yield server
    finally:
        # Closing alone does not wake a thread that is inside accept().
        with contextlib.suppress(OSError):
            listener.shutdown(socket.SHUT_RDWR)
        listener.close()
        thread.join(60)


@dataclass
class Silence:
    """A server that never answers."""

    listener: socket.socket
    _calls: list[socket.socket] = field(default_factory=list)

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.listener.getsockname()[1]}"

    def wait_for_a_call(self) -> None:
        """Until somebody has connected."""
        self.listener.settimeout(60)
        self._calls.append(self.listener.accept()[0])

    def call_count(self) -> int:
        """How many have connected."""
        self.listener.setblocking(False)
        with contextlib.suppress(BlockingIOError):
            while True:
                self._calls.append(self.listener.accept()[0])
        return len(self._calls)


@contextmanager
def silent_server() -> Iterator[Silence]:
    """A server that takes connections and answers none."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        silence = Silence(listener)
        try:
            yield silence
        finally:
            for call in silence._calls:
                call.close()


@contextmanager
def listen_silently() -> Iterator[str]:
    """An address where connections are taken and never answered."""
    with silent_server() as silence:
        yield silence.url


@contextmanager
def drip(beginning: bytes, *, pause_s: float = 0.05) -> Iterator[str]:
    """The address of a server that sends a beginning, and after it a byte now and then."""
    is_over = threading.Event()

    def work(listener: socket.socket) -> None:
        with contextlib.suppress(OSError), listener.accept()[0] as connection:
            connection.sendall(beginning)
            while not is_over.wait(pause_s):
                connection.sendall(b" ")

    with socket.create_server(("127.0.0.1", 0)) as listener:
        thread = threading.Thread(target=work, args=(listener,))
        thread.start()
        try:
            yield f"http://127.0.0.1:{listener.getsockname()[1]}"
        finally:
            is_over.set()
            thread.join()


def unused_port() -> int:
    """A port at which nobody listens, nor ever will while this process lives."""
    port: int = _held_socket().getsockname()[1]
    return port


def unused_address() -> str:
    """An address at which nobody listens."""
    return f"http://127.0.0.1:{unused_port()}"


@functools.cache
def _held_socket() -> socket.socket:
    # Bound and not listening: connections are refused, and nobody else is given the port.
    held = socket.socket()
    held.bind(("127.0.0.1", 0))
    atexit.register(held.close)
    return held


def reply(
    status: int = 200,
    body: bytes | str | Mapping[str, Any] = b"",
    headers: Mapping[str, str] | None = None,
    *,
    length: int | None = None,
) -> bytes:
    """An HTTP answer; `length` announces another length than the body has."""
    if isinstance(body, Mapping):
        body = json.dumps(body)
    content = body.encode() if isinstance(body, str) else body
    lines = [f"HTTP/1.1 {status} Status", "connection: close"]
    lines.append(f"content-length: {len(content) if length is None else length}")
    lines += [f"{name}: {value}" for name, value in (HUB if headers is None else headers).items()]
    return "\r\n".join(lines).encode() + b"\r\n\r\n" + content


def _read(connection: socket.socket) -> Request | None:
    buffer = b""
    while b"\r\n\r\n" not in buffer:
        chunk = connection.recv(65536)
        if not chunk:
            return None
        buffer += chunk
    head, _, body = buffer.partition(b"\r\n\r\n")
    first, *lines = head.decode().split("\r\n")
    headers = {n.lower(): v for n, _, v in (line.partition(": ") for line in lines)}
    method, path, _ = first.split(" ")
    while len(body) < int(headers.get("content-length", 0)):
        chunk = connection.recv(65536)
        if not chunk:
            break
        body += chunk
    return Request(method, path, headers, body)
