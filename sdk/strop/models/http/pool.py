"""A pool of connections: constant time to take one, whatever is open or waiting."""

from __future__ import annotations

import asyncio
import contextlib
import ssl
from collections import deque
from collections.abc import AsyncIterator
from dataclasses import dataclass, field

from strop.descriptors import allow_open_files
from strop.errors import StropError
from strop.models.http.connection import Connection
from strop.models.http.dialing import Dialer
from strop.models.http.exchange import ConnectionLostError, Exchange
from strop.models.http.message import Limits, Request, Response, Url
from strop.models.http.proxy import Proxies, Proxy
from strop.stopwatch import in_queue


@dataclass(eq=False, slots=True)
class _Host:
    """The connections to one origin."""

    url: Url
    proxy: Proxy | None
    idle: dict[Connection, None] = field(default_factory=dict)
    """Youngest last; a dict, so that a lost one is removed in constant time."""
    taken_count: int = 0
    """Places that are in use, being opened, or promised to a waiter."""
    waiters: deque[asyncio.Future[Connection | None]] = field(default_factory=deque)


class HttpPool:
    """Carries requests over kept connections, on one event loop at a time.

    A pool whose event loop has ended starts afresh on the next one. Redirects are not followed.

    Example:
        >>> async with HttpPool() as pool:
        ...     response = await pool.fetch(Request("GET", Url.parse("http://127.0.0.1:8000/health")))
    """

    def __init__(
        self,
        limits: Limits | None = None,
        *,
        proxies: Proxies | None = None,
        tls: ssl.SSLContext | None = None,
    ) -> None:
        self.limits = limits or Limits()
        self._proxies = proxies if proxies is not None else Proxies.from_environment()
        self._tls = tls
        self._loop: asyncio.AbstractEventLoop | None = None
        self._dialer: Dialer | None = None
        self._hosts: dict[str, _Host] = {}
        self._connections: set[Connection] = set()
        self._sweeper: asyncio.TimerHandle | None = None
        self._emptied = asyncio.Event()
        self._is_closed = False
        self._allowed_count = self.limits.connection_count

    async def __aenter__(self) -> HttpPool:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    @property
    def open_count(self) -> int:
        """Connections that are open now."""
        return len(self._connections)

    async def fetch(self, request: Request) -> Response:
        """Send a request and wait for its whole response, whatever its status.

        A kept connection that turns out to be closed before the first byte of the response is
        replaced once.

        Raises:
            ModelUnavailableError: The host cannot be reached, or the exchange broke or took
                too long.
            ModelReplyError: What came is no HTTP, too long, or badly packed.
        """
        async with self._exchange(request, is_stream=False) as (exchange, _):
            decoder = exchange.decoder()
            pieces = exchange.chunks
            body = decoder.feed(pieces[0] if len(pieces) == 1 else b"".join(pieces))
            decoder.finish()
            return Response(exchange.status, exchange.headers, body, exchange.elapsed_s)

    @contextlib.asynccontextmanager
    async def stream(self, request: Request) -> AsyncIterator[StreamedResponse]:
        """Send a request; the block reads the response as it arrives.

        Leaving the block before the end closes the connection.

        Raises:
            ModelUnavailableError, ModelReplyError: As `fetch`; also while reading.
        """
        async with self._exchange(request, is_stream=True) as (exchange, connection):
            yield StreamedResponse(exchange, connection)

    async def close(self) -> None:
        """Close every connection, also those in use; calls under way and later ones fail."""
        self._is_closed = True
        if self._sweeper is not None:
            self._sweeper.cancel()
        for host in self._hosts.values():
            while host.waiters:
                waiter = host.waiters.popleft()
                if not waiter.done():
                    waiter.set_exception(_closed())
        if self._loop is not asyncio.get_running_loop():
            return
        self._emptied.clear()
        for connection in tuple(self._connections):
            connection.abort()
        if self._connections:
            await self._emptied.wait()

    @contextlib.asynccontextmanager
    async def _exchange(
        self, request: Request, *, is_stream: bool
    ) -> AsyncIterator[tuple[Exchange, Connection]]:
        host = self._host(request.url)
        exchange, connection = await self._begin(host, request, is_stream, is_fresh=False)
        try:
            yield exchange, connection
        finally:
            self._release(host, connection)

    async def _begin(
        self, host: _Host, request: Request, is_stream: bool, *, is_fresh: bool
    ) -> tuple[Exchange, Connection]:
        connection = await self._acquire(host, is_fresh=is_fresh)
        is_kept = connection.exchange_count > 0
        target = request.url.target
        if host.proxy is not None and host.url.scheme == "http":
            target = str(request.url)
            if host.proxy.authorization:
                extra = (("proxy-authorization", host.proxy.authorization),)
                request = Request(
                    request.method, request.url, request.headers + extra, request.body
                )
        assert self._loop is not None
        exchange = Exchange(self._loop, self.limits, f"{request.method} {request.url}")
        try:
            connection.start(exchange, request, target)
            await (exchange.head() if is_stream else exchange.whole())
        except ConnectionLostError as error:
            self._release(host, connection)
            if not (is_kept and error.is_untouched) or self._is_closed:
                raise
        except BaseException:
            self._release(host, connection)
            raise
        else:
            return exchange, connection
        return await self._begin(host, request, is_stream, is_fresh=True)

    def _host(self, url: Url) -> _Host:
        if self._is_closed:
            raise _closed()
        loop = asyncio.get_running_loop()
        if loop is not self._loop:
            self._move(loop)
        origin = url.origin
        host = self._hosts.get(origin)
        if host is None:
            host = self._hosts[origin] = _Host(url, self._proxies.of(url))
        return host

    def _move(self, loop: asyncio.AbstractEventLoop) -> None:
        if self._loop is not None and not self._loop.is_closed():
            raise StropError(
                "this HTTP pool serves another event loop that still runs: make one pool a loop"
            )
        self._loop, self._dialer = loop, Dialer(self._tls, self.limits.connect_s)
        self._hosts, self._connections, self._sweeper = {}, set(), None
        # The other half is for files, programs and other pools: who finds no place waits.
        most = max(1, allow_open_files() // 2)
        self._allowed_count = min(self.limits.connection_count, most)

    async def _acquire(self, host: _Host, *, is_fresh: bool) -> Connection:
        while host.idle and not is_fresh:
            connection, _ = host.idle.popitem()
            if connection.is_open:
                return connection
            host.taken_count -= 1
        if host.taken_count < self._allowed_count:
            host.taken_count += 1
        else:
            connection_or_none = await self._wait_for_place(host)
            if connection_or_none is not None and connection_or_none.is_open:
                return connection_or_none
        return await self._open(host)

    async def _wait_for_place(self, host: _Host) -> Connection | None:
        assert self._loop is not None
        waiter: asyncio.Future[Connection | None] = self._loop.create_future()
        host.waiters.append(waiter)
        try:
            with in_queue():
                return await waiter
        except asyncio.CancelledError:
            if waiter.done() and not waiter.cancelled() and waiter.exception() is None:
                self._pass_on(host, waiter.result())
            raise

    async def _open(self, host: _Host) -> Connection:
        assert self._dialer is not None
        try:
            connection = await self._dialer.open(host.url, host.proxy, self._on_lost)
        except BaseException:
            self._pass_on(host, None)
            raise
        if self._is_closed:
            connection.abort()
            raise _closed()
        if connection.is_open:
            self._connections.add(connection)
        return connection

    def _release(self, host: _Host, connection: Connection) -> None:
        connection.finish()
        self._pass_on(host, connection if connection.is_open else None)

    def _pass_on(self, host: _Host, connection: Connection | None) -> None:
        """Give a place, with or without its connection, to who waits longest, or keep it."""
        while host.waiters:
            waiter = host.waiters.popleft()
            if not waiter.done():
                waiter.set_result(connection)
                return
        if connection is None:
            host.taken_count -= 1
            return
        assert self._loop is not None
        connection.idle_since = self._loop.time()
        host.idle[connection] = None
        if self._sweeper is None and not self._is_closed:
            self._sweeper = self._loop.call_later(self.limits.idle_s, self._sweep)

    def _on_lost(self, connection: Connection) -> None:
        self._connections.discard(connection)
        if not self._connections:
            self._emptied.set()
        for host in self._hosts.values():
            if connection in host.idle:
                del host.idle[connection]
                host.taken_count -= 1
                return

    def _sweep(self) -> None:
        """Close what has been idle too long; the timer lives while something is idle."""
        self._sweeper = None
        assert self._loop is not None
        limit = self._loop.time() - self.limits.idle_s
        oldest: float | None = None
        for host in self._hosts.values():
            for connection in host.idle:
                if connection.idle_since <= limit:
                    connection.abort()
                elif oldest is None or connection.idle_since < oldest:
                    oldest = connection.idle_since
        if oldest is not None:
            when = oldest + self.limits.idle_s
            self._sweeper = self._loop.call_at(when, self._sweep)


class StreamedResponse:
    """A response whose head is there and whose body is still arriving."""

    def __init__(self, exchange: Exchange, connection: Connection) -> None:
        self._exchange = exchange
        self._connection = connection
        self.status = exchange.status
        self.headers = exchange.headers

    @property
    def elapsed_s(self) -> float:
        """Since the request was written."""
        return self._exchange.elapsed_s

    async def read(self) -> bytes:
        """The rest of the body."""
        return b"".join([chunk async for chunk in self])

    async def __aiter__(self) -> AsyncIterator[bytes]:
        """Pieces of the body as they arrive, unpacked; it may be empty, no piece is."""
        decoder = self._exchange.decoder()
        while (chunk := await self._exchange.next_chunk()) is not None:
            self._connection.resume()
            if unpacked := decoder.feed(chunk):
                yield unpacked
        decoder.finish()


def _closed() -> StropError:
    return StropError("the HTTP pool is closed: make a new one")
