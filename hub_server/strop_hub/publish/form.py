"""One multipart form as it arrives: text fields in memory, files hashed on their way to disk."""

import hashlib
from collections.abc import Collection, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, BinaryIO

from python_multipart.exceptions import FormParserError
from python_multipart.multipart import MultipartParser, parse_options_header

from strop_hub.disk import named_faults
from strop_hub.errors import MalformedBodyError, TooLargeError, UnsupportedBodyError
from strop_hub.settings import MIB

UPLOAD = "this upload"
"""What a disk is told to have no space for."""

_MAX_HEADERS_BYTES = 8192
_MAX_PARTS = 10_000


@dataclass(frozen=True, slots=True)
class Parts:
    """What a route reads, and how large each may be."""

    files: Collection[str]
    fields: Collection[str]
    max_file_bytes: int
    max_field_bytes: int
    ignored_bytes: int | None = None
    """How much other parts may hold together, which are passed over; None refuses them."""


@dataclass(frozen=True, slots=True)
class ReceivedFile:
    """A file of a form, whole."""

    path: Path
    filename: str
    """As the client names it."""
    sha256: str
    size_bytes: int


@dataclass(slots=True)
class _OpenFile:
    name: str
    filename: str
    path: Path
    stream: BinaryIO
    hash: Any = field(default_factory=hashlib.sha256)
    size_bytes: int = 0


class Form:
    """Takes a body in chunks; `feed` never blocks, `flush` writes and may.

    Files are kept in memory only between two flushes, so memory stays constant.
    """

    def __init__(self, content_type: str, folder: Path, parts: Parts) -> None:
        self.fields: dict[str, str] = {}
        self.files: dict[str, ReceivedFile] = {}
        self.pending_bytes = 0
        self._folder = folder
        self._parts = parts
        self._parser = MultipartParser(_boundary(content_type), self._callbacks())
        self._is_ended = False
        self._part_count = 0
        self._ignored_bytes = 0
        self._headers: dict[str, bytes] = {}
        self._header_name = bytearray()
        self._header_value = bytearray()
        self._field: tuple[str, bytearray] | None = None
        self._file: _OpenFile | None = None
        self._opened: list[_OpenFile] = []
        self._pending: list[tuple[_OpenFile, bytes]] = []

    def feed(self, chunk: bytes) -> None:
        """Read on.

        Raises:
            MalformedBodyError: This is no form of the expected parts.
            TooLargeError: A part is larger than allowed.
        """
        try:
            self._parser.write(chunk)
        except FormParserError as error:
            raise MalformedBodyError(f"the body is no multipart form: {error}") from None

    def flush(self) -> None:
        """Write and hash what has come since the last flush.

        Raises:
            StorageFullError: No space is left.
        """
        pending, self._pending, self.pending_bytes = self._pending, [], 0
        with named_faults(UPLOAD):
            for file, chunk in pending:
                file.stream.write(chunk)
                file.hash.update(chunk)
            for file in self._opened:
                file.stream.flush()

    def end(self) -> None:
        """Close the files; the body is over.

        Raises:
            MalformedBodyError: The body was cut before its last boundary.
        """
        if not self._is_ended:
            raise MalformedBodyError(
                "the body ends before its last boundary; nothing was stored. Push again."
            )
        self.flush()
        for file in self._opened:
            self.files[file.name] = ReceivedFile(
                file.path, file.filename, file.hash.hexdigest(), file.size_bytes
            )
        self.close()

    def close(self) -> None:
        """Let go of the files, whole or not."""
        for file in self._opened:
            # What a full disk did not take is given up with the upload.
            with suppress(OSError):
                file.stream.close()
        self._opened = []

    def _callbacks(self) -> Any:
        return {
            "on_part_begin": self._begin_part,
            "on_header_field": self._take_header_name,
            "on_header_value": self._take_header_value,
            "on_header_end": self._end_header,
            "on_headers_finished": self._end_headers,
            "on_part_data": self._take_content,
            "on_part_end": self._end_part,
            "on_end": self._end_form,
        }

    def _begin_part(self) -> None:
        self._headers = {}
        self._part_count += 1
        if self._part_count > _MAX_PARTS:
            raise MalformedBodyError(f"the form has more than {_MAX_PARTS} parts")

    def _take_header_name(self, data: bytes, start: int, end: int) -> None:
        self._header_name += data[start:end]
        self._bound_headers()

    def _take_header_value(self, data: bytes, start: int, end: int) -> None:
        self._header_value += data[start:end]
        self._bound_headers()

    def _bound_headers(self) -> None:
        if len(self._header_name) + len(self._header_value) > _MAX_HEADERS_BYTES:
            raise MalformedBodyError(f"a part has a header of more than {_MAX_HEADERS_BYTES} bytes")

    def _end_header(self) -> None:
        name = self._header_name.decode("latin-1").lower()
        if name in self._headers:
            raise MalformedBodyError(f"a part has the header {name[:40]!a} twice")
        self._headers[name] = bytes(self._header_value)
        self._header_name, self._header_value = bytearray(), bytearray()

    def _end_headers(self) -> None:
        name, filename = _disposition(self._headers)
        if name in self.fields or any(file.name == name for file in self._opened):
            raise MalformedBodyError(f"the part `{name}` comes twice")
        if name in self._parts.files:
            if not filename:
                raise MalformedBodyError(f"the part `{name}` is a file and has no file name")
            self._file = self._open(name, filename)
        elif name in self._parts.fields:
            self._field = (name, bytearray())
        elif self._parts.ignored_bytes is None:
            known = ", ".join([*self._parts.files, *self._parts.fields])
            raise MalformedBodyError(f"the part {name[:60]!a} is unknown. Known are {known}")

    def _open(self, name: str, filename: str) -> _OpenFile:
        path = self._folder / name
        with named_faults(UPLOAD):
            file = _OpenFile(name, filename, path, path.open("xb"))
        self._opened.append(file)
        return file

    def _take_content(self, data: bytes, start: int, end: int) -> None:
        chunk = data[start:end]
        if self._file is not None:
            self._take_file(self._file, chunk)
        elif self._field is not None:
            name, content = self._field
            content += chunk
            if len(content) > self._parts.max_field_bytes:
                raise TooLargeError(
                    f"the field `{name}` has more than {self._parts.max_field_bytes} bytes"
                )
        else:
            self._pass_over(len(chunk))

    def _pass_over(self, size_bytes: int) -> None:
        self._ignored_bytes += size_bytes
        allowed = self._parts.ignored_bytes or 0
        if self._ignored_bytes > allowed:
            raise TooLargeError(f"the form's descriptions have more than {allowed} bytes")

    def _take_file(self, file: _OpenFile, chunk: bytes) -> None:
        file.size_bytes += len(chunk)
        if file.size_bytes > self._parts.max_file_bytes:
            raise too_large(f"`{file.filename[:120]}`", self._parts.max_file_bytes)
        self._pending.append((file, chunk))
        self.pending_bytes += len(chunk)

    def _end_part(self) -> None:
        if self._field is not None:
            name, content = self._field
            try:
                self.fields[name] = content.decode()
            except UnicodeDecodeError:
                raise MalformedBodyError(f"the field `{name}` is not UTF-8") from None
        self._field = self._file = None

    def _end_form(self) -> None:
        self._is_ended = True


def too_large(what: str, max_bytes: int) -> TooLargeError:
    """The refusal of a file above the hub's limit."""
    return TooLargeError(
        f"{what} is larger than {max_bytes / MIB:g} MiB, this hub's limit for a file. Load large "
        "data when the environment runs, or ask the hub's operator for a higher limit."
    )


def _boundary(content_type: str) -> bytes:
    kind, options = parse_options_header(content_type)
    if kind != b"multipart/form-data":
        raise UnsupportedBodyError(
            f"the body is {content_type[:80]!a}; this route reads multipart/form-data"
        )
    boundary = options.get(b"boundary", b"")
    if not 1 <= len(boundary) <= 200:
        raise MalformedBodyError("the Content-Type has no usable boundary")
    return boundary


def _disposition(headers: Mapping[str, bytes]) -> tuple[str, str]:
    kind, options = parse_options_header(headers.get("content-disposition", b""))
    name = options.get(b"name", b"")
    if kind != b"form-data" or not name:
        raise MalformedBodyError("a part has no `Content-Disposition: form-data; name=…`")
    try:
        return name.decode(), options.get(b"filename", b"").decode()
    except UnicodeDecodeError:
        raise MalformedBodyError("a part's name or file name is not UTF-8") from None
