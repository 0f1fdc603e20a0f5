"""Read the pages of any simple index, in JSON and HTML, asking only for what has changed.

Source: PEP 503, 592, 691 and 700; RFC 9110 section 13.
"""

import json
import re
from dataclasses import dataclass, field
from html.parser import HTMLParser
from typing import Any, Self
from urllib.parse import unquote, urldefrag, urljoin, urlsplit

import httpx

from strop.errors import HubUnreachableError, InvalidRefError
from strop.hub.refs import normalize_name

ACCEPT = (
    "application/vnd.pypi.simple.v1+json, application/vnd.pypi.simple.v1+html;q=0.2, "
    "text/html;q=0.1"
)
MAX_PAGE_BYTES = 256 * 1024 * 1024
TIMEOUT_S = 60
_JSON = re.compile(r"application/vnd\.pypi\.simple\.(v1|latest)\+json")
_GONE = (httpx.codes.NOT_FOUND, httpx.codes.GONE)
_FILENAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._+!-]*(\.whl|\.tar\.gz)")
_ALGORITHMS = ("sha256", "sha512", "sha384", "blake2b", "sha1", "md5")
"""Those that indexes name; the first that a page has decides."""


@dataclass(frozen=True, slots=True)
class Link:
    """A file on a page."""

    filename: str
    url: str
    algorithm: str | None = None
    digest: str | None = None
    """Hex, in lower case; None where the page names none."""
    yanked: str | None = None
    """The reason, which may be empty; None for a file that is not yanked."""


@dataclass(frozen=True, slots=True)
class Seen:
    """What an index said when a page was read, by which it tells whether the page is the same."""

    etag: str | None = None
    modified: str | None = None

    def headers(self) -> dict[str, str]:
        """The condition of the next request."""
        given = {"if-none-match": self.etag, "if-modified-since": self.modified}
        return {name: value for name, value in given.items() if value}


@dataclass(frozen=True, slots=True)
class Page:
    """A page that has changed."""

    links: list[Link]
    names: list[str]
    """Of projects, where the page lists those; in their normal form."""
    seen: Seen


@dataclass(slots=True)
class SimpleIndex:
    """One index; to be closed, or used in a ``with``."""

    url: str
    client: httpx.Client = field(
        default_factory=lambda: httpx.Client(timeout=TIMEOUT_S, follow_redirects=True)
    )

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.client.close()

    def read(self, name: str | None, seen: Seen) -> Page | None:
        """A project's page, or with None the list; None when it is as it was.

        Raises:
            HubUnreachableError: It cannot be read.
        """
        url = self.url.rstrip("/") + ("/" if name is None else f"/{name}/")
        try:
            response = self.client.get(url, headers={"accept": ACCEPT, **seen.headers()})
            if response.status_code == httpx.codes.NOT_MODIFIED:
                return None
            if name is not None and response.status_code in _GONE:
                return Page([], [], Seen())
            response.raise_for_status()
            if len(response.content) > MAX_PAGE_BYTES:
                raise ValueError(f"the page has {len(response.content)} bytes")
            return _parse(response)
        except (httpx.HTTPError, ValueError, KeyError, TypeError, AttributeError) as error:
            raise HubUnreachableError(
                f"{url} cannot be read as a page of a simple index: {error}. "
                "Run the same command again later; it goes on where it was."
            ) from error


def _parse(response: httpx.Response) -> Page:
    headers = response.headers
    seen = Seen(headers.get("etag"), headers.get("last-modified"))
    base = str(response.url)
    if _JSON.match(headers.get("content-type", "")):
        document = json.loads(response.content)
        links = [_json_link(base, file) for file in document.get("files", ())]
        names = [project["name"] for project in document.get("projects", ())]
    else:
        parser = _Anchors(base)
        parser.feed(response.text)
        links = [_link(href, None, yanked) for href, yanked in parser.found]
        names = [text for text in map(_last_part, (href for href, _ in parser.found)) if text]
    usable = [link for link in links if link is not None]
    return Page(usable, [name for name in map(_normal, names) if name], seen)


def _json_link(base: str, file: dict[str, Any]) -> Link | None:
    yanked = file.get("yanked", False)
    reason = yanked if isinstance(yanked, str) else ""
    hashes = {str(name): str(digest) for name, digest in file.get("hashes", {}).items()}
    return _link(urljoin(base, file["url"]), hashes, reason if yanked else None)


def _link(url: str, hashes: dict[str, str] | None, yanked: str | None) -> Link | None:
    """The file behind an address; None for what this hub keeps nothing of, such as eggs."""
    url, fragment = urldefrag(url)
    filename = unquote(urlsplit(url).path.rpartition("/")[2])
    if _FILENAME.fullmatch(filename) is None or urlsplit(url).scheme not in ("http", "https"):
        return None
    if hashes is None:
        algorithm, _, digest = fragment.partition("=")
        hashes = {algorithm: digest}
    known = next((name for name in _ALGORITHMS if hashes.get(name)), None)
    return Link(filename, url, known, hashes[known].lower() if known else None, yanked)


def _last_part(url: str) -> str:
    return unquote(urlsplit(url).path.rstrip("/").rpartition("/")[2])


def _normal(name: str) -> str | None:
    try:
        return normalize_name(name)
    except InvalidRefError:
        return None


class _Anchors(HTMLParser):
    """Addresses of anchors, made absolute, with the reason of their yanks."""

    def __init__(self, base: str) -> None:
        super().__init__()
        self.base = base
        self.found: list[tuple[str, str | None]] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Note an anchor, or where addresses begin."""
        given = dict(attrs)
        href = given.get("href")
        if tag == "base" and href:
            self.base = urljoin(self.base, href)
        elif tag == "a" and href:
            yanked = (given["data-yanked"] or "") if "data-yanked" in given else None
            self.found.append((urljoin(self.base, href), yanked))
