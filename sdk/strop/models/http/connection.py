"""One connection to a host: bytes to events by h11, one exchange at a time."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import cast

import h11

from strop.errors import ModelError, ModelReplyError, ModelRequestError
from strop.models.http.exchange import PAUSE_BYTES, ConnectionLostError, Exchange
from strop.models.http.message import Request
from strop.models.http.tls import CLIENT_HINT, client_refusal

HEADER_BYTES = 64 * 1024
"""Longest status line and headers that are taken."""


class Connection(asyncio.Protocol):
    """An open connection; `on_lost` is called once, when its socket is gone."""

    def __init__(self, on_lost: Callable[[Connection], None]) -> None:
        self.on_lost = on_lost
        self.exchange_count = 0
        self.idle_since = 0.0
        self._h11 = h11.Connection(h11.CLIENT, max_incomplete_event_size=HEADER_BYTES)
        self._transport: asyncio.Transport | None = None
        self._exchange: Exchange | None = None
        self._has_received = False
        self._is_paused = False

    @property
    def transport(self) -> asyncio.Transport:
        """The socket's transport, once connected."""
        assert self._transport is not None
        return self._transport

    @property
    def is_open(self) -> bool:
        """Whether another exchange may start here."""
        transport = self._transport
        return (
            transport is not None
            and not transport.is_closing()
            and self._h11.our_state is h11.IDLE
            and self._h11.their_state is h11.IDLE
        )

    def start(self, exchange: Exchange, request: Request, target: str) -> None:
        """Write a request; its response goes to `exchange`.

        Raises:
            ModelRequestError: The request holds what HTTP does not allow, such as a line break
                in a header.
        """
        self._exchange = exchange
        self._has_received = False
        if not self.is_open:
            self._fail(exchange, "closed the connection")
            return
        self.exchange_count += 1
        headers = [("host", request.url.authority), *request.headers]
        if request.body or request.method == "POST":
            headers.append(("content-length", str(len(request.body))))
        try:
            head = self._h11.send(
                h11.Request(method=request.method, target=target, headers=headers)
            )
            body = self._h11.send(h11.Data(data=request.body)) if request.body else b""
            tail = self._h11.send(h11.EndOfMessage())
        except (h11.LocalProtocolError, UnicodeEncodeError) as error:
            self.abort()
            raise ModelRequestError(
                f"{exchange.where} cannot be called: {error}. Check the headers and the API key"
            ) from error
        self.transport.write(b"".join((head or b"", body or b"", tail or b"")))

    def finish(self) -> None:
        """Leave the exchange; the connection closes unless it can serve another."""
        exchange, self._exchange = self._exchange, None
        if exchange is not None:
            exchange.stop_timer()
        if (
            exchange is not None
            and exchange.is_whole
            and self._h11.our_state is h11.DONE
            and self._h11.their_state is h11.DONE
            and not self._h11.trailing_data[0]
        ):
            self._h11.start_next_cycle()
            self.resume()
        else:
            self.abort()

    def abort(self) -> None:
        """Close at once; unsent and unread bytes are lost."""
        if self._transport is not None:
            self._transport.abort()

    def resume(self) -> None:
        """Read on, after a stream's reader has caught up."""
        if self._is_paused:
            self._is_paused = False
            self.transport.resume_reading()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Keep the transport; called again when TLS starts inside a proxy's tunnel."""
        self._transport = cast("asyncio.Transport", transport)

    def data_received(self, data: bytes) -> None:
        """Feed what arrived to the exchange under way."""
        exchange = self._exchange
        if exchange is None:
            # Nobody asked: whatever this is, the connection cannot be trusted any longer.
            self.abort()
            return
        self._has_received = True
        exchange.touch()
        self._h11.receive_data(data)
        self._dispatch(exchange)
        if exchange.body_bytes > PAUSE_BYTES and not exchange.is_whole:
            self._pause_or_refuse(exchange)

    def eof_received(self) -> bool:
        """The server sends nothing more, so the connection is of no more use."""
        self._end(None)
        return False

    def connection_lost(self, error: Exception | None) -> None:
        """The socket is gone."""
        self._end(error)
        self.on_lost(self)

    def _pause_or_refuse(self, exchange: Exchange) -> None:
        if not exchange.wants_whole:
            if not self._is_paused:
                self._is_paused = True
                self.transport.pause_reading()
        elif exchange.body_bytes > exchange.limits.body_bytes:
            exchange.on_error(
                ModelReplyError(f"{exchange.where} sent more than the limit: raise `body_bytes`")
            )
            self.abort()

    def _end(self, error: Exception | None) -> None:
        exchange = self._exchange
        if exchange is None or exchange.is_whole or exchange.error is not None:
            return
        if error is None and self._has_received and self._h11.their_state is h11.SEND_BODY:
            # A body without a length ends with its connection; h11 knows whether this one may.
            self._h11.receive_data(b"")
            self._dispatch(exchange)
        refusal = client_refusal(error, exchange.where)
        if refusal is not None:
            exchange.on_error(refusal)
            return
        self._fail(exchange, "closed the connection" if error is None else f"broke off ({error})")

    def _fail(self, exchange: Exchange, what: str) -> None:
        when = "in the middle of its reply" if self._has_received else "before it replied"
        is_mute = not self._has_received and self.transport.get_extra_info("sslcontext") is not None
        hint = CLIENT_HINT if is_mute else ""
        lost = ConnectionLostError(f"{exchange.where} {what} {when}{hint}")
        lost.is_untouched = not self._has_received
        exchange.on_error(lost)

    def _dispatch(self, exchange: Exchange) -> None:
        try:
            while True:
                event = self._h11.next_event()
                kind = type(event)
                if kind is h11.Data:
                    exchange.on_chunk(bytes(cast("h11.Data", event).data))
                elif kind is h11.Response:
                    self._take_head(exchange, cast("h11.Response", event))
                elif kind is h11.EndOfMessage:
                    exchange.on_end()
                    return
                elif kind is not h11.InformationalResponse:
                    return
        except h11.RemoteProtocolError as error:
            exchange.on_error(self._protocol_error(exchange, error))
            self.abort()

    def _take_head(self, exchange: Exchange, head: h11.Response) -> None:
        # h11 bounds only what is incomplete, and one read may bring more than the limit.
        if sum(len(name) + len(value) for name, value in head.headers) > HEADER_BYTES:
            raise h11.RemoteProtocolError(f"headers of more than {HEADER_BYTES} bytes")
        exchange.on_head(head)

    def _protocol_error(self, exchange: Exchange, error: Exception) -> ModelError:
        if exchange.status:
            return ConnectionLostError(f"{exchange.where} cut its reply: {error}")
        return ModelReplyError(
            f"{exchange.where} does not answer in HTTP ({error}): check the address and its scheme"
        )
