"""Reads a zip so strictly that every unpacker sees the same files in it (steps: package, publish).

Source: the ZIP file format specification (APPNOTE 6.3.10), sections 4.3 and 4.4.
"""

import stat
import struct
import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from typing import IO, Any, NoReturn

from strop.errors import PackageError
from strop.hub.rules.limits import DEFAULT_LIMITS, Limits
from strop.hub.rules.names import NameSet, decode_name

STORED, DEFLATED = 0, 8
_END = struct.Struct("<4s4H2LH")
_CENTRAL = struct.Struct("<4s6H3L5H2L")
_LOCAL = struct.Struct("<4s5H3L2H")
_LOCATOR_BYTES = 20
_CHUNK_BYTES = 64 * 1024
_MAX_32 = 0xFFFFFFFF
_ENCRYPTED, _DESCRIPTOR, _PATCH, _STRONG, _UTF8, _MASKED = 1, 8, 32, 64, 2048, 8192
_ZIP64, _UNICODE_PATH = 0x0001, 0x7075


@dataclass(frozen=True, slots=True)
class ZipMember:
    """One file of a zip."""

    path: str
    size_bytes: int
    packed_bytes: int
    crc32: int
    is_deflated: bool
    mode: int
    """Permission bits; 0 when the writer gave none."""
    content_offset: int


@dataclass(frozen=True, slots=True)
class _Entry:
    raw_name: bytes
    flags: int
    method: int
    crc32: int
    packed_bytes: int
    size_bytes: int
    attributes: int
    offset: int


class StrictZip:
    """The members of a zip, in the order of its directory; contents are read as a stream.

    Raises:
        PackageError: A rule is broken; the message names rule and member.
    """

    def __init__(self, stream: IO[bytes], where: str, limits: Limits = DEFAULT_LIMITS) -> None:
        self._stream = stream
        self._where = where
        self._limits = limits
        self._archive_bytes = stream.seek(0, 2)
        self.members: dict[str, ZipMember] = {}
        self._read_directory()

    def chunks(self, member: ZipMember) -> Iterator[bytes]:
        """The contents of `member`; sizes and checksum are verified at the end.

        Raises:
            PackageError: They differ from what the directory says.
        """
        size_bytes, crc32 = 0, 0
        for chunk in self._unpack(member):
            size_bytes += len(chunk)
            crc32 = zlib.crc32(chunk, crc32)
            if size_bytes > member.size_bytes:
                break
            yield chunk
        if (size_bytes, crc32) != (member.size_bytes, member.crc32):
            self._fail(member.path, "has other contents than its size and checksum say")

    def read(self, member: ZipMember) -> bytes:
        """The whole contents of a small `member`."""
        if member.size_bytes > self._limits.metadata_bytes:
            self._fail(member.path, f"has more than {self._limits.metadata_bytes} bytes")
        return b"".join(self.chunks(member))

    def _unpack(self, member: ZipMember) -> Iterator[bytes]:
        self._stream.seek(member.content_offset)
        left = member.packed_bytes
        inflater = zlib.decompressobj(-15) if member.is_deflated else None
        while left:
            packed = self._stream.read(min(left, _CHUNK_BYTES))
            if not packed:
                self._fail(member.path, "is cut off")
            left -= len(packed)
            if inflater is None:
                yield packed
                continue
            while packed:
                try:
                    yield inflater.decompress(packed, _CHUNK_BYTES)
                except zlib.error as error:
                    self._fail(member.path, f"cannot be inflated: {error}")
                packed = inflater.unconsumed_tail
            if inflater.unused_data:
                self._fail(member.path, "has bytes behind its compressed contents")
        if inflater is not None and not inflater.eof:
            yield inflater.flush()
            if not inflater.eof:
                self._fail(member.path, "is cut off")

    def _read_directory(self) -> None:
        count, size_bytes, offset = self._read_end()
        self._limits.check_count(count, self._where)
        entries = list(self._central_entries(count, size_bytes, offset))
        entries_by_offset = sorted(entries, key=lambda entry: entry.offset)
        content_offsets = self._check_locals(entries_by_offset, offset)
        names = NameSet(self._where)
        for entry in entries:
            self._add(entry, content_offsets[entry.offset], names)
        unpacked_bytes = sum(member.size_bytes for member in self.members.values())
        self._limits.check_size(unpacked_bytes, self._where, self._archive_bytes)
        self._limits.check_ratio(unpacked_bytes, self._archive_bytes, self._where)

    def _add(self, entry: _Entry, content_offset: int, names: NameSet) -> None:
        name = decode_name(entry.raw_name, self._where)
        if not name.isascii() and not entry.flags & _UTF8:
            self._fail(name, "has a name beyond ASCII that is not marked as UTF-8")
        is_folder = name.endswith("/")
        path = name[:-1] if is_folder else name
        names.add(path, is_folder=is_folder)
        mode = entry.attributes >> 16
        kind = stat.S_IFMT(mode)
        if kind not in (0, stat.S_IFDIR if is_folder else stat.S_IFREG):
            self._fail(path, "is a link or device, where only regular files may be")
        if is_folder and entry.size_bytes:
            self._fail(path, "is a folder with contents")
        if not is_folder:
            self.members[path] = ZipMember(
                path=path,
                size_bytes=entry.size_bytes,
                packed_bytes=entry.packed_bytes,
                crc32=entry.crc32,
                is_deflated=entry.method == DEFLATED,
                mode=stat.S_IMODE(mode),
                content_offset=content_offset,
            )

    def _read_end(self) -> tuple[int, int, int]:
        if self._archive_bytes < _END.size:
            self._fail(None, "is no zip: it is too short")
        first = self._read_at(0, min(self._archive_bytes, 512))
        if first[:4] not in (b"PK\x03\x04", b"PK\x05\x06"):
            self._fail(None, "is no zip, or has bytes before the first member")
        if _is_tar_header(first):
            self._fail(None, "is a zip and a tar at once")
        end = self._read_at(self._archive_bytes - _END.size, _END.size)
        magic, disk, start_disk, here, count, size_bytes, offset, comment = _END.unpack(end)
        if magic != b"PK\x05\x06" or comment:
            self._fail(None, "has a comment or bytes behind its end record, or is cut off")
        if disk or start_disk or here != count:
            self._fail(None, "is split over several disks, or miscounts its members")
        # Other readers look for it here, and follow it, whatever the bytes belong to.
        locator = self._read_at(max(0, self._archive_bytes - _END.size - _LOCATOR_BYTES), 4)
        if _MAX_32 in (size_bytes, offset) or count == 0xFFFF or locator == b"PK\x06\x07":
            self._fail(None, "has a ZIP64 end record, as zips of 2 GiB have; such are not read")
        if offset + size_bytes + _END.size != self._archive_bytes:
            self._fail(None, "has a directory whose place and size do not fit, or bytes around it")
        return count, size_bytes, offset

    def _central_entries(self, count: int, size_bytes: int, offset: int) -> Iterator[_Entry]:
        end = offset + size_bytes
        for _ in range(count):
            fields = self._struct_at(_CENTRAL, offset, b"PK\x01\x02", "directory")
            _, _, _, flags, method, _, _, crc32, packed_bytes, unpacked_bytes = fields[:10]
            name_size, extra_size, comment_size, disk, _, attributes, local_offset = fields[10:]
            raw_name = self._read_at(offset + _CENTRAL.size, name_size)
            extra = self._read_at(offset + _CENTRAL.size + name_size, extra_size)
            shown = raw_name.decode("utf-8", "backslashreplace")
            self._check_flags(flags, method, shown)
            if comment_size or disk:
                self._fail(shown, "has a comment, or lies on another disk")
            sizes = self._widen(extra, [unpacked_bytes, packed_bytes, local_offset], shown)
            unpacked_bytes, packed_bytes, local_offset = sizes
            if method == STORED and packed_bytes != unpacked_bytes:
                self._fail(shown, "is stored, but its two sizes differ")
            yield _Entry(
                raw_name,
                flags,
                method,
                crc32,
                packed_bytes,
                unpacked_bytes,
                attributes,
                local_offset,
            )
            offset += _CENTRAL.size + name_size + extra_size
        if offset != end:
            self._fail(None, "has a directory of another size or count than its end record says")

    def _check_flags(self, flags: int, method: int, shown: str) -> None:
        if flags & (_ENCRYPTED | _PATCH | _STRONG | _MASKED):
            self._fail(shown, "is encrypted or patched")
        if flags & _DESCRIPTOR:
            self._fail(
                shown, "has a data descriptor (its sizes stand behind it: the zip was streamed)"
            )
        if method not in (STORED, DEFLATED):
            self._fail(
                shown, f"is compressed by method {method}; only stored and deflated are read"
            )

    def _widen(self, extra: bytes, values: list[int], shown: str) -> list[int]:
        """`values`, with those that are at the 32-bit limit taken from the ZIP64 field."""
        fields: dict[int, bytes] = {}
        while extra:
            if len(extra) < 4:
                self._fail(shown, "has a broken extra field")
            kind, size = struct.unpack_from("<HH", extra)
            if len(extra) < 4 + size:
                self._fail(shown, "has a broken extra field")
            if kind in fields:
                self._fail(shown, f"has the extra field {kind:#06x} twice")
            fields[kind] = extra[4 : 4 + size]
            extra = extra[4 + size :]
        if _UNICODE_PATH in fields:
            self._fail(shown, "has a second name in an extra field")
        if _ZIP64 not in fields:
            return values
        wide = [value == _MAX_32 for value in values]
        if len(fields[_ZIP64]) != 8 * sum(wide):
            self._fail(shown, "has a ZIP64 field that does not fit its sizes")
        given = iter(struct.unpack(f"<{sum(wide)}Q", fields[_ZIP64]))
        return [
            next(given) if is_wide else value for value, is_wide in zip(values, wide, strict=True)
        ]

    def _check_locals(self, entries: list[_Entry], directory_offset: int) -> dict[int, int]:
        """Every local header says what the directory says, and nothing lies between members."""
        content_offsets: dict[int, int] = {}
        offset = 0
        for entry in entries:
            shown = entry.raw_name.decode("utf-8", "backslashreplace")
            if entry.offset != offset:
                self._fail(shown, "overlaps another member, or has unknown bytes before it")
            fields = self._struct_at(_LOCAL, offset, b"PK\x03\x04", "local")
            _, _, flags, method, _, _, crc32, packed_bytes, size_bytes, name_size, extra_size = (
                fields
            )
            raw_name = self._read_at(offset + _LOCAL.size, name_size)
            extra = self._read_at(offset + _LOCAL.size + name_size, extra_size)
            size_bytes, packed_bytes = self._widen(extra, [size_bytes, packed_bytes], shown)
            local = (raw_name, flags, method, crc32, packed_bytes, size_bytes)
            if local != (
                entry.raw_name,
                entry.flags,
                entry.method,
                entry.crc32,
                entry.packed_bytes,
                entry.size_bytes,
            ):
                self._fail(shown, "has a local header that contradicts the directory")
            content_offsets[offset] = offset + _LOCAL.size + name_size + extra_size
            offset = content_offsets[offset] + packed_bytes
        if offset != directory_offset:
            self._fail(None, "has unknown bytes between its last member and its directory")
        return content_offsets

    def _struct_at(
        self, form: struct.Struct, offset: int, magic: bytes, kind: str
    ) -> tuple[Any, ...]:
        fields = form.unpack(self._read_at(offset, form.size))
        if fields[0] != magic:
            self._fail(None, f"has no {kind} header where one must be (byte {offset})")
        return fields

    def _read_at(self, offset: int, size: int) -> bytes:
        self._stream.seek(offset)
        content = self._stream.read(size)
        if len(content) != size:
            self._fail(None, "is cut off")
        return content

    def _fail(self, member: str | None, problem: str) -> NoReturn:
        subject = self._where if member is None else f"{self._where}: the member {member!a}"
        raise PackageError(f"{subject} {problem}. Build it again with a current build backend.")


def _is_tar_header(block: bytes) -> bool:
    """Whether a tar reader would take the first block for a member's header."""
    if len(block) < 512 or block[257:262] != b"ustar":
        return False
    try:
        checksum = int(block[148:156].strip(b"\0 ") or b"-1", 8)
    except ValueError:
        return False
    return checksum == sum(block) - sum(block[148:156]) + 8 * 0x20
