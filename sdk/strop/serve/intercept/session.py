"""The calls of one program: admitted, told from retries, and handed to the episode in order."""

from __future__ import annotations

import asyncio
import hashlib
import secrets
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any
from weakref import WeakSet

from strop.attempt import derive_seed
from strop.errors import StropError
from strop.serve.http.message import Peer, Request
from strop.serve.intercept.call import Call, CallError, Dialect
from strop.types import Completion, Message

_KEY_HEADER = "idempotency-key"
_TRY_HEADERS = ("x-stainless-retry-count", "x-strop-try")


class SessionClosedError(StropError):
    """The episode takes no further call."""


@dataclass(eq=False, slots=True)
class DueCall:
    """A call that waits for its completion."""

    call: Call
    dialect: Dialect
    context_hash: int
    """Of the conversation as the program wrote it."""
    repeat_count: int
    """How many calls with this very body there were before."""
    reply: asyncio.Future[dict[str, Any]]
    waiter_count: int = 0
    """Connections that wait for the reply."""
    is_queued: bool = True
    is_taken: bool = False
    """Whether the episode has it: then it is sampled, whoever still waits."""
    is_delivered: bool = False
    was_dropped: bool = False

    @property
    def is_lost(self) -> bool:
        """Whether its client went away without the reply."""
        return self.was_dropped and not self.is_delivered and self.waiter_count == 0


class Session:
    """One program's side of an episode.

    Args:
        passed_fields: Of requests, those that go on to the model as they are.
    """

    def __init__(self, passed_fields: tuple[str, ...] = ()) -> None:
        self.secret = f"strop-{secrets.token_urlsafe(24)}"
        """The program's API key."""
        self.stray_count = 0
        """Calls that came with the secret, but from elsewhere."""
        self._is_caller: Callable[[Peer], bool] | None = None
        self._has_begun = asyncio.Event()
        self._passed_fields = passed_fields
        self._callers: WeakSet[Peer] = WeakSet()
        self._queue: deque[DueCall] = deque()
        self._arrived = asyncio.Event()
        self._by_body: dict[bytes, DueCall] = {}
        self._by_key: dict[str, DueCall] = {}
        self._history = _History()
        self._kept: dict[str, list[Any]] = {}
        self._closed: str | None = None

    def begin(self, is_caller: Callable[[Peer], bool]) -> None:
        """Take calls from now on; those that were quicker have waited.

        Args:
            is_caller: Says whether a connection is the program's.
        """
        self._is_caller = is_caller
        self._has_begun.set()

    async def admits(self, peer: Peer) -> bool:
        """Whether calls over this connection count."""
        await self._has_begun.wait()
        # A program that has ended calls no more: whatever holds its connections is a child.
        if self._closed is not None or (is_caller := self._is_caller) is None:
            return False
        if peer in self._callers or is_caller(peer):
            self._callers.add(peer)
            return True
        self.stray_count += 1
        return False

    async def answer(self, request: Request, dialect: Dialect) -> tuple[Call, dict[str, Any]]:
        """The reply to a request; a lost client cancels it.

        Raises:
            CallError: The request cannot be read.
            SessionClosedError: The episode has ended.
        """
        if self._closed is not None:
            raise SessionClosedError(self._closed)
        due, call = self._admit(request, dialect)
        due.waiter_count += 1
        try:
            reply = await asyncio.shield(due.reply)
            due.is_delivered = True
        except asyncio.CancelledError:
            due.was_dropped = True
            raise
        finally:
            due.waiter_count -= 1
        return call, reply

    async def next(self) -> DueCall:
        """The next call to be completed, in the order of arrival."""
        while True:
            while self._queue:
                due = self._queue.popleft()
                due.is_queued = False
                # A call that nobody waits for any longer was never sampled: it is none.
                if due.waiter_count:
                    due.is_taken = True
                    return due
            self._arrived.clear()
            await self._arrived.wait()

    def complete(self, due: DueCall, completion: Completion) -> None:
        """Give a call its completion."""
        reply = due.dialect.encode(due.call, completion, secrets.token_hex(12))
        self._history.remember(due, reply, completion.message)
        if due.call.items is not None:
            self._kept[reply["id"]] = [*due.call.items, *reply["output"]]
        due.reply.set_result(reply)

    def close(self, reason: str) -> None:
        """Take no further call, and refuse those that wait."""
        self._closed = self._closed or reason
        self._has_begun.set()
        waiting = {*self._queue, *self._by_body.values(), *self._by_key.values()}
        for due in waiting:
            if not due.reply.done():
                due.reply.set_exception(SessionClosedError(reason))
                # Nobody may be waiting; then nobody has to hear of it.
                due.reply.exception()
        self._queue.clear()
        self._by_body.clear()
        self._by_key.clear()

    def _admit(self, request: Request, dialect: Dialect) -> tuple[DueCall, Call]:
        digest = hashlib.sha256(request.path.encode() + b"\0" + request.body).digest()
        key = request.headers.get(_KEY_HEADER)
        same = self._by_body.get(digest)
        known = self._by_key.get(key) if key else None
        if known is None and same is not None and (_is_retry(request) or same.is_lost):
            known = same
        call = self._decode(request, dialect)
        if known is None:
            known = self._new(call, dialect, 0 if same is None else same.repeat_count + 1)
            self._by_body[digest] = known
        elif not (known.is_taken or known.is_queued):
            self._enqueue(known)
        if key:
            self._by_key[key] = known
        return known, call

    def _decode(self, request: Request, dialect: Dialect) -> Call:
        try:
            return dialect.decode(request.document(), self._passed_fields, self._kept)
        except (AttributeError, KeyError, TypeError) as error:
            raise CallError(f"The body is of another shape than the dialect's: {error!r}.") from (
                error
            )

    def _new(self, call: Call, dialect: Dialect, repeat_count: int) -> DueCall:
        messages, context_hash = self._history.recall(call.messages)
        reply: asyncio.Future[dict[str, Any]] = asyncio.get_running_loop().create_future()
        known = replace(call, messages=messages, is_streaming=False, has_usage=False)
        due = DueCall(known, dialect, context_hash, repeat_count, reply)
        self._enqueue(due)
        return due

    def _enqueue(self, due: DueCall) -> None:
        due.is_queued = True
        self._queue.append(due)
        self._arrived.set()


@dataclass(slots=True)
class _History:
    """Puts what the model said in place of what the program repeats of it.

    A dialect carries less than a completion holds: thoughts are left out, arguments are
    written anew. Where a program's history is what was sent to it, the record's own message
    stands for it, so that the conversation goes on and does not fork.
    """

    said: dict[tuple[int, Message], Message] = field(default_factory=dict)
    """By hash of the conversation before, and message as the program repeats it."""
    seen: dict[Message, Message] = field(default_factory=dict)
    """Equal messages are kept once, and compared by identity."""

    def recall(self, messages: tuple[Message, ...]) -> tuple[tuple[Message, ...], int]:
        """The conversation with the record's own messages, and its hash."""
        recalled = []
        context_hash = 0
        for message in messages:
            own = self.said.get((context_hash, message)) if message.role == "assistant" else None
            recalled.append(own or self.seen.setdefault(message, message))
            context_hash = hash((context_hash, message))
        return tuple(recalled), context_hash

    def remember(self, due: DueCall, reply: dict[str, Any], message: Message) -> None:
        """Keep what a reply looks like when it comes back."""
        self.said[due.context_hash, due.dialect.read_back(reply)] = message


def repeated_seed(seed: int, repeat_count: int) -> int:
    """Another seed for a request that is made again on purpose, so that it is sampled afresh."""
    return seed if repeat_count == 0 else derive_seed(seed, repeat_count)


def _is_retry(request: Request) -> bool:
    return any(request.headers.get(name, "0") not in ("0", "") for name in _TRY_HEADERS)
