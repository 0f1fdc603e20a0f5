"""Writes wheels of which equal contents are equal bytes (step: package)."""

import hashlib
import os
import stat
import tempfile
import zipfile
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import IO, Any

from strop.errors import BuildError
from strop.hub.manifest import MANIFEST_NAME, Manifest, write_document
from strop.hub.rules.record import SIGNATURES, write_record

_CHUNK_BYTES = 1024 * 1024
_EARLIEST = (1980, 1, 1, 0, 0, 0)

Entry = tuple[str, bool, Iterable[bytes]]
"""Path, whether it may be executed, contents."""


def add_manifest(wheel: Path, manifest: Manifest, schema: dict[str, Any] | None) -> None:
    """Put ``strop.json`` into `wheel`, mend RECORD and write it again in its canonical form.

    Raises:
        BuildError: `wheel` is no wheel.
    """
    folder = f"{wheel_prefix(wheel)}.dist-info"
    repack(wheel, wheel, {f"{folder}/{MANIFEST_NAME}": write_document(manifest, schema)})


def wheel_prefix(wheel: Path) -> str:
    """``<name>-<version>``, as the file name spells it."""
    return "-".join(wheel.name.split("-")[:2])


def read_from_wheel(wheel: Path, name: str) -> bytes:
    """A file of the metadata folder of a wheel that a backend has just written.

    Raises:
        BuildError: There is none.
    """
    try:
        with zipfile.ZipFile(wheel) as archive:
            return archive.read(f"{wheel_prefix(wheel)}.dist-info/{name}")
    except (KeyError, zipfile.BadZipFile) as error:
        raise BuildError(f"the backend wrote {wheel.name} without {name}: {error}.") from None


def repack(source: Path, target: Path, extra: Mapping[str, bytes] | None = None) -> None:
    """Write the wheel `source` as `target`, with `extra` files in it, in its canonical form.

    Members are sorted, with the metadata last; times, owners and modes are fixed. `source` comes
    from a backend on this machine: what is wrong with it is found by `check_wheel` afterwards.
    """
    extra = extra or {}
    record = f"{wheel_prefix(source)}.dist-info/RECORD"
    dropped = {record, *extra} | {record.replace("RECORD", name) for name in SIGNATURES}
    with zipfile.ZipFile(source) as archive:
        entries: list[Entry] = [
            (
                member.filename,
                bool(member.external_attr >> 16 & stat.S_IXUSR),
                _read(archive, member),
            )
            for member in archive.infolist()
            if not member.is_dir() and member.filename not in dropped
        ]
        entries += [(path, False, [content]) for path, content in extra.items()]
        write_wheel(entries, target, record)


def write_wheel(entries: Iterable[Entry], target: Path, record_path: str) -> None:
    """Write `target` with `entries` and a RECORD of them; it appears whole or not at all."""
    metadata_folder = record_path.removesuffix("RECORD")
    ordered = sorted(entries, key=lambda entry: (entry[0].startswith(metadata_folder), entry[0]))
    lines = []
    descriptor, name = tempfile.mkstemp(prefix=".wheel-", dir=target.parent)
    beside = Path(name)
    try:
        with (
            os.fdopen(descriptor, "w+b") as stream,
            zipfile.ZipFile(stream, "w", zipfile.ZIP_DEFLATED) as archive,
        ):
            for path, is_executable, chunks in ordered:
                lines.append(_write(archive, path, is_executable, chunks))
            _write(archive, record_path, False, [write_record(lines, record_path)])
        beside.chmod(0o644)
        os.replace(beside, target)
    finally:
        beside.unlink(missing_ok=True)


def _write(
    archive: zipfile.ZipFile, path: str, is_executable: bool, chunks: Iterable[bytes]
) -> tuple[str, bytes, int]:
    header = zipfile.ZipInfo(path, _EARLIEST)
    header.create_system = 3  # Unix, whatever the machine: it decides how modes are read.
    header.external_attr = (stat.S_IFREG | (0o755 if is_executable else 0o644)) << 16
    header.compress_type = zipfile.ZIP_DEFLATED
    digest, size_bytes = hashlib.sha256(), 0
    with archive.open(header, "w") as target:
        for chunk in chunks:
            target.write(chunk)
            digest.update(chunk)
            size_bytes += len(chunk)
    return path, digest.digest(), size_bytes


def _read(archive: zipfile.ZipFile, member: zipfile.ZipInfo) -> Iterator[bytes]:
    with archive.open(member) as stream:
        yield from read_chunks(stream)


def read_chunks(stream: IO[bytes]) -> Iterator[bytes]:
    """The contents of an open file, in pieces."""
    while chunk := stream.read(_CHUNK_BYTES):
        yield chunk
