"""Step *receive*: the body to files in a staging folder, in constant memory (step: publish)."""

from collections.abc import AsyncIterator
from pathlib import Path

from anyio import CapacityLimiter
from starlette.requests import ClientDisconnect

from strop_hub.errors import HubError, MalformedBodyError
from strop_hub.hub import in_thread
from strop_hub.publish.failpoints import reach
from strop_hub.publish.form import Form, Parts, too_large
from strop_hub.settings import MIB

_FLUSH_BYTES = MIB
_OVERHEAD_BYTES = MIB
"""Of fields, headers and boundaries around the files."""


async def receive(
    body: AsyncIterator[bytes],
    content_type: str,
    folder: Path,
    parts: Parts,
    limiter: CapacityLimiter,
) -> Form:
    """The whole form; its files lie in `folder`.

    Raises:
        MalformedBodyError: The body is no such form, or the connection broke.
        TooLargeError: A part is larger than allowed.
        StorageFullError: No space is left.
    """
    form = Form(content_type, folder, parts)
    try:
        await _fill(form, body, limiter)
        await in_thread(limiter, form.end)
    except HubError:
        await _drain(body, _longest(parts))
        raise
    except ClientDisconnect:
        raise MalformedBodyError(
            "the connection broke before the whole body had come; nothing was stored"
        ) from None
    finally:
        form.close()
    return form


def check_length(content_length: str | None, parts: Parts) -> None:
    """Refuse a body that says itself that it is too large, before any of it is read."""
    longest = _longest(parts)
    if content_length is not None and content_length.isdigit() and int(content_length) > longest:
        raise too_large("the upload", parts.max_file_bytes)


async def _fill(form: Form, body: AsyncIterator[bytes], limiter: CapacityLimiter) -> None:
    is_first = True
    async for chunk in body:
        form.feed(chunk)
        if is_first:
            reach("publish.receive")
            is_first = False
        if form.pending_bytes >= _FLUSH_BYTES:
            await in_thread(limiter, form.flush)
    reach("publish.receive-end")


async def _drain(body: AsyncIterator[bytes], max_bytes: int) -> None:
    # A client that is still sending sees a reset instead of the refusal, unless it is let finish.
    left_bytes = max_bytes
    try:
        async for chunk in body:
            left_bytes -= len(chunk)
            if left_bytes < 0:
                return
    except (ClientDisconnect, RuntimeError):
        return


def _longest(parts: Parts) -> int:
    others_bytes = _OVERHEAD_BYTES + (parts.ignored_bytes or 0)
    return len(parts.files) * parts.max_file_bytes + others_bytes
