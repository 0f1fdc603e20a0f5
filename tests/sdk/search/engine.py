"""A search engine on this machine that speaks the protocols of the real providers."""

import json
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from urllib.parse import parse_qs, urlsplit

from tests.sdk.loopback import Request, Server, reply, serve

HTML = {"content-type": "text/html; charset=utf-8"}
KEY = "k-123"


@dataclass
class Engine:
    """Pages by path, and the faults that come before the next answers."""

    pages: dict[str, tuple[dict[str, str], bytes]] = field(default_factory=dict)
    faults: list[bytes] = field(default_factory=list)
    queries: list[tuple[str, str, int]] = field(default_factory=list)
    """Provider, query and count of each search."""
    server: Server = field(default_factory=lambda: Server(0))

    def put(self, path: str, body: str, headers: dict[str, str] = HTML) -> str:
        """Serve a page; gives its address."""
        self.pages[path] = (headers, body.encode())
        return f"{self.server.url}{path}"

    def answer(self, request: Request) -> bytes:
        parts = urlsplit(request.path)
        if parts.path in self.pages:
            headers, body = self.pages[parts.path]
            return reply(302 if "location" in headers else 200, body, headers)
        provider = {"/serper": "serper", "/tavily": "tavily", "/brave": "brave"}.get(parts.path)
        if provider is None:
            return reply(404, b"no such page")
        if self.faults:
            return self.faults.pop(0)
        return self._search(provider, request, parts.query)

    def _search(self, provider: str, request: Request, query_string: str) -> bytes:
        asked = {name: values[0] for name, values in parse_qs(query_string).items()}
        asked = asked or json.loads(request.body or b"{}")
        header, query, count = {
            "serper": ("x-api-key", "q", "num"),
            "tavily": ("authorization", "query", "max_results"),
            "brave": ("x-subscription-token", "q", "count"),
        }[provider]
        if request.headers.get(header, "").removeprefix("Bearer ") != KEY:
            return reply(401, b'{"message": "Unauthorized"}')
        if request.method != ("GET" if provider == "brave" else "POST"):
            return reply(405, b"")
        self.queries.append((provider, asked[query], int(asked[count])))
        urls = [f"{self.server.url}{path}" for path in self.pages]
        found: object = {
            "serper": {"organic": [{"title": u[-5:], "link": u, "snippet": "S"} for u in urls]},
            "tavily": {"results": [{"title": u[-5:], "url": u, "content": "S"} for u in urls]},
            "brave": {
                "web": {"results": [{"title": u[-5:], "url": u, "description": "S"} for u in urls]}
            },
        }[provider]
        return reply(200, json.dumps(found).encode())


@contextmanager
def run_engine() -> Iterator[Engine]:
    """An engine that answers until the block ends."""
    engine = Engine()
    with serve(engine.answer) as server:
        engine.server = server
        yield engine
