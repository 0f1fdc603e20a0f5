"""The pages of the catalog. Registered last: ``/{owner}/{name}`` would catch other routes."""

from dataclasses import dataclass
from typing import Annotated, get_args
from urllib.parse import urlencode

from fastapi import APIRouter, Query, Request, Response
from fastapi.responses import RedirectResponse
from starlette.convertors import StringConvertor, register_url_convertor

from strop.hub.manifest import Category
from strop.hub.wire import EnvironmentPage
from strop_hub.auth import Caller
from strop_hub.dependencies import CallerOf, HubParts
from strop_hub.errors import NotFoundError
from strop_hub.hub import Hub, in_thread
from strop_hub.page_parameters import CursorOf
from strop_hub.registry import service
from strop_hub.registry.queries import EnvironmentFilter
from strop_hub.web.environment_page import page_context
from strop_hub.web.render import STATIC, render, root_of

PAGE_SIZE = 24
VERSIONS_SHOWN = 20
ROOMS = ("-", "api", "auth", "legacy", "owners", "simple")
"""First parts of addresses that are no owners."""


class _OwnerConvertor(StringConvertor):
    """Path parts that may be owners, so that other addresses keep their own answers (405)."""

    regex = rf"(?!(?:{'|'.join(ROOMS)})(?:/|$))[^/]+"


register_url_convertor("catalog_owner", _OwnerConvertor())
router = APIRouter(include_in_schema=False)
Narrowed = Annotated[str, Query(max_length=200)]


@dataclass(frozen=True, slots=True)
class CatalogQuery:
    """What a visitor has narrowed the list to."""

    text: str
    owner: str
    category: str
    tag: str
    cursor: str | None

    @property
    def is_filtered(self) -> bool:
        """Whether anything but the page is chosen."""
        return any((self.text, self.owner, self.category, self.tag, self.cursor))

    def link(self, root: str, **changes: str) -> str:
        """The address of the list with some filters changed; it starts at the first page."""
        chosen = {
            "q": self.text,
            "owner": self.owner,
            "category": self.category,
            "tag": self.tag,
        } | changes
        query = urlencode({key: value for key, value in chosen.items() if value})
        return f"{root}/?{query}" if query else f"{root}/"


@router.get("/")
@router.head("/")
async def show_list(
    *,
    hub: HubParts,
    caller: CallerOf,
    q: Narrowed = "",
    owner: Narrowed = "",
    category: Narrowed = "",
    tag: Narrowed = "",
    cursor: CursorOf = None,
) -> Response:
    """The list, with search and filters."""
    query = CatalogQuery(q.strip(), owner, category, tag, cursor or None)
    return await in_thread(hub.workers.database, _show_list, hub, caller, query)


@router.get("/-/static/{name}")
@router.head("/-/static/{name}")
async def show_static(name: str) -> Response:
    """A file of the catalog's own, whose name changes with its bytes."""
    if name not in STATIC:
        raise NotFoundError(f"the catalog has no file {name!a}. Reload the page that named it.")
    content, media_type = STATIC[name]
    headers = {
        "cache-control": "public, max-age=31536000, immutable",
        "x-content-type-options": "nosniff",
        "content-security-policy": "default-src 'none'; style-src 'unsafe-inline'",
    }
    return Response(content, headers=headers, media_type=media_type)


@router.get("/{owner:catalog_owner}")
async def show_owner(hub: HubParts, owner: str) -> Response:
    """An owner's environments: the list, narrowed."""
    if "." in owner:
        # What browsers and crawlers ask every site for, such as robots.txt; no owner's normal name.
        return render_not_found(hub, f"`/{owner}` is no page of this catalog.")
    query = urlencode({"owner": owner})
    return RedirectResponse(f"{root_of(hub.settings)}/?{query}", 303)


@router.get("/{owner:catalog_owner}/{name}")
@router.head("/{owner:catalog_owner}/{name}")
async def show_environment(
    hub: HubParts, caller: CallerOf, owner: str, name: str, cursor: CursorOf = None
) -> Response:
    """An environment through its latest version."""
    return await in_thread(
        hub.workers.blob, _show_environment, hub, caller, (owner, name, None), cursor
    )


@router.get("/{owner:catalog_owner}/{name}/{version}")
@router.head("/{owner:catalog_owner}/{name}/{version}")
async def show_version(
    *, hub: HubParts, caller: CallerOf, owner: str, name: str, version: str, cursor: CursorOf = None
) -> Response:
    """One version of an environment."""
    return await in_thread(
        hub.workers.blob, _show_environment, hub, caller, (owner, name, version), cursor
    )


def wants_html(request: Request) -> bool:
    """Whether a person with a browser asks, and not a program."""
    return "text/html" in request.headers.get("accept", "")


def render_not_found(hub: Hub, detail: str) -> Response:
    """The page for an address behind which the visitor sees nothing."""
    return render(hub.settings, "not_found.html", 404, detail=detail)


def _show_list(hub: Hub, caller: Caller, query: CatalogQuery) -> Response:
    wanted = EnvironmentFilter(query.text, query.owner, query.category, query.tag)
    page: EnvironmentPage = service.list_environments(hub, caller, wanted, query.cursor, PAGE_SIZE)
    root = root_of(hub.settings)
    return render(
        hub.settings,
        "list.html",
        page=page,
        count=service.count_environments(hub, caller, wanted),
        query=query,
        categories=get_args(Category),
        link=lambda **changes: query.link(root, **changes),
    )


def _show_environment(
    hub: Hub, caller: Caller, names: tuple[str, str, str | None], cursor: str | None
) -> Response:
    owner, name, number = names
    try:
        environment = service.show_environment(hub, caller, owner, name)
        versions = service.list_versions(hub, caller, (owner, name), cursor, VERSIONS_SHOWN)
        if number is None and environment.latest is None:
            # Every version is yanked; the newest of them still tells what this was.
            number = versions.items[0].version
        version = (
            environment.latest
            if number is None
            else service.show_version(hub, caller, owner, name, number)
        )
    except NotFoundError as error:
        return render_not_found(hub, error.detail)
    assert version is not None, "there is a latest version or a number"
    return render(hub.settings, "environment.html", **page_context(environment, version, versions))
