"""Plan the answer to a request for immutable bytes: conditions, ranges, headers (step: store).

Both doors to a blob, the API and the open index, use it. Source: RFC 9110 sections 13 and 14.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from urllib.parse import quote

YEAR_S = 31_536_000
_RANGE = re.compile(r"\s*bytes\s*=\s*(?P<first>[0-9]{0,18})\s*-\s*(?P<last>[0-9]{0,18})\s*", re.I)
_UNSAFE_IN_FILENAME = re.compile(r"[^A-Za-z0-9._+!-]")


@dataclass(frozen=True, slots=True)
class Content:
    """Bytes that never change, and how they may be kept."""

    sha256: str
    size_bytes: int
    media_type: str
    is_public: bool
    filename: str | None = None
    """Offered to browsers as the name to save under; None to show in place."""

    @property
    def etag(self) -> str:
        """Strong, and the same on every replica."""
        return f'"{self.sha256}"'

    def headers(self) -> dict[str, str]:
        """What every answer about these bytes carries, 304 included."""
        visibility = "public" if self.is_public else "private"
        headers = {
            "etag": self.etag,
            "cache-control": f"{visibility}, max-age={YEAR_S}, immutable",
            "accept-ranges": "bytes",
            "x-content-type-options": "nosniff",
        }
        if not self.is_public:
            # A shared cache that ignores `private` must at least keep callers apart.
            headers["vary"] = "Authorization"
        if self.filename is not None:
            headers["content-disposition"] = _content_disposition(self.filename)
        return headers


@dataclass(frozen=True, slots=True)
class Answer:
    """Status, headers, and which bytes follow."""

    status: int
    headers: dict[str, str]
    start: int = 0
    length: int = 0
    """Bytes of the body; 0 for a body-less answer."""


def plan_answer(content: Content, request_headers: Mapping[str, str]) -> Answer:
    """Decide between 200, 206, 304 and 416; the same for GET and HEAD, whose body is dropped."""
    headers = content.headers()
    if _is_match(request_headers.get("if-none-match"), content.etag):
        return Answer(304, headers)
    headers["content-type"] = content.media_type
    size = content.size_bytes
    wanted = _read_range(request_headers, content)
    if wanted is None:
        return Answer(200, headers | {"content-length": str(size)}, 0, size)
    start, stop = wanted
    if start >= stop:
        unsatisfied = {"content-range": f"bytes */{size}", "content-length": "0"}
        return Answer(416, headers | unsatisfied)
    partial = {
        "content-range": f"bytes {start}-{stop - 1}/{size}",
        "content-length": str(stop - start),
    }
    return Answer(206, headers | partial, start, stop - start)


def _is_match(condition: str | None, etag: str) -> bool:
    """Weak comparison, as If-None-Match wants it."""
    if condition is None:
        return False
    tags = {tag.strip().removeprefix("W/") for tag in condition.split(",")}
    return "*" in tags or etag in tags


def _read_range(headers: Mapping[str, str], content: Content) -> tuple[int, int] | None:
    """The wanted half-open range; None for all; an empty one when it cannot be satisfied.

    A header that is malformed, or asks for several ranges, is ignored, as RFC 9110 allows.
    """
    text = headers.get("range")
    if text is None or headers.get("if-range", content.etag).strip() != content.etag:
        return None
    match = _RANGE.fullmatch(text)
    if match is None:
        return None
    first, last = match["first"], match["last"]
    size = content.size_bytes
    if not first:
        return (max(0, size - int(last)), size) if last else None
    if last and int(last) < int(first):
        return None
    return int(first), min(size, int(last) + 1 if last else size)


def _content_disposition(filename: str) -> str:
    plain = _UNSAFE_IN_FILENAME.sub("_", filename)
    extended = "" if plain == filename else f"; filename*=UTF-8''{quote(filename, safe='')}"
    return f'attachment; filename="{plain}"{extended}'
