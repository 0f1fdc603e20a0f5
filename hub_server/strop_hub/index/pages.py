"""Render index pages to bytes, in HTML and JSON (step: resolve).

Source: the simple repository API, PEP 503, 592, 658, 691, 700, 714 and 792.
"""

import hashlib
import json
import os
import tempfile
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import UTC, datetime
from html import escape
from typing import Any
from urllib.parse import quote

from packaging.version import Version

from strop_hub.index.negotiation import Form

API_VERSION = "1.4"
PIECE_BYTES = 64 * 1024
SPOOLED_WEIGHT = 1024 * 1024
ETAG_CHARACTERS = 32
_SECURE = ("https://", "http://127.0.0.1", "http://localhost", "http://[::1]")
HTML_HEAD = (
    '<!DOCTYPE html>\n<html lang="en"><head><meta charset="utf-8">'
    f'<meta name="pypi:repository-version" content="{API_VERSION}">'
)


@dataclass(frozen=True, slots=True)
class Standing:
    """How a project wants to be taken. Source: PEP 792."""

    status: str = "active"
    reason: str = ""


_ACTIVE = Standing()


@dataclass(frozen=True, slots=True)
class IndexFile:
    """One wheel or source distribution on a page."""

    filename: str
    version: str
    owner: str
    sha256: str
    size_bytes: int
    uploaded_at: datetime
    requires_python: str | None = None
    metadata_sha256: str | None = None
    """Of the wheel's METADATA, served beside it; None for source distributions."""
    has_provenance: bool = False
    yanked: bool | str = False
    """True, or the reason."""


@dataclass(frozen=True, slots=True)
class RenderedPage:
    """A page as it goes over the wire."""

    body: bytes
    etag: str
    """Strong: of the bytes."""
    content_type: str
    spooled: "SpooledBody | None" = None
    """Where the bytes lie when they are many; `body` is empty then."""

    @property
    def size_bytes(self) -> int:
        """Of the body."""
        return len(self.body) if self.spooled is None else self.spooled.size_bytes


class SpooledBody:
    """Bytes in a file without a name, which closes when nobody needs it any more."""

    def __init__(self) -> None:
        self._file = tempfile.TemporaryFile(prefix="strop-page-")  # noqa: SIM115 - see `__del__`
        self.size_bytes = 0

    def __del__(self) -> None:
        """Whoever reads last, a cache or an answer under way, lets go of the file."""
        self._file.close()

    def append(self, content: bytes) -> None:
        """Add to it."""
        os.pwrite(self._file.fileno(), content, self.size_bytes)
        self.size_bytes += len(content)

    def read(self, start: int) -> bytes:
        """The next piece from a position; several readers at once do not disturb each other."""
        return os.pread(self._file.fileno(), PIECE_BYTES, start)


@dataclass(frozen=True, slots=True)
class PageForms:
    """One page in every form."""

    by_form: dict[Form, RenderedPage]
    has_entries: bool = True
    """Whether anything is listed."""

    @property
    def size_bytes(self) -> int:
        """What the page weighs in a cache; the two HTML forms share their bytes.

        Open files are few, and so weigh something too.
        """
        kept = (self.by_form[Form.HTML], self.by_form[Form.JSON_V1])
        return sum(len(page.body) if page.spooled is None else SPOOLED_WEIGHT for page in kept)


def render_project(
    name: str,
    files: Iterable[IndexFile],
    files_url: str,
    standing: Standing = _ACTIVE,
    root: str = "",
) -> PageForms:
    """The page of one project; `files_url` leads from it to the folder of an owner's files.

    Provenance has absolute addresses under `root`, and is only told where that is a secure origin.
    """
    listed = list(files)
    versions = sorted({file.version for file in listed}, key=Version)
    document = {
        "meta": {"api-version": API_VERSION},
        "name": name,
        "project-status": _status_entry(standing),
        "versions": versions,
        "files": [
            _file_entry(file, _file_url(file, name, files_url)) | _provenance(file, name, root)
            for file in listed
        ],
    }
    anchors = "".join(
        _file_anchor(file, _file_url(file, name, files_url), _provenance(file, name, root))
        for file in listed
    )
    html = (
        f"{HTML_HEAD}{_status_tags(standing)}<title>Links for {escape(name)}</title></head>\n"
        f"<body><h1>Links for {escape(name)}</h1>\n{anchors}</body></html>\n"
    )
    return _forms(html, document)


def _status_entry(standing: Standing) -> dict[str, str]:
    reason = {"reason": standing.reason} if standing.reason else {}
    return {"status": str(standing.status), **reason}


def _status_tags(standing: Standing) -> str:
    tags = f'<meta name="pypi:project-status" content="{escape(str(standing.status))}">'
    if standing.reason:
        tags += f'<meta name="pypi:project-status-reason" content="{escape(standing.reason)}">'
    return tags


def _forms(html: str, document: dict[str, Any]) -> PageForms:
    html_body = html.encode(errors="xmlcharrefreplace")
    json_body = json.dumps(document, separators=(",", ":")).encode()
    return PageForms(
        {
            form: _page(json_body if form is Form.JSON_V1 else html_body, form.content_type)
            for form in Form
        }
    )


def _page(body: bytes, content_type: str) -> RenderedPage:
    digest = hashlib.sha256(body).hexdigest()[:ETAG_CHARACTERS]
    return RenderedPage(body, f'"{digest}"', content_type)


def _file_url(file: IndexFile, name: str, files_url: str) -> str:
    """Relative, so that it holds behind any path prefix; `+` must arrive as `%2B`."""
    return f"{files_url.format(owner=file.owner)}/{name}/{quote(file.filename, safe='')}"


def _provenance(file: IndexFile, name: str, root: str) -> dict[str, str]:
    """Source: PEP 740, "Index changes"."""
    if not file.has_provenance or not root.startswith(_SECURE):
        return {}
    path = f"owners/{file.owner}/files/{name}/{quote(file.filename, safe='')}"
    return {"provenance": f"{root}/{path}.provenance"}


def _file_entry(file: IndexFile, url: str) -> dict[str, Any]:
    entry: dict[str, Any] = {
        "filename": file.filename,
        "url": url,
        "hashes": {"sha256": file.sha256},
        "size": file.size_bytes,
        "upload-time": file.uploaded_at.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ"),
        "yanked": file.yanked,
        "core-metadata": False,
    }
    if file.metadata_sha256:
        # Clients from before PEP 714 misread `dist-info-metadata` here, but accept this key.
        entry["core-metadata"] = entry["data-dist-info-metadata"] = {"sha256": file.metadata_sha256}
    if file.requires_python:
        entry["requires-python"] = file.requires_python
    return entry


def _file_anchor(file: IndexFile, url: str, provenance: dict[str, str]) -> str:
    attributes = {"href": f"{url}#sha256={file.sha256}"}
    if file.requires_python:
        attributes["data-requires-python"] = file.requires_python
    if file.metadata_sha256:
        attributes["data-core-metadata"] = f"sha256={file.metadata_sha256}"
        attributes["data-dist-info-metadata"] = f"sha256={file.metadata_sha256}"
    attributes |= {f"data-{key}": value for key, value in provenance.items()}
    if file.yanked:
        attributes["data-yanked"] = "" if file.yanked is True else file.yanked
    rendered = " ".join(f'{key}="{escape(value)}"' for key, value in attributes.items())
    return f"<a {rendered}>{escape(file.filename)}</a><br>\n"
