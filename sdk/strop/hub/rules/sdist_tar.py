"""Reads the tar of a source distribution as a stream, in bounded memory (step: publish).

Build backends write tars of many forms, so the standard library reads them; what two readers could
understand differently is refused.
"""

import tarfile
from collections.abc import Iterator
from typing import IO, Any, BinaryIO, Self, cast

from strop.errors import PackageError
from strop.hub.rules.limits import Limits
from strop.hub.rules.tars import BLOCK_BYTES, Inflated

_MAX_EXTENSION_BYTES = 256 * 1024
"""Of a header that only extends the next one; readers hold it in memory."""
_EXTENSIONS = (
    tarfile.GNUTYPE_LONGNAME,
    tarfile.GNUTYPE_LONGLINK,
    tarfile.XHDTYPE,
    tarfile.XGLTYPE,
    tarfile.SOLARIS_XHDTYPE,
)
_AMBIGUOUS_RECORDS = ("size", "hdrcharset", "charset")


class SdistTar:
    """The members of a ``.tar.gz``, each once, in order."""

    def __init__(self, stream: BinaryIO, where: str, limits: Limits) -> None:
        self._where = where
        self._limits = limits
        inflated = Inflated(stream, where, limits)
        self._archive_bytes = inflated.archive_bytes
        self._inflated = _Watched(inflated)
        self._tar: tarfile.TarFile | None = None

    def members(self) -> Iterator[tarfile.TarInfo]:
        """Each member; the archive has been read whole and is sound when they are over.

        Raises:
            PackageError: The archive breaks a rule.
        """
        unpacked_bytes = 0
        for count, member in enumerate(self._guarded(), 1):
            unpacked_bytes += member.size
            self._limits.check_count(count, self._where)
            self._limits.check_size(unpacked_bytes, self._where, self._archive_bytes)
            if member.sparse is not None or self._is_ambiguous(member):
                raise PackageError(
                    f"{self._where}: {member.name!a} is sparse, or has a header that programs "
                    "read differently. Build it again with a current build backend."
                )
            yield member
        self._check_end()

    def read(self, member: tarfile.TarInfo) -> bytes:
        """The contents of the member that was given last."""
        assert self._tar is not None
        file = self._tar.extractfile(member)
        return b"" if file is None else file.read()

    def _guarded(self) -> Iterator[tarfile.TarInfo]:
        try:
            with tarfile.open(
                fileobj=cast("IO[bytes]", self._inflated),
                mode="r|",
                tarinfo=_BoundedInfo,
                encoding="utf-8",
            ) as self._tar:
                yield from self._tar
        except PackageError:
            # It is a ValueError, too, and says already what to do.
            raise
        except (tarfile.TarError, ValueError, ArithmeticError, RecursionError) as error:
            raise PackageError(f"{self._where} cannot be read: {error}. Build it again.") from None

    def _is_ambiguous(self, member: tarfile.TarInfo) -> bool:
        return any(
            key in _AMBIGUOUS_RECORDS or key.startswith("GNU.sparse") for key in member.pax_headers
        )

    def _check_end(self) -> None:
        """Behind the last member stand zero blocks, and nothing else.

        A reader ends at the first block that is no header; another might read on.
        """
        assert self._tar is not None
        self._inflated.drain()
        if self._inflated.content_end > self._tar.offset:
            raise PackageError(f"{self._where} has bytes behind its last member. Build it again.")
        if self._inflated.position < self._tar.offset + BLOCK_BYTES:
            raise PackageError(f"{self._where} is cut off. Send it again.")


class _BoundedInfo(tarfile.TarInfo):
    """A member whose extension headers fit into memory."""

    def _proc_member(self, tar: tarfile.TarFile) -> Self | None:
        if self.type in _EXTENSIONS and self.size > _MAX_EXTENSION_BYTES:
            raise tarfile.ReadError(f"a header of {self.size} bytes")
        base: Any = super()
        member: Self | None = base._proc_member(tar)
        return member


class _Watched:
    """Inflated bytes, and where the last one stands that is not zero."""

    def __init__(self, inflated: Inflated) -> None:
        self._inflated = inflated
        self.position = 0
        self.content_end = 0

    def read(self, size: int) -> bytes:
        """Up to `size` bytes; fewer only at the end."""
        chunk = self._inflated.rest(size)
        stripped = len(chunk.rstrip(b"\0"))
        if stripped:
            self.content_end = self.position + stripped
        self.position += len(chunk)
        return chunk

    def drain(self) -> None:
        """Read to the end."""
        while self.read(64 * 1024):
            pass
