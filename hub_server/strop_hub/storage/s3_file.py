"""A large blob of a bucket as a seekable file; a new request only where somebody jumps."""

import hashlib
import io
from collections.abc import Callable
from typing import Any

from botocore.exceptions import BotoCoreError
from urllib3.exceptions import HTTPError

from strop_hub.errors import StorageUnavailableError


class S3File(io.RawIOBase):
    """Reads forward on one connection; who reads all of it gets bytes of the right digest."""

    def __init__(
        self, sha256: str, size_bytes: int, read_from: Callable[[str, int], Any], body: Any
    ) -> None:
        self._sha256 = sha256
        self._size_bytes = size_bytes
        self._read_from = read_from
        self._body: Any = body
        self._position = 0
        self._digest: Any = hashlib.sha256()
        """None once somebody jumped: parts cannot be checked."""

    def readable(self) -> bool:
        """Always."""
        return True

    def seekable(self) -> bool:
        """Always."""
        return True

    def tell(self) -> int:
        """How many bytes lie before the next one."""
        return self._position

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        """Jump; the connection is made anew by the next read."""
        base = {io.SEEK_SET: 0, io.SEEK_CUR: self._position, io.SEEK_END: self._size_bytes}[whence]
        position = max(0, base + offset)
        if position != self._position:
            self._drop()
            self._position, self._digest = position, None
        return position

    def readinto(self, buffer: Any) -> int:
        """Fill `buffer` as far as there are bytes.

        Raises:
            StorageUnavailableError: The bucket does not answer, or the bytes are not the blob's.
        """
        if self._position >= self._size_bytes:
            return 0
        if self._body is None:
            self._body = self._read_from(self._sha256, self._position)
        try:
            piece = self._body.read(len(buffer))
        except (BotoCoreError, HTTPError, OSError) as error:
            raise StorageUnavailableError(
                f"the hub's bucket stopped in the middle of blob {self._sha256}"
            ) from error
        buffer[: len(piece)] = piece
        self._position += len(piece)
        self._check(piece)
        return len(piece)

    def close(self) -> None:
        """Let go of the connection."""
        self._drop()
        super().close()

    def _check(self, piece: bytes) -> None:
        if self._digest is None:
            return
        self._digest.update(piece)
        if self._position < self._size_bytes and piece:
            return
        if self._digest.hexdigest() != self._sha256:
            raise StorageUnavailableError(
                f"the bytes under blob {self._sha256} in the bucket are others"
            )

    def _drop(self) -> None:
        if self._body is not None:
            self._body.close()
            self._body = None
