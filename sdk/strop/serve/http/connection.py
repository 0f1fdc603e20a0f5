"""One connection of a client: requests by h11, one after the other, each answered by a task."""

from __future__ import annotations

import asyncio
import contextlib
import traceback
from collections.abc import Awaitable, Callable
from typing import cast

import h11

from strop.serve.http.message import Answer, Peer, Request, json_answer

Handler = Callable[[Request], Awaitable[Answer]]

HEADER_BYTES = 64 * 1024


class Connection(asyncio.Protocol):
    """Reads requests and writes what `handler` answers; a lost client cancels the handler.

    Args:
        handler: Answers one request.
        connections: The server's open ones; this one adds and removes itself.
        body_bytes: Longest body that is taken.
        heartbeat_s: While a handler takes longer, blanks are sent at this interval, which JSON
            allows before a document: the client can tell slow from dead. None sends none.
    """

    def __init__(
        self,
        handler: Handler,
        connections: set[Connection],
        *,
        body_bytes: int,
        heartbeat_s: float | None,
    ) -> None:
        self._handler = handler
        self._connections = connections
        self._body_bytes = body_bytes
        self._heartbeat_s = heartbeat_s
        self._h11 = h11.Connection(h11.SERVER, max_incomplete_event_size=HEADER_BYTES)
        self._head: h11.Request | None = None
        self._pieces: list[bytes] = []
        self._size = 0
        self.task: asyncio.Task[None] | None = None
        """Answers the request that is there; None between two."""
        self._peer = Peer("", 0, 0)
        self._transport: asyncio.Transport

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Keep the transport."""
        self._transport = cast("asyncio.Transport", transport)
        host, port = self._transport.get_extra_info("peername")[:2]
        self._peer = Peer(host, port, self._transport.get_extra_info("sockname")[1])
        self._connections.add(self)

    def connection_lost(self, error: Exception | None) -> None:
        """Nobody waits for the answer any more."""
        self._connections.discard(self)
        if self.task is not None:
            self.task.cancel()

    def data_received(self, data: bytes) -> None:
        """Collect a request."""
        self._h11.receive_data(data)
        self._advance()

    def abort(self) -> None:
        """Close at once."""
        self._transport.abort()

    def _advance(self) -> None:
        try:
            while self.task is None:
                event = self._h11.next_event()
                if isinstance(event, h11.Request):
                    self._begin(event)
                elif isinstance(event, h11.Data):
                    self._take(bytes(event.data))
                elif isinstance(event, h11.EndOfMessage):
                    self.task = asyncio.get_running_loop().create_task(self._answer())
                elif event is h11.NEED_DATA or event is h11.PAUSED:
                    return
                else:
                    self._transport.close()
                    return
        except h11.RemoteProtocolError as error:
            self._refuse(error.error_status_hint, f"This is no HTTP/1.1: {error}.")

    def _begin(self, head: h11.Request) -> None:
        self._head, self._pieces, self._size = head, [], 0
        if self._h11.they_are_waiting_for_100_continue:
            going_on = h11.InformationalResponse(status_code=100, headers=[], reason=b"Continue")
            self._transport.write(self._h11.send(going_on) or b"")

    def _take(self, piece: bytes) -> None:
        self._size += len(piece)
        if self._size > self._body_bytes:
            raise h11.RemoteProtocolError(
                f"the body is longer than {self._body_bytes} bytes", error_status_hint=413
            )
        self._pieces.append(piece)

    async def _answer(self) -> None:
        head = self._head
        assert head is not None
        headers = {name.decode("latin-1"): v.decode("latin-1") for name, v in head.headers}
        target, body = head.target.decode("latin-1"), b"".join(self._pieces)
        self._pieces = []
        request = Request(head.method.decode("ascii"), target, headers, body, self._peer)
        try:
            if self._heartbeat_s is None:
                self._send(await self._handled(request))
            else:
                await self._answer_alive(request, self._heartbeat_s)
        except BaseException:
            # Half an answer, or none, must not look like one that is still to come.
            self.abort()
            raise
        finally:
            self.task = None
        if self._h11.our_state is h11.DONE and self._h11.their_state is h11.DONE:
            self._h11.start_next_cycle()
            self._advance()
        else:
            self._transport.close()

    async def _handled(self, request: Request) -> Answer:
        try:
            return await self._handler(request)
        except Exception as error:  # noqa: BLE001 - the boundary of whatever is served
            text = "".join(traceback.format_exception(error, limit=-8))
            message = f"{type(error).__name__}: {error}"
            fault = {"type": type(error).__name__, "message": message, "traceback": text}
            return json_answer({"error": fault}, 500)

    async def _answer_alive(self, request: Request, interval_s: float) -> None:
        working = asyncio.ensure_future(self._handled(request))
        try:
            await asyncio.wait([working], timeout=interval_s)
            if working.done():
                self._send(working.result())
                return
            self._write(
                h11.Response(
                    status_code=200,
                    headers=[
                        ("content-type", "application/json"),
                        ("transfer-encoding", "chunked"),
                    ],
                )
            )
            while not working.done():
                self._write(h11.Data(data=b" "))
                await asyncio.wait([working], timeout=interval_s)
            self._write(h11.Data(data=working.result().body), h11.EndOfMessage())
        except asyncio.CancelledError:
            working.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await working
            raise

    def _send(self, answer: Answer) -> None:
        headers = [
            ("content-type", answer.content_type),
            ("content-length", str(len(answer.body))),
            *answer.headers,
        ]
        head = h11.Response(status_code=answer.status, headers=headers)
        if answer.body:
            self._write(head, h11.Data(data=answer.body), h11.EndOfMessage())
        else:
            self._write(head, h11.EndOfMessage())

    def _write(self, *events: h11.Event) -> None:
        self._transport.write(b"".join(self._h11.send(event) or b"" for event in events))

    def _refuse(self, status: int, message: str) -> None:
        with contextlib.suppress(h11.LocalProtocolError):
            self._send(json_answer({"error": {"type": "bad_request", "message": message}}, status))
        self._transport.close()
