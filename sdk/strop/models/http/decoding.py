"""Undo a response's content coding piece by piece, within a limit."""

from __future__ import annotations

import zlib

from strop.errors import ModelReplyError

ACCEPTED = "gzip, deflate"
"""For the request's ``accept-encoding``."""

_GZIP_OR_ZLIB = 47
_RAW = -15


class Decoder:
    """Unpacks one body; refuses one that grows beyond the limit, whatever its packed size."""

    def __init__(self, coding: str, limit_bytes: int, where: str) -> None:
        self._coding = coding.strip().lower()
        self._where = where
        self._left = limit_bytes
        self._unpacker: zlib._Decompress | None = None
        if self._coding not in ("", "identity"):
            if self._coding not in ("gzip", "x-gzip", "deflate"):
                raise ModelReplyError(
                    f"{where} answered with the content coding {coding!r}, which was not asked for"
                )
            self._unpacker = zlib.decompressobj(_GZIP_OR_ZLIB)
        self._is_first = True

    def feed(self, piece: bytes) -> bytes:
        """Unpack what arrived.

        Raises:
            ModelReplyError: The body is longer than the limit, or badly packed.
        """
        if self._unpacker is not None and piece:
            piece = self._unpack(piece)
        self._left -= len(piece)
        if self._left < 0:
            raise ModelReplyError(f"{self._where} sent more than the limit: raise `body_bytes`")
        return piece

    def finish(self) -> None:
        """Check that nothing is missing at the end.

        Raises:
            ModelReplyError: The packed stream was cut.
        """
        if self._unpacker is not None and not self._is_first and not self._unpacker.eof:
            raise ModelReplyError(f"{self._where} sent a body whose {self._coding} stream is cut")

    def _unpack(self, piece: bytes) -> bytes:
        assert self._unpacker is not None
        try:
            try:
                return self._unpacker.decompress(piece, self._left + 1)
            except zlib.error:
                # Some servers send raw deflate where RFC 9110 §8.4.1.2 asks for zlib.
                if self._coding != "deflate" or not self._is_first:
                    raise
                self._unpacker = zlib.decompressobj(_RAW)
                return self._unpacker.decompress(piece, self._left + 1)
        except zlib.error as error:
            raise ModelReplyError(
                f"{self._where} sent a body that is not {self._coding}: {error}"
            ) from error
        finally:
            self._is_first = False
