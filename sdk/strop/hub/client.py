"""The hub's API as Python calls: the client's end of every step that goes over HTTP."""

from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO, Literal, Self, TypeVar
from urllib.parse import quote

import httpx
from pydantic import ValidationError

from strop.errors import HubError, HubRefusedError
from strop.hub.download import Progress, download_file, sha256_of
from strop.hub.transport import RequestMaker, Transport
from strop.hub.wire import (
    API_PREFIX,
    HUB_HEADER,
    EnvironmentDetail,
    EnvironmentPage,
    EnvironmentSummary,
    Health,
    PublishedFile,
    PushResult,
    ResolveRequest,
    ResolveResult,
    VersionDetail,
    VersionPage,
    VersionSummary,
    WhoAmI,
    Wire,
    YankRequest,
)

Visibility = Literal["public", "private"]
_Shape = TypeVar("_Shape", bound=Wire)
_Page = TypeVar("_Page", EnvironmentPage, VersionPage)


@dataclass(frozen=True, slots=True)
class Upload:
    """The files of one push."""

    wheel: Path
    source: Path | None = None
    """The author's tree; None for foreign packages."""
    tree_digest: str | None = None


class HubClient:
    """Talks to one hub; synchronous, and to be closed (or used in a ``with``).

    Reading, resolving and pushing are tried again with growing pauses when the connection
    breaks or the hub is busy: each of them can be repeated without harm.
    """

    def __init__(
        self,
        base_url: str,
        token: str | None = None,
        *,
        timeout_s: float = 60.0,
        attempt_count: int = 4,
    ) -> None:
        self._transport = Transport(
            base_url, token, timeout_s=timeout_s, attempt_count=attempt_count
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    @property
    def base_url(self) -> str:
        """The hub's address in its normal form."""
        return self._transport.base_url

    @property
    def has_token(self) -> bool:
        """Whether requests carry a token."""
        return self._transport.has_token

    def close(self) -> None:
        """Close every connection."""
        self._transport.close()

    def health(self) -> Health:
        """Whether the hub lives."""
        return self._call(Health, "GET", f"{self.base_url}/healthz")

    def whoami(self) -> WhoAmI:
        """Who the token speaks for."""
        return self._call(WhoAmI, "GET", self._url("whoami"))

    def push(
        self,
        owner: str,
        upload: Upload,
        *,
        visibility: Visibility | None = None,
        progress: Progress | None = None,
    ) -> PushResult:
        """Publish a version; the same push again succeeds without effect.

        Args:
            owner: As whom.
            upload: What; the name and the version are read from the wheel.
            visibility: Of an environment that is new; None lets the hub choose.
            progress: Told how many bytes of how many have gone.

        Raises:
            HubRefusedError: code ``version_exists`` when another tree has this version.
        """
        fields = {"wheel_sha256": sha256_of(upload.wheel)}
        paths = {"wheel": upload.wheel}
        if upload.source is not None:
            fields["source_sha256"] = sha256_of(upload.source)
            paths["source"] = upload.source
        if upload.tree_digest is not None:
            fields["tree_digest"] = upload.tree_digest
        if visibility is not None:
            fields["visibility"] = visibility
        with ExitStack() as stack:
            files = _open_counted(stack, paths, progress)
            url = self._url("owners", owner, "versions")
            response = self._transport.send(
                lambda: self._transport.build("POST", url, data=fields, files=files)
            )
        return _read(PushResult, response, self.base_url)

    def resolve(
        self, references: Sequence[str], python_version: str | None = None
    ) -> ResolveResult:
        """What each reference means now, in order; refusals are entries, not errors."""
        request = ResolveRequest(references=list(references), python_version=python_version)
        return self._call(
            ResolveResult, "POST", self._url("resolve"), json=request.model_dump(mode="json")
        )

    def environments(
        self,
        query: str = "",
        *,
        owner: str | None = None,
        category: str | None = None,
        tag: str | None = None,
    ) -> Iterator[EnvironmentSummary]:
        """Everything that a search finds, page by page as it is asked for."""
        asked = {"q": query, "owner": owner, "category": category, "tag": tag}
        for page in self._pages(EnvironmentPage, self._url("environments"), asked):
            yield from page.items

    def environment(self, owner: str, name: str) -> EnvironmentDetail:
        """One environment, seen through its latest version."""
        return self._call(EnvironmentDetail, "GET", self._url("environments", owner, name))

    def versions(self, owner: str, name: str) -> Iterator[VersionSummary]:
        """An environment's versions, newest first by PEP 440."""
        url = self._url("environments", owner, name, "versions")
        for page in self._pages(VersionPage, url, {}):
            yield from page.items

    def version(self, owner: str, name: str, version: str) -> VersionDetail:
        """All about one version."""
        url = self._url("environments", owner, name, "versions", version)
        return self._call(VersionDetail, "GET", url)

    def yank(
        self, owner: str, name: str, version: str, *, reason: str = "", undo: bool = False
    ) -> VersionDetail:
        """Take a version out of what is chosen without being named, or back into it."""
        url = self._url("environments", owner, name, "versions", version, "yank")
        if undo:
            return self._call(VersionDetail, "DELETE", url)
        body = YankRequest(reason=reason).model_dump(mode="json")
        return self._call(VersionDetail, "POST", url, json=body)

    def download(self, file: PublishedFile, target: Path, progress: Progress | None = None) -> None:
        """Write a published file to `target`, whole and checked, or not at all.

        Raises:
            DigestMismatchError: the bytes are not those that the hub promised.
        """
        download_file(self._transport, file, target, progress)

    def provenance(self, owner: str, name: str, filename: str) -> bytes | None:
        """The attestations of a public file, as JSON; None when it has none. Source: PEP 740."""
        parts = "/".join(quote(part, safe="") for part in (owner, "files", name, filename))
        url = f"{self.base_url}/owners/{parts}.provenance"
        try:
            return self._transport.send(lambda: self._transport.build("GET", url)).content
        except HubRefusedError as error:
            if error.status == httpx.codes.NOT_FOUND:
                return None
            raise

    def page_url(self, owner: str, name: str) -> str:
        """The environment's page in the catalog."""
        return f"{self.base_url}/{quote(owner)}/{quote(name)}"

    def ask(
        self, shape: type[_Shape], method: str, parts: Sequence[str], body: Wire | None = None
    ) -> _Shape:
        """Send one request to an address of the API and read the answer as `shape`.

        Args:
            shape: What the hub answers with.
            method: GET, PUT, POST or DELETE.
            parts: The parts of the address behind ``/api/v1``, unescaped.
            body: What goes along.
        """
        content = {} if body is None else {"json": body.model_dump(mode="json")}
        return self._call(shape, method, self._url(*parts), **content)

    def tell(self, method: str, parts: Sequence[str], body: Wire | None = None) -> None:
        """As `ask`, for addresses that answer with nothing."""
        content = {} if body is None else {"json": body.model_dump(mode="json")}
        url = self._url(*parts)
        self._transport.send(lambda: self._transport.build(method, url, **content))

    def _url(self, *parts: str) -> str:
        return f"{self.base_url}{API_PREFIX}/" + "/".join(quote(part, safe="") for part in parts)

    def _pages(self, shape: type[_Page], url: str, asked: dict[str, str | None]) -> Iterator[_Page]:
        cursor: str | None = None
        seen = set()
        while cursor not in seen:
            seen.add(cursor)
            params = {key: value for key, value in {**asked, "cursor": cursor}.items() if value}
            page = self._call(shape, "GET", url, params=params)
            yield page
            if (cursor := page.next_cursor) is None:
                return
        raise HubError(
            f"{self.base_url} lists in a circle: the page after {cursor!a} is that page again. "
            "Tell its operator."
        )

    def _call(self, shape: type[_Shape], method: str, url: str, **content: Any) -> _Shape:
        make: RequestMaker = lambda: self._transport.build(method, url, **content)  # noqa: E731
        return _read(shape, self._transport.send(make), self.base_url)


def _read(shape: type[_Shape], response: httpx.Response, base_url: str) -> _Shape:
    try:
        return shape.model_validate_json(response.content)
    except ValidationError as error:
        hub_version = response.headers.get(HUB_HEADER, "unknown")
        raise HubError(
            f"{base_url} (hub version {hub_version}) answers {response.request.method} "
            f"{response.request.url.path} with something that is no {shape.__name__}. "
            "Bring strop and the hub to the same version."
        ) from error


def _open_counted(
    stack: ExitStack, paths: dict[str, Path], progress: Progress | None
) -> dict[str, tuple[str, "_CountedFile", str]]:
    total_bytes = sum(path.stat().st_size for path in paths.values())
    positions: dict[str, int] = {}

    def count(field: str, position: int) -> None:
        positions[field] = position
        if progress is not None:
            progress(sum(positions.values()), total_bytes)

    return {
        field: (
            path.name,
            _CountedFile(stack.enter_context(path.open("rb")), field, count),
            "application/octet-stream",
        )
        for field, path in paths.items()
    }


class _CountedFile:
    """A file that tells how far it has been read; httpx reads it piece by piece."""

    def __init__(self, file: BinaryIO, field: str, count: Any) -> None:
        self._file = file
        self._field = field
        self._count = count

    def read(self, size: int = -1) -> bytes:
        chunk = self._file.read(size)
        self._count(self._field, self._file.tell())
        return chunk

    def seek(self, offset: int, whence: int = 0) -> int:
        return self._file.seek(offset, whence)

    def tell(self) -> int:
        return self._file.tell()

    def fileno(self) -> int:
        return self._file.fileno()
