"""A proxy between client and engine that keeps what passes, for tests that trust neither."""

from __future__ import annotations

import json
import threading
import urllib.request
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
                reply = recording._forward(self.path, body)
                self.send_response(200)
                self.send_header("content-type", "application/json")
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
        reply: dict[str, Any] = json.loads(self._post(path, json.dumps(body).encode()))
        return reply

    def _forward(self, path: str, body: bytes) -> bytes:
        reply = self._post(path, body)
        self.exchanges.append(Exchange(path, json.loads(body), json.loads(reply)))
        return reply

    def _post(self, path: str, body: bytes) -> bytes:
        url = self.target.removesuffix("/v1") + path
        request = urllib.request.Request(url, body, {"content-type": "application/json"})
        with _DIRECT.open(request, timeout=600) as reply:
            found: bytes = reply.read()
            return found
