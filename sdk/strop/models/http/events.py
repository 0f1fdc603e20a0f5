"""Server-sent events: from pieces of bytes to the ``data`` of each event."""

from __future__ import annotations

from collections.abc import Iterator

_BYTE_ORDER_MARK = b"\xef\xbb\xbf"


class EventReader:
    """Cuts a stream into events; an event that is not whole is never given.

    Source:
        HTML Living Standard, section 9.2.6 (interpreting an event stream).
    """

    def __init__(self) -> None:
        self._rest = bytearray()
        self._lines: list[bytes] = []
        self._is_begun = False

    def feed(self, piece: bytes) -> Iterator[bytes]:
        """The ``data`` of every event that `piece` completes."""
        if not self._has_line_end(piece):
            # Looking at a long line again with each of its pieces would take quadratic time.
            self._rest += piece
            return
        self._rest += piece
        if not self._is_begun:
            self._is_begun = True
            self._rest = self._rest.removeprefix(_BYTE_ORDER_MARK)
        # A carriage return at the very end may be half of a CRLF: it waits for its other half.
        usable = len(self._rest) - (self._rest[-1:] == b"\r")
        lines = (
            bytes(self._rest[:usable]).replace(b"\r\n", b"\n").replace(b"\r", b"\n").split(b"\n")
        )
        self._rest = bytearray(lines.pop()) + self._rest[usable:]
        for line in lines:
            if line:
                self._take(line)
            elif self._lines:
                yield b"\n".join(self._lines)
                self._lines = []

    def _has_line_end(self, piece: bytes) -> bool:
        return b"\n" in piece or b"\r" in piece or self._rest.endswith(b"\r")

    def _take(self, line: bytes) -> None:
        name, _, value = line.partition(b":")
        if name == b"data":
            self._lines.append(value.removeprefix(b" "))
