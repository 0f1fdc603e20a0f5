"""The server: routes calls to dialects, applies faults, remembers what it saw."""

from __future__ import annotations

import asyncio
import contextlib
import json
import ssl
import subprocess
import sys
from collections import deque
from collections.abc import Iterator
from typing import Any

from tests.model_server import chat, dialects
from tests.model_server.sampling import Policy, Sampled, reverse
from tests.model_server.wire import Call, Fault, Peer

_JSON = {"content-type": "application/json"}
_EVENTS = {"content-type": "text/event-stream; charset=utf-8"}


class ModelServer:
    """Serves one model on a free port.

    `faults` are used up by the next calls, one each, in order; `calls` and `sampled` hold what
    was asked and what the engine saw, in order of arrival.
    """

    def __init__(
        self,
        policy: Policy = reverse,
        *,
        model: str = "tiny",
        context_tokens: int = 1_000_000,
        tls: ssl.SSLContext | None = None,
        port: int = 0,
    ) -> None:
        self.policy = policy
        self.model = model
        self.context_tokens = context_tokens
        self.faults: deque[Fault] = deque()
        self.calls: list[Call] = []
        self.sampled: list[Sampled] = []
        self.peers: set[Peer] = set()
        self.connection_count = 0
        self.is_recording = True
        self._tls = tls
        self._port = port
        self._server: asyncio.Server | None = None

    async def __aenter__(self) -> ModelServer:
        loop = asyncio.get_running_loop()
        self._server = await loop.create_server(
            self._make_peer, "127.0.0.1", self._port, ssl=self._tls, backlog=4096
        )
        return self

    async def __aexit__(self, *_: object) -> None:
        assert self._server is not None
        self._server.close()
        for peer in tuple(self.peers):
            peer.transport.abort()
        while self.peers:  # noqa: ASYNC110 - their sockets close within two turns of the loop
            await asyncio.sleep(0)
        await self._server.wait_closed()

    @property
    def port(self) -> int:
        assert self._server is not None
        return int(self._server.sockets[0].getsockname()[1])

    @property
    def url(self) -> str:
        return f"{'https' if self._tls else 'http'}://127.0.0.1:{self.port}"

    @property
    def base_url(self) -> str:
        return f"{self.url}/v1"

    async def run_forever(self) -> None:
        assert self._server is not None
        await self._server.serve_forever()

    def _make_peer(self) -> Peer:
        self.connection_count += 1
        return Peer(self._answer, self.peers)

    async def _answer(self, call: Call, peer: Peer) -> None:
        if self.is_recording:
            self.calls.append(call)
        fault = self.faults.popleft() if self.faults else Fault()
        await asyncio.sleep(fault.delay_s)
        if fault.is_reset:
            peer.reset()
        elif fault.is_closed:
            peer.transport.close()
        elif fault.body is not None or fault.status != 200:
            self._send(peer, fault, _to_bytes(fault.body))
        elif call.method == "GET":
            listing = {"object": "list", "data": [{"id": self.model, "object": "model"}]}
            peer.send_whole(200, _JSON, _to_bytes(listing))
        else:
            await self._complete(call, peer, fault)

    async def _complete(self, call: Call, peer: Peer, fault: Fault) -> None:
        body = call.document
        if call.path == "/tokenize":
            self._send(peer, fault, _to_bytes({"tokens": [ord(each) for each in body["content"]]}))
            return
        seed = body.get("seed")
        if isinstance(seed, int) and not -(2**63) <= seed < 2**63:
            # As vLLM does, and OpenAI and SGLang.
            self._refuse(peer, f"seed: Input should be a signed 64-bit integer, but is {seed}")
            return
        sampled, document, events = self._sample(call.path, body)
        wanted = len(sampled.prompt_ids) + (body.get("max_tokens") or 0)
        if wanted > self.context_tokens:
            self._refuse(
                peer,
                f"This model's maximum context length is {self.context_tokens} tokens."
                f" However, you requested {wanted} tokens. Please reduce the length.",
            )
            return
        if self.is_recording:
            self.sampled.append(sampled)
        if fault.edit is not None:
            document = fault.edit(document)
        if body.get("stream"):
            await self._stream(peer, fault, list(events(document)))
        else:
            self._send(peer, fault, _to_bytes(document))

    def _refuse(self, peer: Peer, message: str) -> None:
        problem = {"message": message, "type": "BadRequestError", "code": 400}
        peer.send_whole(400, _JSON, _to_bytes({"error": problem}))

    def _sample(self, path: str, body: dict[str, Any]) -> tuple[Sampled, dict[str, Any], Any]:
        if path == "/v1/messages":
            return (*dialects.messages(body, self.policy), dialects.messages_events)
        if path == "/v1/responses":
            return (*dialects.responses(body, self.policy), dialects.responses_events)
        complete = chat.text if path == "/v1/completions" else chat.chat
        sampled, document = complete(body, self.policy)
        return sampled, document, lambda edited: chat.events(body, sampled, edited)

    def _send(self, peer: Peer, fault: Fault, body: bytes) -> None:
        headers = {**_JSON, **fault.headers}
        if fault.cut_at is None:
            peer.send_whole(fault.status, headers, body)
            return
        peer.send_head(fault.status, headers, len(body))
        peer.send_piece(body[: int(len(body) * fault.cut_at)])
        peer.transport.close()

    async def _stream(self, peer: Peer, fault: Fault, events: list[Any]) -> None:
        peer.send_head(200, {**_EVENTS, **fault.headers}, None)
        is_cut = fault.event_count is not None
        for event in events[: fault.event_count]:
            name = f"event: {event['type']}\n" if "type" in event else ""
            content = event if isinstance(event, str) else json.dumps(event)
            peer.send_piece(f"{name}data: {content}\n\n".encode())
            await asyncio.sleep(fault.chunk_delay_s)
        if is_cut and not fault.is_cleanly_ended:
            peer.transport.close()
        else:
            peer.send_end()


def _to_bytes(body: Any) -> bytes:
    if isinstance(body, bytes):
        return body
    return body.encode() if isinstance(body, str) else json.dumps(body).encode()


@contextlib.contextmanager
def serve_in_a_process(*arguments: str) -> Iterator[str]:
    """The base URL of a server that runs in a process of its own while the block does."""
    command = [sys.executable, "-m", "tests.model_server", "--until-eof", *arguments]
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as child:
        assert child.stdout is not None
        try:
            yield child.stdout.readline().strip()
        finally:
            child.kill()
