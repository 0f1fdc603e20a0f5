"""Fetch one published file so that what lies at the target is whole and right, or not there."""

import hashlib
import os
import re
import tempfile
import time
from collections.abc import Callable, Iterator
from io import BufferedRandom
from pathlib import Path
from urllib.parse import urlsplit

import httpx

from strop.errors import DigestMismatchError, HubUnreachableError, NotAHubError
from strop.hub.transport import Transport
from strop.hub.wire import API_PREFIX, PublishedFile

Progress = Callable[[int, int], None]
"""Told how many bytes of how many have gone."""

_STALE_PART_S = 3600.0


def download_file(
    transport: Transport, file: PublishedFile, target: Path, progress: Progress | None = None
) -> None:
    """Write `file` to `target`, going on after a cut; checked before it gets its name.

    Raises:
        DigestMismatchError: the bytes are not those that the hub promised.
        HubUnreachableError: the connection broke more often than is tried again.
    """
    target.parent.mkdir(parents=True, exist_ok=True)
    _remove_stale_parts(target)
    descriptor, name = tempfile.mkstemp(
        dir=target.parent, prefix=f".{target.name}.", suffix=".part"
    )
    part = Path(name)
    try:
        with os.fdopen(descriptor, "w+b") as sink:
            _receive(transport, file, sink, progress)
            _check(file, sink)
            sink.flush()
            os.fsync(sink.fileno())
        part.chmod(0o644)
        os.replace(part, target)
    finally:
        part.unlink(missing_ok=True)


def sha256_of(path: Path) -> str:
    """The sha256 of a file, as hex, read in pieces."""
    with path.open("rb") as source:
        return hashlib.file_digest(source, "sha256").hexdigest()


def _receive(
    transport: Transport, file: PublishedFile, sink: BufferedRandom, progress: Progress | None
) -> None:
    # Only attempts in a row that bring nothing count against the limit.
    failed_count = 0
    while True:
        offset = sink.seek(0, os.SEEK_END)
        try:
            for written_bytes in _receive_some(transport, file, sink):
                if progress is not None:
                    progress(written_bytes, file.size_bytes)
            if (arrived := sink.tell()) >= file.size_bytes:
                return
            raise HubUnreachableError(
                f"The download of {file.filename} ended after {arrived} of {file.size_bytes} "
                "bytes. Try again."
            )
        except HubUnreachableError:
            failed_count = 1 if sink.tell() > offset else failed_count + 1
            if failed_count >= transport.attempt_count:
                raise
            transport.wait(failed_count)


def _receive_some(transport: Transport, file: PublishedFile, sink: BufferedRandom) -> Iterator[int]:
    offset = sink.tell()
    headers = {"accept-encoding": "identity"}
    if offset:
        headers |= {"range": f"bytes={offset}-", "if-range": f'"{file.sha256}"'}
    url = _own_url(transport.base_url, file.url)
    with transport.stream(
        lambda: transport.build("GET", url, headers=headers), may_leave=True
    ) as response:
        written_bytes = _place(response, sink, offset)
        with transport.faults():
            # As the chunks come: what has been received when the connection breaks is kept.
            for chunk in response.iter_raw():
                written_bytes += len(chunk)
                if written_bytes > file.size_bytes:
                    raise _wrong_size(file, f"more than {file.size_bytes}")
                sink.write(chunk)
                yield written_bytes


def _place(response: httpx.Response, sink: BufferedRandom, offset: int) -> int:
    """Where the answer's first byte belongs; a whole answer to a range starts again."""
    if response.status_code == httpx.codes.PARTIAL_CONTENT:
        match = re.fullmatch(r"bytes (\d+)-\d+/\S+", response.headers.get("content-range", ""))
        if match is None or int(match[1]) != offset:
            raise NotAHubError(
                f"{response.url.host} answers another range than was asked for. Try again."
            )
        return offset
    sink.seek(0)
    sink.truncate()
    return 0


def _check(file: PublishedFile, sink: BufferedRandom) -> None:
    size_bytes = sink.seek(0, os.SEEK_END)
    if size_bytes != file.size_bytes:
        raise _wrong_size(file, str(size_bytes))
    sink.seek(0)
    found = hashlib.file_digest(sink, "sha256").hexdigest()
    if found != file.sha256:
        raise DigestMismatchError(
            f"{file.filename} came with sha256 {found}, but {file.sha256} was promised. "
            "Nothing was kept. Try again; if it happens again, tell the hub's operator."
        )


def _wrong_size(file: PublishedFile, found: str) -> DigestMismatchError:
    return DigestMismatchError(
        f"{file.filename} came with {found} bytes, but {file.size_bytes} were promised. "
        "Nothing was kept. Try again; if it happens again, tell the hub's operator."
    )


def _own_url(base_url: str, url: str) -> str:
    # Files are asked of the hub that was asked to resolve: behind a tunnel or a second name
    # the public address that it writes into its answers may lead nowhere.
    try:
        path = urlsplit(url).path
    except ValueError as error:
        raise NotAHubError(
            f"{base_url} names the address {url!a} for a file, which cannot be read ({error}). "
            "Tell the hub's operator."
        ) from error
    _, found, rest = path.partition(f"{API_PREFIX}/environments/")
    return f"{base_url}{API_PREFIX}/environments/{rest}" if found else url


def _remove_stale_parts(target: Path) -> None:
    for part in target.parent.glob(f".{target.name}.*.part"):
        try:
            if time.time() - part.stat().st_mtime > _STALE_PART_S:
                part.unlink()
        except FileNotFoundError:
            continue
