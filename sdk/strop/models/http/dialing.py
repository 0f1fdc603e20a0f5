"""Open connections: names to addresses, sockets, a proxy's tunnel, TLS."""

from __future__ import annotations

import asyncio
import os
import socket
import ssl
from collections.abc import Callable

import h11

from strop.errors import (
    ModelAuthError,
    ModelError,
    ModelRequestError,
    ModelUnavailableError,
)
from strop.models.http.connection import Connection
from strop.models.http.message import Url
from strop.models.http.proxy import Proxy
from strop.models.http.tls import CLIENT_HINT, client_refusal

OPENING_COUNT = 64
"""Connections that are being opened at one time; more would overrun a server's listen queue."""

NAMES_S = 30.0
"""How long the addresses of a name are kept."""

_CUTS = (ConnectionResetError, BrokenPipeError, ssl.SSLEOFError)
"""How a server that hangs up in the middle of a handshake looks."""

OnLost = Callable[[Connection], None]


def trusted_context() -> ssl.SSLContext:
    """TLS that trusts ``SSL_CERT_FILE`` and ``SSL_CERT_DIR``, or else the machine's authorities.

    An interpreter that was built without knowing where those are gets certifi's list.
    """
    context = ssl.create_default_context()
    paths = ssl.get_default_verify_paths()
    named = os.environ.get("SSL_CERT_FILE") or os.environ.get("SSL_CERT_DIR")
    if not named and not paths.cafile and not paths.capath:
        import certifi

        context.load_verify_locations(certifi.where())
    context.set_alpn_protocols(["http/1.1"])
    return context


class Dialer:
    """Opens connections for one pool on one event loop."""

    def __init__(self, context: ssl.SSLContext | None, connect_s: float | None) -> None:
        self._loop = asyncio.get_running_loop()
        self._context = context
        self._connect_s = connect_s
        self._opening = asyncio.Semaphore(OPENING_COUNT)
        self._names: dict[tuple[str, int], tuple[float, asyncio.Task[list[str]]]] = {}

    async def open(self, url: Url, proxy: Proxy | None, on_lost: OnLost) -> Connection:
        """Connect to the host of `url`, ready for a request.

        Raises:
            ModelUnavailableError: Nobody answers there, or not in time.
            ModelRequestError: The host's certificate is not trusted.
            ModelAuthError: The proxy wants a password, or the host another client certificate.
        """
        async with self._opening:
            try:
                async with asyncio.timeout(self._connect_s):
                    return await self._connect(url, proxy, on_lost)
            except TimeoutError as error:
                raise ModelUnavailableError(
                    f"{url.origin} took no connection in time (`connect_s` is {self._connect_s})"
                ) from error
            except ssl.SSLCertVerificationError as error:
                raise ModelRequestError(
                    f"{url.origin} is not trusted ({error.verify_message}):"
                    " name its authority in SSL_CERT_FILE"
                ) from error
            except OSError as error:
                refusal = client_refusal(error, url.origin)
                if refusal is not None:
                    raise refusal from error
                via = f" through the proxy {proxy.url.origin}" if proxy else ""
                is_cut = url.scheme == "https" and isinstance(error, _CUTS)
                raise ModelUnavailableError(
                    f"{url.origin} cannot be reached{via} ({str(error) or 'it hung up'}):"
                    f" start the endpoint, or correct its address{CLIENT_HINT if is_cut else ''}"
                ) from error

    async def _connect(self, url: Url, proxy: Proxy | None, on_lost: OnLost) -> Connection:
        connection = await self._dial(proxy.url if proxy else url, on_lost)
        if proxy is None or url.scheme == "http":
            return connection
        try:
            await self._tunnel(connection, url, proxy)
        except BaseException:
            connection.abort()
            raise
        return connection

    async def _dial(self, url: Url, on_lost: OnLost) -> Connection:
        tls = self._tls() if url.scheme == "https" else None
        last_error: OSError | None = None
        for address in await self._addresses(url.host, url.port):
            connection = Connection(on_lost)
            try:
                await self._loop.create_connection(
                    lambda connection=connection: connection,
                    address,
                    url.port,
                    ssl=tls,
                    server_hostname=url.host if tls else None,
                )
            except ssl.SSLCertVerificationError:
                raise
            except OSError as error:
                last_error = error
            else:
                return connection
        assert last_error is not None
        raise last_error

    async def _addresses(self, host: str, port: int) -> list[str]:
        """The host's addresses; one look-up serves all callers for a while."""
        known = self._names.get((host, port))
        now = self._loop.time()
        if known is None or known[0] < now or (known[1].done() and known[1].exception()):
            task = self._loop.create_task(self._look_up(host, port))
            task.add_done_callback(lambda ended: ended.cancelled() or ended.exception())
            known = (now + NAMES_S, task)
            self._names[host, port] = known
        return await asyncio.shield(known[1])

    async def _look_up(self, host: str, port: int) -> list[str]:
        found = await self._loop.getaddrinfo(host, port, type=socket.SOCK_STREAM)
        return list(dict.fromkeys(str(entry[4][0]) for entry in found))

    def _tls(self) -> ssl.SSLContext:
        if self._context is None:
            self._context = trusted_context()
        return self._context

    async def _tunnel(self, connection: Connection, url: Url, proxy: Proxy) -> None:
        """CONNECT through the proxy, then TLS with the host itself (RFC 9110 §9.3.6)."""
        transport = connection.transport
        handshake = _Handshake(self._loop, url, proxy)
        transport.set_protocol(handshake)
        transport.write(handshake.request())
        await handshake.answer
        upgraded = await self._loop.start_tls(
            transport, connection, self._tls(), server_hostname=url.host
        )
        if upgraded is None:
            raise ConnectionResetError("the proxy closed the tunnel")
        connection.connection_made(upgraded)


class _Handshake(asyncio.Protocol):
    """Reads a proxy's answer to CONNECT."""

    def __init__(self, loop: asyncio.AbstractEventLoop, url: Url, proxy: Proxy) -> None:
        self.answer: asyncio.Future[None] = loop.create_future()
        self._h11 = h11.Connection(h11.CLIENT)
        self._target = f"[{url.host}]" if ":" in url.host else url.host
        self._target += f":{url.port}"
        self._proxy = proxy

    def request(self) -> bytes:
        """The bytes of CONNECT."""
        headers = [("host", self._target)]
        if self._proxy.authorization:
            headers.append(("proxy-authorization", self._proxy.authorization))
        head = self._h11.send(h11.Request(method="CONNECT", target=self._target, headers=headers))
        return (head or b"") + (self._h11.send(h11.EndOfMessage()) or b"")

    def data_received(self, data: bytes) -> None:
        """Decide as soon as the answer's head is there."""
        self._h11.receive_data(data)
        try:
            event = self._h11.next_event()
        except h11.RemoteProtocolError as error:
            self._settle(OSError(f"it does not answer in HTTP: {error}"))
            return
        if isinstance(event, h11.Response):
            self._settle(self._refusal(event.status_code))

    def connection_lost(self, error: Exception | None) -> None:
        """The proxy hung up."""
        self._settle(error or ConnectionResetError("the proxy closed the connection"))

    def _refusal(self, status: int) -> ModelError | OSError | None:
        if 200 <= status < 300:
            return None
        if status == 407:
            return ModelAuthError(
                f"the proxy {self._proxy.url.origin} wants a user and password:"
                " write them into HTTPS_PROXY as http://user:password@host:port"
            )
        return OSError(f"it answered CONNECT with {status}")

    def _settle(self, error: Exception | None) -> None:
        if self.answer.done():
            return
        if error is None:
            self.answer.set_result(None)
        else:
            self.answer.set_exception(error)
