"""The indexes as plain ASGI around the rest of the hub (step: resolve).

An index page answers from memory, on the event loop: a route with a session costs eight times as
much, and installers ask for many pages. Absent and invisible are the same 404 (I12).
"""

import logging
from urllib.parse import quote

from sqlalchemy.exc import DBAPIError
from starlette.types import ASGIApp, Receive, Scope, Send

from strop_hub.content_response import PIECE_BYTES, ContentResponse, read_local
from strop_hub.errors import HubError
from strop_hub.hub import Hub, in_thread
from strop_hub.index import queries
from strop_hub.index.cache import PageCache, PageKey
from strop_hub.index.closed import ClosedDoor
from strop_hub.index.content import content_of
from strop_hub.index.sending import (
    NOT_FOUND,
    OPEN_HEADERS,
    accepted_form,
    is_read,
    normal_location,
    send_moved,
    send_not_acceptable,
    send_not_allowed,
    send_page,
    send_plain,
)
from strop_hub.registry.moves import find_moved

logger = logging.getLogger(__name__)

_ROOMS = ("/simple", "/owners/", "/auth/")


class IndexApp:
    """Serves ``/simple/…``, ``/owners/…`` and ``/auth/…``; the rest goes on to the wrapped app."""

    def __init__(self, app: ASGIApp, hub: Hub) -> None:
        self._app = app
        self._hub = hub
        self._cache = PageCache(hub)
        self._closed = ClosedDoor(hub)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request."""
        if scope["type"] != "http" or not scope["path"].startswith(_ROOMS):
            await self._app(scope, receive, send)
            return
        try:
            await self._route(scope, receive, send)
        except (HubError, DBAPIError) as error:
            # Raised before anything was sent; the handlers of the wrapped app do not see this.
            logger.error("%s failed: %s", scope["path"], error)
            text = b"The hub's storage does not answer; try again later\n"
            await send_plain(send, 503, text, OPEN_HEADERS)

    async def _route(self, scope: Scope, receive: Receive, send: Send) -> None:
        match scope["path"].split("/")[1:]:
            case ["simple", *rest] if len(rest) <= 2:
                await self._serve_page(scope, send, None, rest)
            case ["owners", owner, "simple", *rest] if len(rest) <= 2:
                await self._serve_page(scope, send, owner, rest)
            case ["owners", owner, "files", name, filename] if filename.isprintable():
                await self._serve_file(scope, receive, send, (owner, name, filename))
            case ["auth", *_]:
                await self._closed(scope, receive, send)
            case _:
                await self._app(scope, receive, send)

    async def _serve_page(
        self, scope: Scope, send: Send, owner: str | None, rest: list[str]
    ) -> None:
        if not is_read(scope):
            await send_not_allowed(send, OPEN_HEADERS)
            return
        location = normal_location(scope["path"], owner, rest)
        if location is None:
            await send_plain(send, 404, NOT_FOUND, OPEN_HEADERS)
        elif location:
            await send_moved(scope, send, location, OPEN_HEADERS)
        elif (form := accepted_form(scope)) is None:
            await send_not_acceptable(send, OPEN_HEADERS)
        else:
            forms = await self._cache.get(PageKey(owner, rest[0] or None))
            if forms is None and await self._send_on(scope, send, (owner, rest[0]), "simple", ""):
                return
            await send_page(scope, send, form, forms, OPEN_HEADERS)

    async def _send_on(
        self, scope: Scope, send: Send, names: tuple[str | None, str], room: str, rest: str
    ) -> bool:
        """Lead from an earlier name to the present one; whether there is one."""
        owner, name = names
        if not owner or not name:
            return False
        moved = await in_thread(self._hub.workers.database, _find_moved, self._hub, owner, name)
        if moved is not None:
            location = f"../../../{moved[0]}/{room}/{moved[1]}/{quote(rest, safe='')}"
            await send_moved(scope, send, location, OPEN_HEADERS, status=302)
        return moved is not None

    async def _serve_file(
        self, scope: Scope, receive: Receive, send: Send, names: tuple[str, str, str]
    ) -> None:
        if not is_read(scope):
            await send_not_allowed(send, OPEN_HEADERS)
            return
        found, body = await in_thread(self._hub.workers.database, _find, self._hub, names)
        if found is None:
            if not await self._send_on(scope, send, names[:2], "files", names[2]):
                await send_plain(send, 404, NOT_FOUND, OPEN_HEADERS)
            return
        self._hub.downloads.note(found.environment_id)
        content = await content_of(self._hub, found, body, is_public=True)
        await ContentResponse(self._hub, content, body)(scope, receive, send)


def _find_moved(hub: Hub, owner: str, name: str) -> tuple[str, str] | None:
    with hub.database.read() as session:
        return find_moved(session, queries.OPEN, owner, name)


def _find(hub: Hub, names: tuple[str, str, str]) -> tuple[queries.FoundFile | None, bytes | None]:
    """The file, and its bytes where reading them at once saves a change of threads."""
    with hub.database.engine.connect() as connection:
        found = queries.find_file(connection, *names)
    if found is None or (found.size_bytes or 0) > PIECE_BYTES:
        return found, None
    return found, read_local(hub.storage, found.sha256)
