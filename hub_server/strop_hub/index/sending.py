"""How pages of an index go over the wire, at the open doors and the closed one."""

from typing import Any

import anyio.to_thread
from starlette.types import Scope, Send

from strop.errors import InvalidRefError
from strop.hub.refs import normalize_name
from strop_hub.index.negotiation import Form, choose_form
from strop_hub.index.pages import PageForms, RenderedPage, SpooledBody

Headers = list[tuple[bytes, bytes]]
NOT_FOUND = b"Not found\n"
OPEN_HEADERS: Headers = [
    (b"vary", b"Accept"),
    # Always asked again, mostly answered with 304: a fresh push is seen by the next install.
    (b"cache-control", b"public, max-age=0, must-revalidate"),
    (b"access-control-allow-origin", b"*"),
    (b"x-content-type-options", b"nosniff"),
]
CLOSED_HEADERS: Headers = [
    (b"vary", b"Accept, Authorization"),
    (b"cache-control", b"private, max-age=0, must-revalidate"),
    (b"x-content-type-options", b"nosniff"),
]


def is_read(scope: Scope) -> bool:
    """Whether a request only asks."""
    return scope["method"] in ("GET", "HEAD")


def accepted_form(scope: Scope) -> Form | None:
    """The form that the client wants; None when it takes none of them."""
    accept, _ = _read_headers(scope)
    return choose_form(accept, scope["query_string"].decode("latin-1"))


async def send_page(
    scope: Scope, send: Send, form: Form, forms: PageForms | None, headers: Headers
) -> None:
    """A page, its 304, or the 404 where there is none."""
    if forms is None:
        await send_plain(send, 404, NOT_FOUND, headers)
        return
    page = forms.by_form[form]
    _, condition = _read_headers(scope)
    if condition is not None and _is_known(condition, page.etag):
        await _send(send, 304, [(b"etag", page.etag.encode()), *headers], b"")
    elif page.spooled is not None and scope["method"] != "HEAD":
        await _stream(send, [*_headers_of(page), *headers], page.spooled)
    else:
        body = b"" if scope["method"] == "HEAD" else page.body
        await _send(send, 200, [*_headers_of(page), *headers], body)


async def send_not_acceptable(send: Send, headers: Headers) -> None:
    """The refusal of a client that takes no form of the page."""
    known = ", ".join(form.value for form in Form)
    await send_plain(send, 406, f"This index speaks {known}\n".encode(), headers)


async def send_not_allowed(send: Send, headers: Headers) -> None:
    """The refusal of everything but reading."""
    await send_plain(send, 405, b"Use GET or HEAD\n", [(b"allow", b"GET, HEAD"), *headers])


async def send_moved(
    scope: Scope, send: Send, location: str, headers: Headers, status: int = 301
) -> None:
    """Where the page lies; the query goes along."""
    query = f"?{scope['query_string'].decode('latin-1')}" if scope["query_string"] else ""
    target = [(b"location", (location + query).encode("latin-1")), *headers]
    await send_plain(send, status, b"", target)


async def send_plain(send: Send, status: int, body: bytes, headers: Headers) -> None:
    """A line for people."""
    own = [
        (b"content-type", b"text/plain; charset=utf-8"),
        (b"content-length", str(len(body)).encode()),
    ]
    await _send(send, status, [*own, *headers], body)


def normal_location(path: str, owner: str | None, rest: list[str], door: str = "") -> str | None:
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
    normal = "/".join(part for part in [door, *owners, "simple", normal_name] if part) + "/"
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
        (b"content-length", str(page.size_bytes).encode()),
        (b"etag", page.etag.encode()),
    ]


async def _stream(send: Send, headers: list[Any], spooled: SpooledBody) -> None:
    await send({"type": "http.response.start", "status": 200, "headers": headers})
    start = 0
    while start < spooled.size_bytes:
        piece = await anyio.to_thread.run_sync(spooled.read, start)
        start += len(piece)
        is_more = start < spooled.size_bytes
        await send({"type": "http.response.body", "body": piece, "more_body": is_more})


async def _send(send: Send, status: int, headers: list[Any], body: bytes) -> None:
    await send({"type": "http.response.start", "status": status, "headers": headers})
    await send({"type": "http.response.body", "body": body})
