"""The way to one model server: address, key, retries; shared by the clients of all dialects."""

from __future__ import annotations

import json
import secrets
import ssl
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any, Protocol, TypedDict

from strop.errors import ModelReplyError
from strop.models.fault import embedded_refusal, read_document, refusal
from strop.models.http import HttpPool, Limits, Proxies, Request, Response, Url
from strop.models.http.decoding import ACCEPTED
from strop.models.http.events import EventReader
from strop.models.retry import RetryPolicy, call_with_retries
from strop.models.sent import read_sampling
from strop.types import JSON, Completion

CALL_HEADER = "idempotency-key"
"""The same for all tries of one call, and for no other call, however alike their bodies are."""

TRY_HEADER = "x-strop-try"
"""0 for a call's first try. Whoever records calls commits a call once, whatever its tries."""

_ODD_SHAPES = (ArithmeticError, AttributeError, KeyError, IndexError, TypeError, ValueError)
"""What reading a document raises whose members are of other types than its dialect says."""


class Connecting(TypedDict, total=False):
    """How a client reaches its server; every client takes these as keyword arguments."""

    api_key: str | None
    headers: Mapping[str, str]
    """Sent with every request."""
    affinity_header: str
    """Name of a header that is the same for all calls with one `Sampling.seed`, and so for the
    turns of an attempt: a router that goes by it keeps them at one replica, and at its cache."""
    limits: Limits
    retry: RetryPolicy
    proxies: Proxies
    """Instead of those of the environment's variables."""
    tls: ssl.SSLContext
    """Instead of one that trusts the machine's authorities."""
    pool: HttpPool
    """Shared with other clients, and then closed by whoever made it; with limits, proxies and
    TLS of its own."""


@dataclass(frozen=True, slots=True)
class Reply:
    """A whole reply, from one body or folded from a stream."""

    document: dict[str, Any]
    elapsed_s: float
    where: str
    """For messages of errors."""


class Fold(Protocol):
    """Puts the events of a stream together into the document that an unstreamed reply is."""

    def take(self, event: dict[str, Any]) -> None:
        """Add one event."""
        ...

    def finish(self) -> dict[str, Any] | None:
        """The document; None when the stream ended before its end mark."""
        ...


class Endpoint:
    """One path of a server, and what every call to it has in common."""

    def __init__(
        self,
        url: str,
        *,
        headers: Mapping[str, str] | None = None,
        affinity_header: str | None = None,
        limits: Limits | None = None,
        retry: RetryPolicy | None = None,
        proxies: Proxies | None = None,
        tls: ssl.SSLContext | None = None,
        pool: HttpPool | None = None,
    ) -> None:
        self.url = Url.parse(url)
        self.where = f"POST {self.url}"
        self.retry = retry or RetryPolicy()
        self._is_owner = pool is None
        self._pool = pool or HttpPool(limits, proxies=proxies, tls=tls)
        self._affinity_header = affinity_header
        self._headers: tuple[tuple[str, str], ...] = (
            ("content-type", "application/json"),
            ("accept-encoding", ACCEPTED),
            ("user-agent", "strop"),
        )
        self._headers = self.with_headers(headers or {})._headers

    def with_headers(self, headers: Mapping[str, str]) -> Endpoint:
        """The same way, over the same connections, with further headers."""
        copy = object.__new__(Endpoint)
        copy.__dict__.update(self.__dict__)
        copy._is_owner = False
        new = {name.lower(): value for name, value in headers.items()}
        kept = tuple(header for header in self._headers if header[0] not in new)
        copy._headers = kept + tuple(new.items())
        return copy

    async def call(
        self,
        body: Mapping[str, JSON],
        parse: Callable[[Reply], Completion],
        fold: Callable[[], Fold] | None = None,
        *,
        seed: int | None = None,
    ) -> Completion:
        """Send `body` until a reply comes that `parse` takes, as the retry policy allows.

        With `fold` the reply is a stream. `seed` is the sampling's, for the affinity header.

        Raises:
            ModelError: As `strop.errors` says.
        """
        content = json.dumps(body).encode()
        headers = (*self._headers, (CALL_HEADER, secrets.token_hex(16)))
        if self._affinity_header is not None and seed is not None:
            headers += ((self._affinity_header.lower(), f"{seed:016x}"),)

        async def try_once(try_index: int) -> Completion:
            mark = (TRY_HEADER, str(try_index))
            request = Request("POST", self.url, (*headers, mark), content)
            try:
                if fold is None:
                    return parse(await self._whole(request))
                return parse(await self._streamed(request, fold()))
            except _ODD_SHAPES as error:
                raise ModelReplyError(
                    f"{self.where} answered in a shape of its own ({error!r}):"
                    " check that the client's dialect is the server's"
                ) from error

        completion = await call_with_retries(try_once, self.retry)
        return replace(completion, sampling=read_sampling(body))

    async def ask(self, url: str, body: Mapping[str, JSON] | None = None) -> dict[str, Any]:
        """The JSON object at another address of the same server; with `body` it is a POST.

        Raises:
            ModelError: As `strop.errors` says.
        """
        content = b"" if body is None else json.dumps(body).encode()
        method = "GET" if body is None else "POST"
        request = Request(method, Url.parse(url), self._headers, content)

        async def try_once(_: int) -> Reply:
            return await self._whole(request)

        return (await call_with_retries(try_once, self.retry)).document

    async def close(self) -> None:
        """Close the connections, unless the pool came from outside."""
        if self._is_owner:
            await self._pool.close()

    async def _whole(self, request: Request) -> Reply:
        response = await self._pool.fetch(request)
        return _read(response, f"{request.method} {request.url}")

    async def _streamed(self, request: Request, fold: Fold) -> Reply:
        async with self._pool.stream(request) as response:
            kind = response.headers.get("content-type", "")
            if not 200 <= response.status < 300 or "json" in kind or "html" in kind:
                # A refusal; or a server that answers a request to stream with a whole body.
                body = await response.read()
                whole = Response(response.status, response.headers, body, response.elapsed_s)
                return _read(whole, self.where)
            reader = EventReader()
            async for piece in response:
                self._feed(fold, reader.feed(piece))
            document_or_none = fold.finish()
            if document_or_none is None:
                raise ModelReplyError(f"{self.where} cut its stream before the end mark")
            if document_or_none.get("error"):
                raise embedded_refusal(document_or_none["error"], self.where)
            return Reply(document_or_none, response.elapsed_s, self.where)

    def _feed(self, fold: Fold, events: Iterable[bytes]) -> None:
        for content in events:
            if content == b"[DONE]":
                fold.take({"[DONE]": True})
                continue
            event = read_document(content, {}, self.where)
            if event.get("error"):
                raise embedded_refusal(event["error"], self.where)
            fold.take(event)


def _read(response: Response, where: str) -> Reply:
    if not 200 <= response.status < 300:
        raise refusal(response.status, response.headers, response.body, where)
    document = read_document(response.body, response.headers, where)
    if document.get("error"):
        raise embedded_refusal(document["error"], where)
    return Reply(document, response.elapsed_s, where)
