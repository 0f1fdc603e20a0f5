"""The bytes behind a file's address on an index page."""

from strop_hub.content import Content
from strop_hub.content_response import size_of
from strop_hub.hub import Hub, in_thread
from strop_hub.index.queries import FoundFile


async def content_of(
    hub: Hub, found: FoundFile, body: bytes | None = None, *, is_public: bool
) -> Content:
    """The file, or the metadata beside it; `body` is the whole of it where it has been read."""
    if found.filename is not None and found.size_bytes is not None:
        kind = "application/octet-stream"
        return Content(found.sha256, found.size_bytes, kind, is_public, found.filename)
    size = len(body) if body is not None else None
    if size is None:
        size = await in_thread(hub.workers.blob, size_of, hub.storage, found.sha256)
    return Content(found.sha256, size, found.media_type, is_public)
