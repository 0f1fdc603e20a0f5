"""Send a blob: small ones in one message, large ones in pieces, never through a session."""

from typing import BinaryIO

from anyio import CapacityLimiter
from starlette.datastructures import Headers
from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from strop_hub.content import Answer, Content, plan_answer
from strop_hub.errors import StorageUnavailableError
from strop_hub.hub import Hub, in_thread
from strop_hub.storage import Storage
from strop_hub.storage.base import place_of

PIECE_BYTES = 256 * 1024
_SIGNED_S = 300
"""How long the bucket's own address of a file works: enough to begin with."""


class ContentResponse(Response):
    """An ASGI response that reads conditions and ranges from the request itself.

    `body` is the whole blob where the caller has read it already.
    """

    def __init__(self, hub: Hub, content: Content, body: bytes | None = None) -> None:
        self._body = body
        self._storage = hub.storage
        self._accel_prefix = hub.settings.accel_prefix
        self._limiter: CapacityLimiter = hub.workers.blob
        self._content = content
        self.status_code = 200
        self.background = None

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request."""
        answer = plan_answer(self._content, Headers(scope=scope))
        if answer.length > PIECE_BYTES and scope["method"] == "GET":
            answer = self._handed_over(answer)
        if scope["method"] == "HEAD" or answer.length == 0:
            await _start(send, answer)
            await send({"type": "http.response.body", "body": b""})
        elif self._body is not None:
            await _start(send, answer)
            piece = self._body[answer.start : answer.start + answer.length]
            await send({"type": "http.response.body", "body": piece})
        elif answer.length <= PIECE_BYTES:
            body = await in_thread(
                self._limiter, _read_piece, self._storage, self._content.sha256, answer
            )
            await _start(send, answer)
            await send({"type": "http.response.body", "body": body})
        else:
            await self._stream(send, answer)

    def _handed_over(self, answer: Answer) -> Answer:
        """The answer by which nginx, or the bucket itself, sends the bytes; else the same."""
        content = self._content
        sha256 = content.sha256
        if self._accel_prefix and self._storage.path(sha256) is not None:
            place = f"{self._accel_prefix.rstrip('/')}/{place_of(sha256)}"
            # nginx reads the range from the request, and counts for itself.
            kept = {k: v for k, v in answer.headers.items() if not k.startswith("content-r")}
            kept.pop("content-length")
            return Answer(200, kept | {"x-accel-redirect": place})
        url = self._storage.url(
            sha256, filename=content.filename, media_type=content.media_type, lasts_s=_SIGNED_S
        )
        if url is None:
            return answer
        headers = {"location": url, "cache-control": "no-store", "content-length": "0"}
        return Answer(302, headers)

    async def _stream(self, send: Send, answer: Answer) -> None:
        file = await in_thread(
            self._limiter, _open, self._storage, self._content.sha256, answer.start
        )
        try:
            await _start(send, answer)
            left = answer.length
            while left:
                piece = await in_thread(self._limiter, file.read, min(PIECE_BYTES, left))
                if not piece:
                    # The client must see a broken transfer, not a short file that looks whole.
                    raise EOFError(f"the blob {self._content.sha256} is {left} bytes too short")
                left -= len(piece)
                message = {"type": "http.response.body", "body": piece, "more_body": left > 0}
                await send(message)
        finally:
            file.close()


def read_local(storage: Storage, sha256: str) -> bytes | None:
    """A small blob, if it lies on this machine; None when it is elsewhere or missing."""
    path = storage.path(sha256)
    try:
        return None if path is None else path.read_bytes()
    except FileNotFoundError:
        return None


def size_of(storage: Storage, sha256: str) -> int:
    """How large a blob is that a row says is there.

    Raises:
        StorageUnavailableError: It is not there.
    """
    try:
        return storage.size_bytes(sha256)
    except KeyError:
        raise _missing(sha256) from None


async def _start(send: Send, answer: Answer) -> None:
    headers = [(name.encode(), value.encode("latin-1")) for name, value in answer.headers.items()]
    await send({"type": "http.response.start", "status": answer.status, "headers": headers})


def _read_piece(storage: Storage, sha256: str, answer: Answer) -> bytes:
    with _open(storage, sha256, answer.start) as file:
        body = file.read(answer.length)
    if len(body) != answer.length:
        raise _missing(sha256)
    return body


def _open(storage: Storage, sha256: str, start: int) -> BinaryIO:
    try:
        file = storage.open(sha256)
    except KeyError:
        raise _missing(sha256) from None
    file.seek(start)
    return file


def _missing(sha256: str) -> StorageUnavailableError:
    return StorageUnavailableError(
        f"the hub's storage lacks the bytes of sha256:{sha256}. "
        "Try again later; if it stays so, tell the hub's operator."
    )
