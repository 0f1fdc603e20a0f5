"""Reads a gzipped tar of files and links as a stream, in bounded memory (steps: publish, pull).

It knows the one form that Strop writes and refuses everything else: plain files and symbolic
links, with pax records for long or non-ASCII names. Source: POSIX.1-2017, pax, "ustar" and "pax".
"""

import struct
import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from typing import IO, NoReturn

from strop.errors import PackageError
from strop.hub.rules.limits import Limits
from strop.hub.rules.names import decode_name
from strop.hub.rules.tree import EXECUTABLE, FILE, LINK, SourceMember

BLOCK_BYTES = 512
_CHUNK_BYTES = 64 * 1024
_MAX_PAX_BYTES = 16 * 1024
_MAX_PADDING_BYTES = 1024 * 1024
_HEADER = struct.Struct("100s8s8s8s12s12s8s1s100s6s2s32s32s8s8s155s12x")
_KINDS = {
    b"1": "a hard link",
    b"3": "a device",
    b"4": "a device",
    b"5": "a folder (folders follow from their files)",
    b"6": "a pipe",
    b"S": "a sparse file",
}
_IGNORED_RECORDS = {"mtime", "atime", "ctime", "uid", "gid", "uname", "gname", "comment"}


@dataclass(frozen=True, slots=True)
class _Header:
    name: bytes
    target: bytes
    mode: int
    size_bytes: int
    kind: bytes


class TarStream:
    """The members of a ``.tar.gz`` with their contents, each read once, in order."""

    def __init__(self, stream: IO[bytes], where: str, limits: Limits) -> None:
        self._where = where
        self._limits = limits
        self._packed = Inflated(stream, where, limits)
        self.unpacked_bytes = 0
        """Of the files so far, without headers."""

    def members(self) -> Iterator[tuple[SourceMember, Iterator[bytes]]]:
        """Each member and its contents; contents that are not read are passed over.

        Raises:
            PackageError: The archive breaks a rule.
        """
        count = 0
        while (header := self._next_header()) is not None:
            count += 1
            self._limits.check_count(count, self._where)
            pax: dict[str, bytes] = {}
            if header.kind == b"x":
                pax = self._read_pax(header.size_bytes)
                header = self._next_header()
                if header is None:
                    self._fail("ends after a pax header")
            member = self._member(header, pax)
            self.unpacked_bytes += member.size_bytes
            self._limits.check_size(self.unpacked_bytes, self._where, self._packed.archive_bytes)
            chunks = self._chunks(member.size_bytes)
            yield member, chunks
            for _ in chunks:
                pass
        self._check_end()

    def _next_header(self) -> _Header | None:
        block = self._packed.read(BLOCK_BYTES)
        if not any(block):
            return None
        fields = _HEADER.unpack(block)
        name, mode, _, _, size, _, checksum, kind, target, magic, version = fields[:11]
        if magic + version != b"ustar\x0000":
            self._fail("is no tar of the ustar or pax form")
        expected = sum(block) - sum(checksum) + len(checksum) * 0x20
        if self._octal(checksum) != expected:
            self._fail("has a header with a wrong checksum")
        prefix = self._text(fields[15])
        full_name = prefix + b"/" + self._text(name) if prefix else self._text(name)
        return _Header(full_name, self._text(target), self._octal(mode), self._octal(size), kind)

    def _member(self, header: _Header, pax: dict[str, bytes]) -> SourceMember:
        path = decode_name(pax.get("path", header.name), self._where)
        target = decode_name(pax.get("linkpath", header.target), self._where)
        if header.kind == b"2":
            if header.size_bytes:
                self._fail(f"has the link {path!a} with contents")
            return SourceMember(path, LINK, 0, target)
        if header.kind != b"0":
            kind = _KINDS.get(header.kind, f"of an unknown kind {header.kind!a}")
            self._fail(f"has the member {path!a}, which is {kind}")
        if target:
            self._fail(f"has the file {path!a} with a link target")
        if header.mode not in (0o644, 0o755):
            self._fail(f"has the member {path!a} of mode {header.mode:o}; allowed are 644 and 755")
        return SourceMember(path, EXECUTABLE if header.mode == 0o755 else FILE, header.size_bytes)

    def _chunks(self, size_bytes: int) -> Iterator[bytes]:
        left = size_bytes
        while left:
            chunk = self._packed.read(min(left, _CHUNK_BYTES))
            left -= len(chunk)
            yield chunk
        self._packed.read(-size_bytes % BLOCK_BYTES)

    def _read_pax(self, size_bytes: int) -> dict[str, bytes]:
        if size_bytes > _MAX_PAX_BYTES:
            self._fail(f"has a pax header of more than {_MAX_PAX_BYTES} bytes")
        content = b"".join(self._chunks(size_bytes))
        records: dict[str, bytes] = {}
        while content:
            length, _, rest = content.partition(b" ")
            size = int(length) if length.isdigit() and len(length) < 8 else 0
            key, equals, value = content[len(length) + 1 : size - 1].partition(b"=")
            if not len(length) + 2 < size <= len(content) or not equals or not rest:
                self._fail("has a broken pax record")
            name = key.decode("ascii", "backslashreplace")
            if name not in {"path", "linkpath"} | _IGNORED_RECORDS or name in records:
                self._fail(f"has the pax record {name[:80]!a}, which is unknown or stands twice")
            records[name] = value
            content = content[size:]
        return records

    def _check_end(self) -> None:
        """Behind the last member stand zero blocks, a bounded number of them, and nothing else."""
        padding = self._packed.rest(_MAX_PADDING_BYTES)
        if len(padding) < BLOCK_BYTES or any(padding) or len(padding) == _MAX_PADDING_BYTES:
            self._fail("has no proper end, or has bytes behind it")

    def _octal(self, field: bytes) -> int:
        digits = field.strip(b" \0") or b"0"
        if not digits.isdigit() or b"8" in digits or b"9" in digits:
            self._fail("has a header with a number that is not octal")
        return int(digits, 8)

    def _text(self, field: bytes) -> bytes:
        text, _, rest = field.partition(b"\0")
        if any(rest):
            self._fail("has a header with bytes behind a name")
        return bytes(text)

    def _fail(self, problem: str) -> NoReturn:
        raise PackageError(f"{self._where} {problem}. Pack it with `strop env push`.")


class Inflated:
    """One gzip member, inflated on demand; refuses trailing bytes and bombs."""

    def __init__(self, stream: IO[bytes], where: str, limits: Limits) -> None:
        self._stream = stream
        self._where = where
        self._limits = limits
        self.archive_bytes = stream.seek(0, 2)
        stream.seek(0)
        self._inflater = zlib.decompressobj(31)
        self._tail = b""
        self._packed_bytes = 0
        self._unpacked_bytes = 0

    def read(self, size: int) -> bytes:
        """Exactly `size` bytes."""
        content = self.rest(size)
        if len(content) < size:
            self._fail("is cut off")
        return content

    def rest(self, at_most: int) -> bytes:
        """Up to `at_most` bytes; fewer only at the end, which is verified."""
        chunks, left = [], at_most
        while left and (chunk := self._some(left)):
            chunks.append(chunk)
            left -= len(chunk)
        return b"".join(chunks)

    def _some(self, at_most: int) -> bytes:
        while not self._inflater.eof:
            if not self._tail:
                self._tail = self._stream.read(_CHUNK_BYTES)
                self._packed_bytes += len(self._tail)
            was_empty = not self._tail
            try:
                chunk = self._inflater.decompress(self._tail, at_most)
            except zlib.error as error:
                self._fail(f"is no gzip file, or is damaged ({error})")
            self._tail = self._inflater.unconsumed_tail
            if chunk:
                return self._counted(chunk)
            if was_empty and not self._inflater.eof:
                self._fail("is cut off")
        if self._inflater.unused_data or self._stream.read(1):
            self._fail("has bytes behind its end")
        return b""

    def _counted(self, chunk: bytes) -> bytes:
        self._unpacked_bytes += len(chunk)
        self._limits.check_ratio(self._unpacked_bytes, self._packed_bytes, self._where)
        return chunk

    def _fail(self, problem: str) -> NoReturn:
        raise PackageError(f"{self._where} {problem}. Fetch or pack it again.")
