"""A proxy between client and engine that keeps what passes, for tests that trust neither."""

from __future__ import annotations

import json
import threading
import urllib.error
import urllib.request
from collections.abc import Iterator
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Self

_DIRECT = urllib.request.build_opener(urllib.request.ProxyHandler({}))


@dataclass
class Exchange:
    """One request and its reply."""

    path: str
    request: dict[str, Any]
    reply: dict[str, Any]
    """Empty where it was streamed."""
    events: list[dict[str, Any]] = field(default_factory=list)
    """Of a stream, in order."""
    status: int = 200


@dataclass
class Recording:
    """Serves on loopback what `target` answers."""

    target: str
    """Ends in ``/v1``."""
    exchanges: list[Exchange] = field(default_factory=list)

    def __enter__(self) -> Self:
        recording = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers["content-length"]))
                status, kind, reply = recording._forward(self.path, body)
                self.send_response(status)
                self.send_header("content-type", kind)
                self.send_header("content-length", str(len(reply)))
                self.end_headers()
                self.wfile.write(reply)

            def log_message(self, *_: object) -> None:
                pass

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        # A client may leave its connections open longer than the test lasts.
        self._server.daemon_threads = True
        self._server.block_on_close = False
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.05,))
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()

    @property
    def base_url(self) -> str:
        return f"http://127.0.0.1:{self._server.server_port}/v1"

    def replies(self, end: str) -> list[Exchange]:
        """The exchanges at paths with this end, in the order in which they ended."""
        return [each for each in self.exchanges if each.path.endswith(end)]

    def ask(self, path: str, body: dict[str, Any]) -> dict[str, Any]:
        """Ask the engine itself; nothing is kept."""
        _, _, reply = self._post(path, json.dumps(body).encode())
        document: dict[str, Any] = json.loads(reply)
        return document

    def _forward(self, path: str, body: bytes) -> tuple[int, str, bytes]:
        status, kind, reply = self._post(path, body)
        is_stream = kind.startswith("text/event-stream")
        events = list(_events(reply)) if is_stream else []
        document = {} if is_stream else json.loads(reply)
        self.exchanges.append(Exchange(path, json.loads(body), document, events, status))
        return status, kind, reply

    def _post(self, path: str, body: bytes) -> tuple[int, str, bytes]:
        url = self.target.removesuffix("/v1") + path
        request = urllib.request.Request(url, body, {"content-type": "application/json"})
        try:
            with _DIRECT.open(request, timeout=600) as reply:
                return reply.status, reply.headers["content-type"], reply.read()
        except urllib.error.HTTPError as refused:
            with refused:
                return refused.code, refused.headers["content-type"], refused.read()


def _events(stream: bytes) -> Iterator[dict[str, Any]]:
    for line in stream.decode().split("\n"):
        if line.startswith("data: {"):
            yield json.loads(line.removeprefix("data: "))
