"""Frames between a client and a run: the same over a socket pair, the network and a container."""

from __future__ import annotations

import json
import struct
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

HEADER = struct.Struct("!cI")
_LENGTH = struct.Struct("!I")
LARGEST_FRAME_BYTES = 1 << 30

STDIN, END_STDIN, SIGNAL, REQUEST = b"i", b"x", b"s", b"q"
"""From client to run."""
STDOUT, STDERR, CASE, RESULT = b"o", b"e", b"v", b"r"
"""From run to client: output while it comes, one of many results, the last result."""

Kind = Literal["python", "argv", "files"]


@dataclass(frozen=True, slots=True)
class Request:
    """What a run is to do."""

    kind: Kind
    limits: Mapping[str, float]
    argv: tuple[str, ...] = ()
    """Of kind ``argv`` the command; of kind ``python`` its `sys.argv[1:]`; of kind ``files`` the
    operation and its arguments."""
    code: bytes = b""
    env: Mapping[str, str] = field(default_factory=dict)
    cwd: str = ""
    """Below the sandbox's folder; empty means the folder itself."""
    stdin: bytes = b""
    files: Mapping[str, bytes] = field(default_factory=dict)
    """Written before the run starts, by their paths below the sandbox's folder."""
    executables: frozenset[str] = frozenset()
    """Of `files`, those that may be executed."""
    cases: tuple[bytes, ...] | None = None
    """One stdin for each of many runs of the same code; None for a single run."""
    collect: tuple[str, ...] = ()
    """Files to bring back when everything else is dead."""
    collect_bytes: int = 1 << 24
    """Of one collected file."""
    is_streaming: bool = False
    """Output comes while it is written, and stdin stays open until it is ended."""

    def pack(self) -> bytes:
        """Give the frame that carries it."""
        blobs = [self.code, self.stdin, *self.files.values(), *(self.cases or ())]
        head = {
            "kind": self.kind,
            "limits": dict(self.limits),
            "argv": self.argv,
            "env": dict(self.env),
            "cwd": self.cwd,
            "names": list(self.files),
            "executables": sorted(self.executables),
            "case_count": None if self.cases is None else len(self.cases),
            "collect": self.collect,
            "collect_bytes": self.collect_bytes,
            "is_streaming": self.is_streaming,
            "sizes": [len(blob) for blob in blobs],
        }
        return pack_frame(REQUEST, _join(head, blobs))

    @classmethod
    def unpack(cls, payload: bytes) -> Request:
        """Read what `pack` has written, without its frame's header."""
        head, blobs = _split(payload)
        names = head.pop("names")
        case_count = head.pop("case_count")
        cases = None if case_count is None else tuple(blobs[2 + len(names) :])
        head["executables"] = frozenset(head["executables"])
        head["argv"], head["collect"] = tuple(head["argv"]), tuple(head["collect"])
        files = dict(zip(names, blobs[2:], strict=False))
        return cls(**head, code=blobs[0], stdin=blobs[1], files=files, cases=cases)


@dataclass(frozen=True, slots=True)
class Reply:
    """A frame from a run."""

    tag: bytes
    payload: bytes


def pack_frame(tag: bytes, payload: bytes = b"") -> bytes:
    """Give one frame: its tag, its length, its payload."""
    return HEADER.pack(tag, len(payload)) + payload


def pack_result(tag: bytes, head: dict[str, Any], blobs: list[bytes]) -> bytes:
    """Give a frame with facts and bytes, such as an exit code and two outputs."""
    return pack_frame(tag, _join({**head, "sizes": [len(blob) for blob in blobs]}, blobs))


def unpack_result(payload: bytes) -> tuple[dict[str, Any], list[bytes]]:
    """Read what `pack_result` has written, without its frame's header.

    Raises:
        ValueError: Nobody honest has written this; so may be a LookupError, TypeError or
            AttributeError.
    """
    return _split(payload)


def _join(head: dict[str, Any], blobs: list[bytes]) -> bytes:
    text = json.dumps(head).encode()
    return b"".join([_LENGTH.pack(len(text)), text, *blobs])


def _split(payload: bytes) -> tuple[dict[str, Any], list[bytes]]:
    if len(payload) < _LENGTH.size:
        raise ValueError("a frame without a head")
    start = _LENGTH.size + _LENGTH.unpack_from(payload)[0]
    head: dict[str, Any] = json.loads(payload[_LENGTH.size : start])
    sizes = head.pop("sizes")
    if min(sizes, default=0) < 0 or start + sum(sizes) != len(payload):
        raise ValueError("a frame of another length than it says")
    blobs = []
    for size in sizes:
        blobs.append(payload[start : start + size])
        start += size
    return head, blobs
