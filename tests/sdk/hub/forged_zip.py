"""Writes zips field by field, so that a test can break exactly one rule."""

import base64
import hashlib
import struct
import zlib
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

WHEEL_NAME = "maze_env-0.1.0-py3-none-any.whl"
DIST_INFO = "maze_env-0.1.0.dist-info"
METADATA = b"""\
Metadata-Version: 2.1
Name: maze-env
Version: 0.1.0
Summary: Find the exit

# Maze
"""
WHEEL = b"Wheel-Version: 1.0\nGenerator: test\nRoot-Is-Purelib: true\nTag: py3-none-any\n"


@dataclass
class Part:
    """One member; what is None is computed."""

    name: bytes
    content: bytes = b""
    method: int = 8
    flags: int = 0
    mode: int = 0o100644
    packed: bytes | None = None
    crc32: int | None = None
    size: int | None = None
    comment: bytes = b""
    disk: int = 0
    local_extra: bytes = b""
    central_extra: bytes = b""
    local: dict[str, int | bytes] = field(default_factory=dict)
    """Fields in which the local header differs."""
    before: bytes = b""
    offset: int | None = None

    def body(self) -> bytes:
        if self.packed is not None:
            return self.packed
        return deflate(self.content) if self.method == 8 else self.content


def deflate(content: bytes) -> bytes:
    packer = zlib.compressobj(6, zlib.DEFLATED, -15)
    return packer.compress(content) + packer.flush()


def forge(
    parts: list[Part],
    *,
    prefix: bytes = b"",
    gap: bytes = b"",
    suffix: bytes = b"",
    end: dict[str, int] | None = None,
) -> bytes:
    """The bytes of a zip of `parts`; `end` overrides fields of its end record."""
    out, central = bytearray(prefix), bytearray()
    for part in parts:
        out += part.before
        offset = len(out) if part.offset is None else part.offset
        body = part.body()
        values: dict[str, int | bytes] = {
            "name": part.name,
            "flags": part.flags,
            "method": part.method,
            "crc32": zlib.crc32(part.content) if part.crc32 is None else part.crc32,
            "packed": len(body),
            "size": len(part.content) if part.size is None else part.size,
        }
        out += _local(values | part.local, part.local_extra) + body
        central += _central(values, part, offset)
    fields = {"disk": 0, "start": 0, "here": len(parts), "count": len(parts)}
    fields |= {"size": len(central), "offset": len(out) + len(gap), "comment": 0} | (end or {})
    return (
        bytes(out + gap + central) + struct.pack("<4s4H2LH", b"PK\5\6", *fields.values()) + suffix
    )


def _local(values: dict[str, int | bytes], extra: bytes) -> bytes:
    name = values["name"]
    assert isinstance(name, bytes)
    return (
        struct.pack(
            "<4s5H3L2H",
            b"PK\3\4",
            20,
            values["flags"],
            values["method"],
            0,
            33,
            values["crc32"],
            values["packed"],
            values["size"],
            len(name),
            len(extra),
        )
        + name
        + extra
    )


def _central(values: dict[str, int | bytes], part: Part, offset: int) -> bytes:
    return (
        struct.pack(
            "<4s6H3L5H2L",
            b"PK\1\2",
            0x0314,
            20,
            values["flags"],
            values["method"],
            0,
            33,
            values["crc32"],
            values["packed"],
            values["size"],
            len(part.name),
            len(part.central_extra),
            len(part.comment),
            part.disk,
            0,
            part.mode << 16,
            offset,
        )
        + part.name
        + part.central_extra
        + part.comment
    )


def wheel_contents(changes: Mapping[str, bytes | None] | None = None) -> dict[str, bytes]:
    """The files of a good foreign wheel; `changes` name files of its metadata folder."""
    files: dict[str, bytes | None] = {
        "maze_env/__init__.py": b"def load_environment(): ...\n",
        f"{DIST_INFO}/METADATA": METADATA,
        f"{DIST_INFO}/WHEEL": WHEEL,
    }
    files |= {f"{DIST_INFO}/{name}": content for name, content in (changes or {}).items()}
    return {path: content for path, content in files.items() if content is not None}


def record_of(files: dict[str, bytes]) -> bytes:
    """A RECORD that lists `files`."""
    lines = [f"{path},sha256={_digest(content)},{len(content)}" for path, content in files.items()]
    return "\n".join([*lines, f"{DIST_INFO}/RECORD,,"]).encode() + b"\n"


def _digest(content: bytes) -> str:
    return base64.urlsafe_b64encode(hashlib.sha256(content).digest()).rstrip(b"=").decode()


def wheel_parts(files: dict[str, bytes], record: bytes | None = None) -> list[Part]:
    """The members of a wheel of `files`, with its RECORD last."""
    parts = [Part(path.encode(), content) for path, content in files.items()]
    record = record_of(files) if record is None else record
    return [*parts, Part(f"{DIST_INFO}/RECORD".encode(), record)]


def write(folder: Path, content: bytes, name: str = WHEEL_NAME) -> Path:
    """A file of `content`."""
    path = folder / name
    path.write_bytes(content)
    return path
