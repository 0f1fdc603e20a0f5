"""Web search by key, and the pages that it lists (step: rollout).

Everything that comes from outside is recorded in the trajectory: an attempt that is scored
again asks nobody.
"""

from __future__ import annotations

import asyncio
import html
import ipaddress
import os
import re
import socket
from dataclasses import dataclass
from typing import Any, Literal, Self

import httpx

from strop.errors import ConfigError, ToolFaultError
from strop.replies import Replies
from strop.search.base import Hit, bounded
from strop.types import JSON

MAX_PAGE_BYTES = 500_000
"""Of a page that is read; the rest is left."""
_MAX_REDIRECTS = 5
_TIMEOUT_S = 20.0
"""Of one exchange with a provider, and of a whole page."""
_DELAYS_S = (0.5, 2.0)
"""Before each further try at a provider that is busy or broken."""
_HIDDEN = re.compile(r"<(?:script|style)\b", re.IGNORECASE)
_HIDDEN_END = re.compile(r"</(?:script|style)\s*>", re.IGNORECASE)
_TAG = re.compile(r"<[^<>]*>")


@dataclass(frozen=True, slots=True)
class Provider:
    """How a provider is asked, and where its reply holds the results."""

    method: Literal["GET", "POST"]
    url: str
    header: str
    """That carries the key."""
    key_variable: str
    """Where the key is looked for when none is given."""
    query: str
    count: str
    results: tuple[str, ...]
    page: str
    snippet: str
    key_form: str = "{}"


PROVIDERS = {
    "serper": Provider(
        "POST",
        "https://google.serper.dev/search",
        "X-API-KEY",
        "SERPER_API_KEY",
        query="q",
        count="num",
        results=("organic",),
        page="link",
        snippet="snippet",
    ),
    "tavily": Provider(
        "POST",
        "https://api.tavily.com/search",
        "Authorization",
        "TAVILY_API_KEY",
        query="query",
        count="max_results",
        results=("results",),
        page="url",
        snippet="content",
        key_form="Bearer {}",
    ),
    "brave": Provider(
        "GET",
        "https://api.search.brave.com/res/v1/web/search",
        "X-Subscription-Token",
        "BRAVE_API_KEY",
        query="q",
        count="count",
        results=("web", "results"),
        page="url",
        snippet="description",
    ),
}
"""By name."""


class WebSearch:
    """A provider of web search, and the pages of the public web that it lists.

    Args:
        name: One of `PROVIDERS`.
        url: Where it is asked, if not at its own address; pages of that host may be read even
            where it is not public.
        key: Its key; by default that in the provider's variable.

    Raises:
        ConfigError: There is no such provider, or no key.
    """

    is_closed_world = False

    def __init__(self, name: str, url: str | None = None, key: str | None = None) -> None:
        provider = PROVIDERS.get(name)
        if provider is None:
            raise ConfigError(
                f"There is no provider of web search {name!r}. Use one of: {', '.join(PROVIDERS)}."
            )
        key = key or os.environ.get(provider.key_variable)
        if not key:
            raise ConfigError(
                f"Searching the web with {name} needs a key. Put it into {provider.key_variable}."
            )
        self.name = name
        self._provider = provider
        self._url = url or provider.url
        self._headers = {provider.header: provider.key_form.format(key)}
        self._client: httpx.AsyncClient | None = None

    async def __aenter__(self) -> Self:
        self._client = httpx.AsyncClient(
            timeout=_TIMEOUT_S,
            max_redirects=_MAX_REDIRECTS,
            event_hooks={"request": [self._refuse_private]},
        )
        return self

    async def __aexit__(self, *_: object) -> None:
        if self._client is not None:
            await self._client.aclose()
            self._client = None

    async def search(self, query: str, count: int, replies: Replies) -> list[Hit]:
        """What the provider finds.

        Raises:
            ToolFaultError: It refuses, is not reached, or answers something else than results.
        """
        query, count = bounded(query, count)

        async def ask() -> tuple[JSON, None]:
            return [[hit.page, hit.snippet] for hit in await self._search(query, count)], None

        found: Any = await replies.ask(f"search:{self.name}", [query, count], ask)
        return [Hit(page, snippet) for page, snippet in found]

    async def read(self, page: str, replies: Replies) -> str | None:
        """The text of a page; None when it is no text, not public, or not to be had."""

        async def ask() -> tuple[JSON, None]:
            return await self._read(page), None

        text = await replies.ask(f"page:{self.name}", page, ask)
        return None if text is None else str(text)

    async def _search(self, query: str, count: int) -> list[Hit]:
        provider = self._provider
        try:
            reply = await self._ask({provider.query: query, provider.count: count})
            found: Any = reply.json()
            for name in provider.results:
                found = found.get(name) or {}
            return [
                Hit(
                    str(each[provider.page]),
                    f"{each.get('title', '')}: {each.get(provider.snippet, '')}",
                )
                for each in list(found)[:count]
            ]
        except (httpx.HTTPError, AttributeError, KeyError, TypeError, ValueError) as error:
            raise ToolFaultError(
                f"{self.name} at {self._url} gave no results: {type(error).__name__}: {error}. "
                f"Is the key in {provider.key_variable} valid, and its quota not spent?"
            ) from error

    async def _ask(self, asked: dict[str, Any]) -> httpx.Response:
        assert self._client is not None, "the source is not open"
        is_post = self._provider.method == "POST"
        for delay_s in (*_DELAYS_S, None):
            reply = await self._client.request(
                self._provider.method,
                self._url,
                headers=self._headers,
                json=asked if is_post else None,
                params=None if is_post else asked,
            )
            is_passing = reply.status_code == 429 or reply.status_code >= 500
            if delay_s is None or not is_passing:
                break
            await asyncio.sleep(delay_s)
        return reply.raise_for_status()

    async def _read(self, page: str) -> str | None:
        assert self._client is not None, "the source is not open"
        kept = bytearray()
        try:
            async with (
                asyncio.timeout(_TIMEOUT_S),
                self._client.stream("GET", page, follow_redirects=True) as reply,
            ):
                kind = reply.headers.get("content-type", "")
                if reply.status_code != 200 or not kind.startswith("text/"):
                    return None
                async for chunk in reply.aiter_bytes():
                    kept += chunk
                    if len(kept) > MAX_PAGE_BYTES:
                        break
                encoding = reply.encoding or "utf-8"
        except (httpx.HTTPError, httpx.InvalidURL, TimeoutError, UnicodeError):
            return None
        return text_of(kept[:MAX_PAGE_BYTES].decode(encoding, "replace"))

    async def _refuse_private(self, request: httpx.Request) -> None:
        """Pages may lead, and redirect, into the network that this runs in."""
        if request.url.host == httpx.URL(self._url).host:
            return
        loop = asyncio.get_running_loop()
        try:
            found = await loop.getaddrinfo(request.url.host, None, type=socket.SOCK_STREAM)
        except OSError as error:
            raise httpx.ConnectError(str(error), request=request) from error
        if not all(ipaddress.ip_address(address[4][0]).is_global for address in found):
            raise httpx.UnsupportedProtocol(f"{request.url.host} is not public", request=request)


def text_of(document: str) -> str:
    """What a page of HTML says, scripts and styles apart; in linear time, whatever it holds."""
    first, *pieces = _HIDDEN.split(document)
    shown = [first, *(part for piece in pieces for part in _HIDDEN_END.split(piece, 1)[1:])]
    return " ".join(html.unescape(_TAG.sub(" ", " ".join(shown))).split())
