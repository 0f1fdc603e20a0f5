"""The closed door ``/auth/…``: an owner's index for those whom a token shows it (step: resolve).

Without a valid token every address answers 401, so that clients send theirs; with one, absent and
invisible are the same 404. Open doors never answer 401: uv would fail on public dependencies.
"""

from urllib.parse import quote

from starlette.datastructures import Headers
from starlette.types import Receive, Scope, Send

from strop_hub.auth import Caller, recognise
from strop_hub.content_response import ContentResponse
from strop_hub.errors import UnauthenticatedError
from strop_hub.hub import Hub, in_thread
from strop_hub.index import queries
from strop_hub.index.content import content_of
from strop_hub.index.listing import render_listing
from strop_hub.index.negotiation import Form
from strop_hub.index.pages import PageForms, render_project
from strop_hub.index.sending import (
    CLOSED_HEADERS,
    NOT_FOUND,
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

_TO_FILES = "../../files"


class ClosedDoor:
    """Pages are rendered for each request: whom a row shows itself is asked every time."""

    def __init__(self, hub: Hub) -> None:
        self._hub = hub

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request."""
        try:
            caller = await self._recognise(scope)
        except UnauthenticatedError as error:
            challenge = [
                (name.lower().encode(), value.encode()) for name, value in error.headers.items()
            ]
            await send_plain(send, 401, f"{error.detail}\n".encode(), challenge + CLOSED_HEADERS)
            return
        if not is_read(scope):
            await send_not_allowed(send, CLOSED_HEADERS)
            return
        match scope["path"].split("/")[2:]:
            case ["owners", owner, "simple", *rest] if len(rest) <= 2:
                await self._serve_page(scope, send, caller, owner, rest)
            case ["owners", owner, "files", name, filename] if filename.isprintable():
                await self._serve_file(scope, receive, send, caller, (owner, name, filename))
            case _:
                await send_plain(send, 404, NOT_FOUND, CLOSED_HEADERS)

    async def _recognise(self, scope: Scope) -> Caller:
        authorization = Headers(scope=scope).get("authorization")
        if authorization is None:
            raise UnauthenticatedError(
                "this index needs a token: the user name `__token__` with the token as password"
            )
        hub = self._hub
        caller = await in_thread(hub.workers.database, recognise, hub.database, authorization)
        hub.token_uses.note(caller.token_id)
        return caller

    async def _serve_page(
        self, scope: Scope, send: Send, caller: Caller, owner: str, rest: list[str]
    ) -> None:
        location = normal_location(scope["path"], owner, rest, "auth")
        if location is None:
            await send_plain(send, 404, NOT_FOUND, CLOSED_HEADERS)
        elif location:
            await send_moved(scope, send, location, CLOSED_HEADERS)
        elif (form := accepted_form(scope)) is None:
            await send_not_acceptable(send, CLOSED_HEADERS)
        else:
            await self._send_page(scope, send, form, caller, (owner, rest[0] or None))

    async def _send_page(
        self, scope: Scope, send: Send, form: Form, caller: Caller, names: tuple[str, str | None]
    ) -> None:
        database = self._hub.workers.database
        forms = await in_thread(database, _render, self._hub, caller, *names)
        owner, name = names
        if forms is None and name and await self._send_on(scope, send, caller, (owner, name)):
            return
        await send_page(scope, send, form, forms, CLOSED_HEADERS)

    async def _send_on(
        self, scope: Scope, send: Send, caller: Caller, names: tuple[str, str], filename: str = ""
    ) -> bool:
        """Lead from an earlier name to the present one; whether the caller may see that."""
        database = self._hub.workers.database
        moved = await in_thread(database, _find_moved, self._hub, caller, *names)
        if moved is not None:
            room = "files" if filename else "simple"
            location = f"../../../{moved[0]}/{room}/{moved[1]}/{quote(filename, safe='')}"
            await send_moved(scope, send, location, CLOSED_HEADERS, status=302)
        return moved is not None

    async def _serve_file(
        self,
        scope: Scope,
        receive: Receive,
        send: Send,
        caller: Caller,
        names: tuple[str, str, str],
    ) -> None:
        hub = self._hub
        found = await in_thread(hub.workers.database, _find, hub, caller, names)
        if found is None:
            if not await self._send_on(scope, send, caller, names[:2], names[2]):
                await send_plain(send, 404, NOT_FOUND, CLOSED_HEADERS)
            return
        hub.downloads.note(found.environment_id)
        content = await content_of(hub, found, is_public=False)
        await ContentResponse(hub, content)(scope, receive, send)


def _find_moved(hub: Hub, caller: Caller, owner: str, name: str) -> tuple[str, str] | None:
    with hub.database.read() as session:
        return find_moved(session, caller, owner, name)


def _render(hub: Hub, caller: Caller, owner: str, name: str | None) -> PageForms | None:
    with hub.database.read() as session:
        if name is None:
            listing = render_listing(queries.names_of(session, owner, caller))
            return listing if listing.has_entries else None
        project = queries.find_project(session, owner, name, caller)
        if project is None:
            return None
        root = f"{hub.settings.url}/auth"
        files = queries.files_of(session, project)
        return render_project(name, files, _TO_FILES, project, root)


def _find(hub: Hub, caller: Caller, names: tuple[str, str, str]) -> queries.FoundFile | None:
    with hub.database.read() as session:
        return queries.find_file(session.connection(), *names, caller)
