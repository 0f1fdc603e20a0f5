"""The open index as plain ASGI around the rest of the hub (step: resolve).

An index page answers from memory, on the event loop: a route with a session costs eight times as
much, and installers ask for many pages. Absent and invisible are the same 404 (I12).
"""

import logging
from typing import Any

from sqlalchemy.exc import DBAPIError
from starlette.types import ASGIApp, Receive, Scope, Send

from strop.errors import InvalidRefError
from strop.hub.refs import normalize_name
from strop_hub.content import Content
from strop_hub.content_response import (
    PIECE_BYTES,
    ContentResponse,
    read_local,
    size_of,
)
from strop_hub.errors import HubError
from strop_hub.hub import Hub, in_thread
from strop_hub.index import queries
from strop_hub.index.cache import PageCache, PageKey
from strop_hub.index.negotiation import Form, choose_form
from strop_hub.index.pages import RenderedPage

logger = logging.getLogger(__name__)

_PAGE_HEADERS = [
    (b"vary", b"Accept"),
    # Always asked again, mostly answered with 304: a fresh push is seen by the next install.
    (b"cache-control", b"public, max-age=0, must-revalidate"),
    (b"access-control-allow-origin", b"*"),
    (b"x-content-type-options", b"nosniff"),
]
_NOT_FOUND = b"Not found\n"


class IndexApp:
    """Serves ``/simple/…`` and ``/owners/…``; everything else goes on to the wrapped app."""

    def __init__(self, app: ASGIApp, hub: Hub) -> None:
        self._app = app
        self._hub = hub
        self._cache = PageCache(hub)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request."""
        if scope["type"] != "http" or not scope["path"].startswith(("/simple", "/owners/")):
            await self._app(scope, receive, send)
            return
        try:
            await self._route(scope, receive, send)
        except (HubError, DBAPIError) as error:
            # Raised before anything was sent; the handlers of the wrapped app do not see this.
            logger.error("%s failed: %s", scope["path"], error)
            await _send_plain(send, 503, b"The hub's storage does not answer; try again later\n")

    async def _route(self, scope: Scope, receive: Receive, send: Send) -> None:
        match scope["path"].split("/")[1:]:
            case ["simple", *rest] if len(rest) <= 2:
                await self._serve_page(scope, send, None, rest)
            case ["owners", owner, "simple", *rest] if len(rest) <= 2:
                await self._serve_page(scope, send, owner, rest)
            case ["owners", owner, "files", name, filename] if filename.isprintable():
                await self._serve_file(scope, receive, send, (owner, name, filename))
            case _:
                await self._app(scope, receive, send)

    async def _serve_page(
        self, scope: Scope, send: Send, owner: str | None, rest: list[str]
    ) -> None:
        if scope["method"] not in ("GET", "HEAD"):
            await _send_plain(send, 405, b"Use GET or HEAD\n", [(b"allow", b"GET, HEAD")])
            return
        location = _normal_location(scope["path"], owner, rest)
        if location is None:
            await _send_plain(send, 404, _NOT_FOUND)
        elif location:
            query = f"?{scope['query_string'].decode('latin-1')}" if scope["query_string"] else ""
            target = [(b"location", (location + query).encode("latin-1"))]
            await _send_plain(send, 301, b"", target)
        else:
            await self._send_page(scope, send, PageKey(owner, rest[0] or None))

    async def _send_page(self, scope: Scope, send: Send, key: PageKey) -> None:
        accept, condition = _read_headers(scope)
        form = choose_form(accept, scope["query_string"].decode("latin-1"))
        if form is None:
            known = ", ".join(form.value for form in Form)
            await _send_plain(send, 406, f"This index speaks {known}\n".encode())
            return
        forms = await self._cache.get(key)
        if forms is None:
            await _send_plain(send, 404, _NOT_FOUND)
            return
        page = forms.by_form[form]
        if condition is not None and _is_known(condition, page.etag):
            await _send(send, 304, [(b"etag", page.etag.encode()), *_PAGE_HEADERS], b"")
        else:
            body = b"" if scope["method"] == "HEAD" else page.body
            await _send(send, 200, _headers_of(page), body)

    async def _serve_file(
        self, scope: Scope, receive: Receive, send: Send, names: tuple[str, str, str]
    ) -> None:
        if scope["method"] not in ("GET", "HEAD"):
            await _send_plain(send, 405, b"Use GET or HEAD\n", [(b"allow", b"GET, HEAD")])
            return
        found, body = await in_thread(self._hub.workers.database, _find, self._hub, names)
        if found is None:
            await _send_plain(send, 404, _NOT_FOUND)
            return
        content = await self._content_of(found, body)
        await ContentResponse(self._hub, content, body)(scope, receive, send)

    async def _content_of(self, found: queries.FoundFile, body: bytes | None) -> Content:
        if found.filename is not None and found.size_bytes is not None:
            kind = "application/octet-stream"
            return Content(found.sha256, found.size_bytes, kind, True, found.filename)
        size = len(body) if body is not None else None
        if size is None:
            blob = self._hub.workers.blob
            size = await in_thread(blob, size_of, self._hub.storage, found.sha256)
        return Content(found.sha256, size, "text/plain; charset=utf-8", True)


def _find(hub: Hub, names: tuple[str, str, str]) -> tuple[queries.FoundFile | None, bytes | None]:
    """The file, and its bytes where reading them at once saves a change of threads."""
    with hub.database.engine.connect() as connection:
        found = queries.find_file(connection, *names)
    if found is None or (found.size_bytes or 0) > PIECE_BYTES:
        return found, None
    return found, read_local(hub.storage, found.sha256)


def _normal_location(path: str, owner: str | None, rest: list[str]) -> str | None:
    """Where the same page lies under its normal address, relative to the one asked for.

    The empty string when this is it; None when no page can lie there. What is redirected depends
    on the spelling alone, never on what exists.
    """
    name, *after = rest or [""]
    if after not in ([], [""]):
        return None
    try:
        normal_owner = owner if owner is None else normalize_name(owner)
        normal_name = name and normalize_name(name)
    except InvalidRefError:
        return None
    owners = ["owners", normal_owner] if normal_owner else []
    normal = "/".join(part for part in [*owners, "simple", normal_name] if part) + "/"
    if path == f"/{normal}":
        return ""
    # Relative, since the hub may lie behind a prefix that it does not see here.
    return "../" * (path.count("/") - 1) + normal


def _read_headers(scope: Scope) -> tuple[str, str | None]:
    accepted, condition = [], None
    for name, value in scope["headers"]:
        if name == b"accept":
            accepted.append(value.decode("latin-1"))
        elif name == b"if-none-match":
            condition = value.decode("latin-1")
    return ",".join(accepted), condition


def _is_known(condition: str, etag: str) -> bool:
    return condition == etag or any(
        tag.strip().removeprefix("W/") in ("*", etag) for tag in condition.split(",")
    )


def _headers_of(page: RenderedPage) -> list[tuple[bytes, bytes]]:
    return [
        (b"content-type", page.content_type.encode()),
        (b"content-length", str(len(page.body)).encode()),
        (b"etag", page.etag.encode()),
        *_PAGE_HEADERS,
    ]


async def _send_plain(
    send: Send, status: int, body: bytes, extra: list[tuple[bytes, bytes]] | None = None
) -> None:
    headers = [
        (b"content-type", b"text/plain; charset=utf-8"),
        (b"content-length", str(len(body)).encode()),
        *_PAGE_HEADERS,
        *(extra or []),
    ]
    await _send(send, status, headers, body)


async def _send(send: Send, status: int, headers: list[Any], body: bytes) -> None:
    await send({"type": "http.response.start", "status": status, "headers": headers})
    await send({"type": "http.response.body", "body": body})
