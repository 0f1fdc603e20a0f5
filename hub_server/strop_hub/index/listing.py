"""Render the list of all projects piece by piece, in constant memory (step: resolve).

A list of 100,000 names has megabytes in each form: what is long lies in a file that nobody else can
open, and that goes when the page does.
"""

import hashlib
import json
from collections.abc import Iterable, Iterator
from html import escape
from urllib.parse import quote

from strop_hub.index.negotiation import Form
from strop_hub.index.pages import (
    API_VERSION,
    ETAG_CHARACTERS,
    HTML_HEAD,
    PageForms,
    RenderedPage,
    SpooledBody,
)

SPOOLED_FROM_BYTES = 256 * 1024
_PIECE_NAMES = 1000


def render_listing(names: Iterable[str]) -> PageForms:
    """The page that lists all projects; every name is in its normal form."""
    html, document = _Writer(), _Writer()
    html.write(f"{HTML_HEAD}<title>Simple index</title></head>\n<body>\n")
    document.write(f'{{"meta":{{"api-version":{json.dumps(API_VERSION)}}},"projects":[')
    count = 0
    for piece in _pieces(names):
        html.write("".join(f'<a href="{quote(name)}/">{escape(name)}</a><br>\n' for name in piece))
        listed = ",".join(json.dumps({"name": name}, separators=(",", ":")) for name in piece)
        document.write(f",{listed}" if count else listed)
        count += len(piece)
    html.write("</body></html>\n")
    document.write("]}")
    return PageForms(
        {
            form: (document if form is Form.JSON_V1 else html).page(form.content_type)
            for form in Form
        },
        has_entries=count > 0,
    )


def _pieces(names: Iterable[str]) -> Iterator[list[str]]:
    piece: list[str] = []
    for name in names:
        piece.append(name)
        if len(piece) == _PIECE_NAMES:
            yield piece
            piece = []
    if piece:
        yield piece


class _Writer:
    """The body of one form: in memory while it is short, else in a file."""

    def __init__(self) -> None:
        self._digest = hashlib.sha256()
        self._pieces: list[bytes] = []
        self._kept_bytes = 0
        self._spooled: SpooledBody | None = None

    def write(self, text: str) -> None:
        """Add to it."""
        piece = text.encode()
        self._digest.update(piece)
        self._pieces.append(piece)
        self._kept_bytes += len(piece)
        if self._kept_bytes > SPOOLED_FROM_BYTES:
            self._flush()

    def page(self, content_type: str) -> RenderedPage:
        """The finished page."""
        if self._spooled is not None:
            self._flush()
        etag = f'"{self._digest.hexdigest()[:ETAG_CHARACTERS]}"'
        return RenderedPage(b"".join(self._pieces), etag, content_type, self._spooled)

    def _flush(self) -> None:
        if self._spooled is None:
            self._spooled = SpooledBody()
        self._spooled.append(b"".join(self._pieces))
        self._pieces, self._kept_bytes = [], 0
