"""Large images and sounds of trajectories, each kept once beside the file (step: rollout)."""

from __future__ import annotations

import contextlib
import hashlib
import os
import re
import tempfile
from base64 import b64decode, b64encode
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from strop.errors import TrajectoryFileError

BLOBS_NAME = "blobs"
"""Folder of the blobs, in that of the file."""

MAX_INLINE_CHARS = 16_384
"""Of a ``data:`` URL that stays in its line."""

_DIGEST = re.compile("[0-9a-f]{64}")


class BlobFolder:
    """A folder of files that are named by the sha256 (hex) of what they hold."""

    def __init__(self, path: Path, *, has_fsync: bool = False) -> None:
        """Use a folder, which is made when the first blob comes.

        Args:
            path: Of the folder.
            has_fsync: Whether a blob is on the disk before the line that names it.
        """
        self.path = path
        self._has_fsync = has_fsync

    @classmethod
    def beside(cls, file: Path, *, has_fsync: bool = False) -> BlobFolder:
        """The folder of a file of trajectories."""
        return cls(file.with_name(BLOBS_NAME), has_fsync=has_fsync)

    def take_out(self, trajectory: dict[str, Any]) -> None:
        """Keep the large parts of a trajectory's JSON here; in their place stand their digests.

        Raises:
            OSError: The disk is full.
        """
        for part in _parts_of(trajectory):
            url = part.get("url")
            if url is None or len(url) <= MAX_INLINE_CHARS or not url.startswith("data:"):
                continue
            head, mark, text = url.partition(";base64,")
            content = _decoded(text) if mark else None
            if content is None:
                continue
            digest = hashlib.sha256(content).hexdigest()
            self._keep(digest, content)
            del part["url"]
            media_type = head.removeprefix("data:")
            part["blob"] = {"digest": digest, "media_type": media_type, "size_bytes": len(content)}

    def put_back(self, trajectory: dict[str, Any]) -> None:
        """Put what `take_out` took back into its place.

        Raises:
            TrajectoryFileError: A blob is missing or damaged.
        """
        for part in _parts_of(trajectory):
            if (blob := part.pop("blob", None)) is not None:
                text = b64encode(self.read(blob)).decode("ascii")
                part["url"] = f"data:{blob['media_type']};base64,{text}"

    def read(self, blob: dict[str, Any]) -> bytes:
        """The bytes that a part's ``blob`` means.

        Raises:
            TrajectoryFileError: They are missing, or others than those that were kept.
        """
        digest: str = blob["digest"]
        if _DIGEST.fullmatch(digest) is None:
            raise TrajectoryFileError(f"{digest[:80]!r} is no sha256 of a blob.")
        path = self.path / digest
        try:
            content = path.read_bytes()
        except OSError as error:
            raise TrajectoryFileError(
                f"The blob {path} cannot be read: {error.strerror}. Keep the folder "
                f"{BLOBS_NAME} beside the file when you move it."
            ) from error
        if hashlib.sha256(content).hexdigest() != digest or len(content) != blob["size_bytes"]:
            raise TrajectoryFileError(
                f"The blob {path} is damaged: its {len(content)} bytes are not the "
                f"{blob['size_bytes']} that were kept. Take it from a copy of the run."
            )
        return content

    def _keep(self, digest: str, content: bytes) -> None:
        path = self.path / digest
        with contextlib.suppress(FileNotFoundError):
            if path.stat().st_size == len(content):
                return
        self.path.mkdir(exist_ok=True)
        descriptor, name = tempfile.mkstemp(dir=self.path, prefix=f".{digest[:16]}.")
        unfinished = Path(name)
        try:
            with os.fdopen(descriptor, "wb") as file:
                file.write(content)
                os.fchmod(descriptor, 0o644)
                if self._has_fsync:
                    file.flush()
                    os.fsync(descriptor)
            unfinished.replace(path)
        except BaseException:
            unfinished.unlink(missing_ok=True)
            raise
        if self._has_fsync:
            self._sync_names()

    def _sync_names(self) -> None:
        folder = os.open(self.path, os.O_RDONLY | os.O_DIRECTORY)
        try:
            os.fsync(folder)
        finally:
            os.close(folder)


def _parts_of(trajectory: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """The parts of all messages in a trajectory's JSON; texts alone have none."""
    for message in trajectory["task"]["prompt"]:
        if type(message["content"]) is list:
            yield from message["content"]
    for segment in trajectory["segments"]:
        for message in segment["messages"]:
            if type(message["content"]) is list:
                yield from message["content"]


def _decoded(text: str) -> bytes | None:
    """The bytes of base64; None where encoding them again would give another text."""
    try:
        content = b64decode(text, validate=True)
    except ValueError:
        return None
    return content if b64encode(content).decode("ascii") == text else None
