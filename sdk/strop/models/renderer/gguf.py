"""The metadata of a GGUF file: what a model is, and its tokenizer."""

from __future__ import annotations

import struct
from pathlib import Path
from typing import Any, BinaryIO

from strop.errors import ConfigError

_NUMBERS = {
    0: "B",
    1: "b",
    2: "H",
    3: "h",
    4: "I",
    5: "i",
    6: "f",
    7: "?",
    10: "Q",
    11: "q",
    12: "d",
}
_TEXT, _ARRAY = 8, 9
_MAX_BYTES = 1 << 28
"""Of one string or array: a file that claims more is broken."""


def read_metadata(path: Path) -> dict[str, Any]:
    """Names and values, read without the weights behind them.

    Source:
        GGUF versions 2 and 3, ``docs/gguf.md`` of ggml.

    Raises:
        ConfigError: It is no GGUF file, or a cut one.
    """
    try:
        with path.open("rb") as stream:
            magic, version, _, count = struct.unpack("<4sIQQ", stream.read(24))
            if magic != b"GGUF" or version not in (2, 3):
                raise ValueError("it does not begin as GGUF 2 or 3 does")
            return dict(_read_member(stream) for _ in range(count))
    except (OSError, ValueError, struct.error) as error:
        raise ConfigError(f"{path} is no GGUF file that can be read: {error}") from error


def _read_member(stream: BinaryIO) -> tuple[str, Any]:
    name = _read_text(stream)
    return name, _read_value(stream, _number(stream, "I"))


def _read_value(stream: BinaryIO, kind: int) -> Any:
    if kind == _TEXT:
        return _read_text(stream)
    if kind != _ARRAY:
        return _number(stream, _letter(kind))
    inner, count = _number(stream, "I"), _number(stream, "Q")
    if inner in (_TEXT, _ARRAY):
        return [_read_value(stream, inner) for _ in range(_checked(count))]
    format = f"<{_checked(count)}{_letter(inner)}"
    return list(struct.unpack(format, stream.read(struct.calcsize(format))))


def _letter(kind: int) -> str:
    if kind not in _NUMBERS:
        raise ValueError(f"a value has the unknown type {kind}")
    return _NUMBERS[kind]


def _number(stream: BinaryIO, letter: str) -> Any:
    format = f"<{letter}"
    return struct.unpack(format, stream.read(struct.calcsize(format)))[0]


def _read_text(stream: BinaryIO) -> str:
    size = _checked(_number(stream, "Q"))
    found = stream.read(size)
    if len(found) < size:
        raise ValueError("it is cut")
    return found.decode("utf-8", "replace")


def _checked(count: int) -> int:
    if count > _MAX_BYTES:
        raise ValueError(f"it claims {count} elements at once")
    return count
