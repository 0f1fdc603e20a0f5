"""Files of a sandbox as a tar archive and back, in memory; nothing is ever written to the host."""

from __future__ import annotations

import io
import tarfile
from collections.abc import Mapping
from pathlib import PurePosixPath


def pack_files(files: Mapping[str, bytes]) -> bytes:
    """A tar archive, such as `Sandbox.restore` and `SandboxEpisode.source` take.

    Equal files give equal archives.
    """
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w") as archive:
        for path, content in sorted(files.items()):
            member = tarfile.TarInfo(path)
            member.size = len(content)
            archive.addfile(member, io.BytesIO(content))
    return buffer.getvalue()


def read_files(archive: bytes) -> dict[str, bytes]:
    """The regular files of an archive that `Sandbox.snapshot` gave, by their paths.

    Whoever worked in the sandbox made them: links are left out, and so are paths that lead out.

    Raises:
        tarfile.TarError: It is no archive.
    """
    files = {}
    with tarfile.open(fileobj=io.BytesIO(archive)) as members:
        for member in members:
            path = PurePosixPath(member.name)
            if member.isreg() and not path.is_absolute() and ".." not in path.parts:
                content = members.extractfile(member)
                files[str(path)] = content.read() if content is not None else b""
    return files
