"""Which wheels are accepted: one function for author and hub (steps: package, publish)."""

import hashlib
import re
import zlib
from dataclasses import dataclass
from email.parser import BytesHeaderParser
from pathlib import Path
from typing import Any

from packaging.metadata import RawMetadata
from packaging.utils import InvalidWheelFilename, parse_wheel_filename
from packaging.version import Version

from strop.errors import ManifestError, PackageError
from strop.hub.manifest import MANIFEST_NAME, Manifest, read_document
from strop.hub.refs import normalize_name
from strop.hub.rules.limits import DEFAULT_LIMITS, Limits
from strop.hub.rules.metadata import (
    derive_manifest,
    disagreements,
    parse_entry_points,
    parse_metadata,
)
from strop.hub.rules.names import check_name
from strop.hub.rules.record import SIGNATURES, RecordLine, parse_record, record_digest
from strop.hub.rules.zips import StrictZip, ZipMember
from strop.hub.wire import VersionKind

_SCHEMES = ("purelib", "platlib", "headers", "scripts", "data")
_SEPARATORS = re.compile(r"[-_.]+")


@dataclass(frozen=True, slots=True)
class WheelFacts:
    """What an accepted wheel says about itself."""

    filename: str
    name: str
    """In the form of PEP 503."""
    version: str
    """In the normal form of PEP 440."""
    kind: VersionKind
    manifest: Manifest
    settings_schema: dict[str, Any] | None
    readme: str
    """The long description; the empty string when there is none."""
    metadata: bytes
    """METADATA byte for byte, as index pages serve it."""
    requires_python: str | None
    tags: tuple[str, ...]
    """Such as ``py3-none-any``, sorted."""
    sha256: str
    size_bytes: int


@dataclass(frozen=True, slots=True)
class _Parts:
    """The members of a wheel that are read whole."""

    prefix: str
    """``<name>-<version>``, as the file name spells it."""
    raw: RawMetadata
    metadata: bytes
    entry_points: dict[str, str]
    document: bytes | None


def check_wheel(
    path: Path, *, filename: str | None = None, limits: Limits = DEFAULT_LIMITS
) -> WheelFacts:
    """Facts about the wheel at `path`, when no rule is broken.

    Args:
        path: The file.
        filename: Its name, when `path` is a temporary one.
        limits: How large it may grow.

    Raises:
        PackageError: The archive breaks a rule; the message names rule and member.
        ManifestError: Its manifest is wrong.
    """
    filename = filename or path.name
    name, version, tags = _parse_filename(filename)
    try:
        with path.open("rb") as stream:
            archive = StrictZip(stream, filename, limits)
            parts = _read_parts(archive, filename)
            _check_record(archive, parts.prefix, filename)
            sha256 = _sha256(stream)
            size_bytes = stream.tell()
    except (MemoryError, zlib.error) as error:
        raise PackageError(f"{filename} cannot be read: {error}. Build it again.") from None
    _check_identity(parts.raw, name, version, filename)
    kind, manifest, schema = _read_manifest(parts, filename)
    if kind is VersionKind.STROP:
        _check_strop(manifest, parts, tags, filename)
    return WheelFacts(
        filename=filename,
        name=name,
        version=str(version),
        kind=kind,
        manifest=manifest,
        settings_schema=schema,
        readme=parts.raw.get("description", ""),
        metadata=parts.metadata,
        requires_python=parts.raw.get("requires_python") or None,
        tags=tags,
        sha256=sha256,
        size_bytes=size_bytes,
    )


def _parse_filename(filename: str) -> tuple[str, Version, tuple[str, ...]]:
    check_name(filename, "the wheel's file name")
    try:
        name, version, _, tags = parse_wheel_filename(filename)
    except InvalidWheelFilename as error:
        raise PackageError(
            f"{error}. A wheel is named name-version-python-abi-platform.whl."
        ) from None
    spelled = filename.split("-")[0]
    if spelled != _SEPARATORS.sub("_", spelled).lower():
        raise PackageError(
            f"{filename}: the name part must be {_SEPARATORS.sub('_', spelled).lower()!r}. "
            "Build it again with a current build backend."
        )
    return str(name), version, tuple(sorted(str(tag) for tag in tags))


def _read_parts(archive: StrictZip, filename: str) -> _Parts:
    prefix = "-".join(filename.split("-")[:2])
    folders = {path.split("/")[0] for path in archive.members if "/" in path}
    found = sorted(folder for folder in folders if folder.endswith(".dist-info"))
    if found != [f"{prefix}.dist-info"]:
        raise PackageError(
            f"{filename} must have exactly the metadata folder {prefix}.dist-info, it has "
            f"{', '.join(found) or 'none'}. Build it again; do not rename wheels."
        )
    _check_schemes(archive, folders, prefix, filename)
    contents = {
        part: _read(archive, f"{prefix}.dist-info/{part}")
        for part in ("METADATA", "WHEEL", "RECORD", "entry_points.txt", MANIFEST_NAME)
    }
    missing = [part for part in ("METADATA", "WHEEL", "RECORD") if contents[part] is None]
    if missing:
        raise PackageError(
            f"{filename} has no {', '.join(missing)} in {prefix}.dist-info. Build it again."
        )
    metadata = contents["METADATA"] or b""
    raw = parse_metadata(metadata, filename)
    _check_wheel_file(contents["WHEEL"] or b"", filename)
    _check_licences(archive, raw, prefix, filename)
    entry_points = parse_entry_points(contents["entry_points.txt"] or b"", filename)
    return _Parts(prefix, raw, metadata, entry_points, contents[MANIFEST_NAME])


def _read(archive: StrictZip, path: str) -> bytes | None:
    member = archive.members.get(path)
    return None if member is None else archive.read(member)


def _check_schemes(archive: StrictZip, folders: set[str], prefix: str, filename: str) -> None:
    alien = sorted(
        folder for folder in folders if folder.endswith(".data") and folder != f"{prefix}.data"
    )
    parts = [path.split("/") for path in archive.members if path.startswith(f"{prefix}.data/")]
    alien += sorted({f"{prefix}.data/{part[1]}" for part in parts if part[1] not in _SCHEMES})
    if alien:
        raise PackageError(
            f"{filename} has {', '.join(map(ascii, alien))}, which no installer knows. "
            f"Allowed is {prefix}.data with {', '.join(_SCHEMES)}."
        )


def _check_wheel_file(content: bytes, filename: str) -> None:
    fields = BytesHeaderParser().parsebytes(content)
    if not str(fields.get("Wheel-Version", "")).startswith("1."):
        raise PackageError(f"{filename}: WHEEL has no Wheel-Version 1.x. Build it again.")


def _check_licences(archive: StrictZip, raw: RawMetadata, prefix: str, filename: str) -> None:
    if raw.get("metadata_version") not in ("2.4", "2.5"):
        return  # Older metadata states licence files without saying where they are.
    folder = f"{prefix}.dist-info/licenses"
    missing = [
        path for path in raw.get("license_files", []) if f"{folder}/{path}" not in archive.members
    ]
    if missing:
        raise PackageError(
            f"{filename}: METADATA names the licence files {', '.join(map(ascii, missing))}, which "
            f"are not in {folder}. Correct `license-files` and build it again."
        )


def _check_record(archive: StrictZip, prefix: str, filename: str) -> None:
    """RECORD lists exactly the members, each with its hash."""
    folder = f"{prefix}.dist-info"
    unhashed = {f"{folder}/RECORD"} | {f"{folder}/{name}" for name in SIGNATURES}
    lines = parse_record(archive.read(archive.members[f"{folder}/RECORD"]), filename)
    unknown = [
        path for path in sorted(lines) if path not in archive.members and path not in unhashed
    ]
    if unknown:
        raise PackageError(
            f"{filename}: RECORD lists {unknown[0]!a}, which is not there. Build it again."
        )
    for path, member in archive.members.items():
        line = lines.get(path)
        if path in unhashed:
            continue
        if line is None or line.algorithm is None:
            raise PackageError(f"{filename}: RECORD has no hash of {path!a}; build it again.")
        _check_line(archive, member, line, filename)


def _check_line(archive: StrictZip, member: ZipMember, line: RecordLine, filename: str) -> None:
    digest = hashlib.new(line.algorithm or "sha256")
    for chunk in archive.chunks(member):
        digest.update(chunk)
    is_same_size = line.size_bytes in (None, member.size_bytes)
    if not is_same_size or record_digest(digest.digest()) != line.digest:
        raise PackageError(
            f"{filename}: {member.path!a} differs from its line in RECORD. "
            "Build it again; do not edit wheels."
        )


def _sha256(stream: Any) -> str:
    stream.seek(0)
    digest = hashlib.sha256()
    while chunk := stream.read(1024 * 1024):
        digest.update(chunk)
    return digest.hexdigest()


def _check_identity(raw: RawMetadata, name: str, version: Version, filename: str) -> None:
    found = (normalize_name(raw["name"]), Version(raw["version"]))
    if found != (name, version):
        raise PackageError(
            f"{filename}: METADATA says {found[0]} {found[1]}, the file name {name} {version}. "
            "Build it again; do not rename wheels."
        )


def _read_manifest(
    parts: _Parts, filename: str
) -> tuple[VersionKind, Manifest, dict[str, Any] | None]:
    if parts.document is None:
        manifest = derive_manifest(parts.raw, parts.entry_points)
        return VersionKind.FOREIGN, manifest, None
    manifest, schema = read_document(parts.document, f"{MANIFEST_NAME} in {filename}")
    return VersionKind.STROP, manifest, schema


def _check_strop(manifest: Manifest, parts: _Parts, tags: tuple[str, ...], filename: str) -> None:
    problems = disagreements(manifest, parts.raw)
    stated = [(manifest.name, manifest.entry_point)]
    found = [(_loosely(name), value) for name, value in parts.entry_points.items()]
    if found != stated:
        listed = ", ".join(f"{name} = {value}" for name, value in parts.entry_points.items())
        problems.append(
            "the group `strop.environments` must have exactly the entry "
            f"{manifest.name} = {manifest.entry_point}; it has {listed or None!a}"
        )
    is_pure = all(tag.endswith("-none-any") for tag in tags)
    if not is_pure and not manifest.platform:
        problems.append(
            f"the wheel is built for {', '.join(tags)[:120]}. Set `platform = true` in "
            "[tool.strop], or leave out the native code"
        )
    if problems:
        raise ManifestError(f"{MANIFEST_NAME} in {filename}", problems)


def _loosely(name: str) -> str:
    return _SEPARATORS.sub("-", name).lower()
