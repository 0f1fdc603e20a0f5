"""Fetch a source distribution from the index that pip is set to, without building it."""

import hashlib
import os
import ssl
import subprocess
import sys
import tempfile
from html.parser import HTMLParser
from pathlib import Path
from typing import NamedTuple
from urllib.parse import unquote, urldefrag, urljoin, urlsplit

import httpx
from packaging.requirements import InvalidRequirement, Requirement
from packaging.utils import InvalidSdistFilename, canonicalize_version, parse_sdist_filename
from packaging.version import InvalidVersion, Version

from strop.errors import PackageError, SettingsError
from strop.hub.refs import normalize_name
from strop.hub.rules.limits import DEFAULT_LIMITS

# pip alone knows all the places that set its index: files, variables, and what it is without them.
_ASK_PIP = """
from pip._internal.commands import create_command
options = create_command("download").parser.get_default_values()
urls = [options.index_url, *options.extra_index_urls]
print(options.cert or "", *(url for url in urls if url.startswith("http")), sep="\\n")
"""
_SUFFIX = ".tar.gz"


class PipIndexes(NamedTuple):
    """Where pip looks."""

    certificates: str
    """A file of authorities; empty for the usual ones."""
    urls: list[str]


class _File(NamedTuple):
    filename: str
    url: str
    sha256: str


class _Links(HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.urls: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        if tag == "a" and (url := dict(attrs).get("href")):
            self.urls.append(url)


def pip_indexes() -> PipIndexes:
    """The indexes that pip is set to, by files, variables or itself.

    Raises:
        SettingsError: This Python has no pip that tells.
    """
    command = [sys.executable, "-c", _ASK_PIP]
    found = subprocess.run(command, capture_output=True, text=True, check=False)
    certificates, *urls = found.stdout.splitlines() or [""]
    if found.returncode or not urls:
        raise SettingsError(
            "pip does not tell which index it uses. Install it into this environment "
            "(python -m ensurepip), or fetch the source distribution and give its path."
        )
    return PipIndexes(certificates, urls)


def fetch_sdist(requirement: str, folder: Path, indexes: PipIndexes | None = None) -> Path:
    """Put the source distribution of ``name==version`` into a folder, if it is not there yet.

    Args:
        requirement: Such as ``toolz==1.0.0``.
        folder: Is made.
        indexes: Where to look. None: where pip would.

    Raises:
        SettingsError: It names no single version.
        PackageError: No index has it, or the file is not what the index says.
    """
    name, version = _pinned(requirement)
    folder /= f"{name}-{canonicalize_version(version)}"
    for kept in folder.glob(f"*{_SUFFIX}"):
        return kept
    certificates, urls = indexes or pip_indexes()
    context = ssl.create_default_context(cafile=certificates or None)
    with httpx.Client(verify=context, follow_redirects=True, timeout=60.0) as client:
        for url in urls:
            try:
                found = _find(client, f"{url.rstrip('/')}/{name}/", version)
                if found is not None:
                    return _keep(_receive(client, found), folder / found.filename)
            except httpx.HTTPError as error:
                host = urlsplit(url).hostname
                raise PackageError(f"The index at {host} does not answer: {error}.") from error
    raise PackageError(
        f"No index that pip is set to has a source distribution ({_SUFFIX}, with its sha256) of "
        f"{name} {version}. Name another version, or give the path of one."
    )


def _pinned(requirement: str) -> tuple[str, Version]:
    try:
        parsed = Requirement(requirement)
        [specifier] = parsed.specifier
        if specifier.operator == "==" and not parsed.url:
            return normalize_name(parsed.name), Version(specifier.version)
    except (InvalidRequirement, InvalidVersion, ValueError):
        pass
    raise SettingsError(f"{requirement!r} names no single version. Write name==version.")


def _find(client: httpx.Client, page: str, version: Version) -> _File | None:
    """The file of a version that an index's page names with its sha256."""
    response = client.get(page, headers={"accept": "text/html"})
    if response.status_code == httpx.codes.NOT_FOUND:
        return None
    response.raise_for_status()
    links = _Links()
    links.feed(response.text)
    for link in links.urls:
        url, digest = urldefrag(urljoin(str(response.url), link))
        filename = unquote(urlsplit(url).path.rpartition("/")[2])
        if _is_version(filename, version) and digest.startswith("sha256="):
            return _File(filename, url, digest.removeprefix("sha256="))
    return None


def _is_version(filename: str, version: Version) -> bool:
    try:
        return filename.endswith(_SUFFIX) and parse_sdist_filename(filename)[1] == version
    except (InvalidSdistFilename, InvalidVersion):
        return False


def _receive(client: httpx.Client, file: _File) -> bytes:
    content = bytearray()
    with client.stream("GET", file.url) as response:
        response.raise_for_status()
        for chunk in response.iter_bytes():
            content += chunk
            DEFAULT_LIMITS.check_size(len(content), file.filename)
    found = hashlib.sha256(content).hexdigest()
    if found != file.sha256:
        raise PackageError(
            f"{file.filename} has the sha256 {found}; the index says {file.sha256}. It was "
            "changed on its way, or the index is out of step: try again, or use another."
        )
    return bytes(content)


def _keep(content: bytes, kept: Path) -> Path:
    """Write in one step, so that no half of a file is ever taken for one."""
    kept.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.NamedTemporaryFile(dir=kept.parent, delete=False) as part:
        part.write(content)
    os.replace(part.name, kept)
    return kept
