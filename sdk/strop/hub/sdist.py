"""Which source distributions are accepted from packaging clients (step: publish)."""

import tarfile
import zipfile
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

from packaging.metadata import RawMetadata
from packaging.utils import InvalidSdistFilename, parse_sdist_filename
from packaging.version import Version

from strop.errors import PackageError
from strop.hub.refs import normalize_name
from strop.hub.rules.limits import DEFAULT_LIMITS, Limits
from strop.hub.rules.metadata import parse_metadata
from strop.hub.rules.names import NameSet, check_name
from strop.hub.rules.sdist_tar import SdistTar

SUFFIX = ".tar.gz"


@dataclass(frozen=True, slots=True)
class SdistFacts:
    """What an accepted source distribution says about itself."""

    filename: str
    name: str
    """In the form of PEP 503."""
    version: str
    """In the normal form of PEP 440."""
    raw: RawMetadata
    """The fields of PKG-INFO."""
    requires_python: str | None


def check_sdist(
    path: Path, *, filename: str | None = None, limits: Limits = DEFAULT_LIMITS
) -> SdistFacts:
    """Facts about the source distribution at `path`, when no rule is broken.

    Args:
        path: The file.
        filename: Its name, when `path` is a temporary one.
        limits: How large it may grow.

    Raises:
        PackageError: The message names rule and member.

    Source: PEP 625; PEP 639 on licence files.
    """
    filename = filename or path.name
    stem, version = _parse_filename(filename)
    if zipfile.is_zipfile(path):
        raise PackageError(f"{filename} is a zip archive as well. Build it again.")
    with path.open("rb") as stream:
        content, paths = _read(stream, filename, stem, limits)
    raw = parse_metadata(content, f"{filename}: PKG-INFO")
    found = (normalize_name(raw["name"]), Version(raw["version"]))
    spelled = f"{found[0].replace('-', '_')}-{found[1]}"
    if spelled != stem:
        raise PackageError(
            f"{filename}: PKG-INFO says {found[0]} {found[1]}, which is named {spelled}{SUFFIX} "
            "(PEP 625). Build it again with a current build backend; do not rename it."
        )
    _check_licences(raw, paths, stem, filename)
    return SdistFacts(filename, found[0], str(version), raw, raw.get("requires_python") or None)


def read_sdist(path: Path, *, limits: Limits = DEFAULT_LIMITS) -> dict[str, bytes]:
    """The regular files of an accepted source distribution, by their paths in its top folder.

    Nothing is written, and nothing in it runs; links are left out.

    Raises:
        PackageError: The message names rule and member.
    """
    check_sdist(path, limits=limits)
    files = {}
    with path.open("rb") as stream:
        archive = SdistTar(stream, path.name, limits)
        for member in archive.members():
            if member.isfile():
                files[member.name.partition("/")[2]] = archive.read(member)
    return files


def _parse_filename(filename: str) -> tuple[str, Version]:
    check_name(filename, "the source distribution's file name")
    if not filename.endswith(SUFFIX):
        raise PackageError(f"{filename} is no source distribution: those end in {SUFFIX}.")
    try:
        _, version = parse_sdist_filename(filename)
    except InvalidSdistFilename as error:
        raise PackageError(f"{error}. It is named name-version{SUFFIX}.") from None
    return filename.removesuffix(SUFFIX), version


def _read(
    stream: BinaryIO, filename: str, stem: str, limits: Limits
) -> tuple[bytes, frozenset[str]]:
    """PKG-INFO, and the path of every file."""
    names, paths, content = NameSet(filename), set(), None
    archive = SdistTar(stream, filename, limits)
    for member in archive.members():
        _check_member(member, filename, stem)
        names.add(member.name, is_folder=member.isdir())
        paths.add(member.name)
        if member.name == f"{stem}/PKG-INFO" and member.isfile():
            if member.size > limits.metadata_bytes:
                raise PackageError(f"{filename}: PKG-INFO is too large. Shorten the README.")
            content = archive.read(member)
    if content is None:
        raise PackageError(f"{filename} has no {stem}/PKG-INFO. Build it again.")
    return content, frozenset(paths)


def _check_member(member: tarfile.TarInfo, filename: str, stem: str) -> None:
    if member.name.split("/")[0] != stem:
        raise PackageError(
            f"{filename} must hold one folder, {stem}/, it has {member.name!a} beside it. "
            "Build it again; do not rename it."
        )
    if not (member.isfile() or member.isdir() or member.issym()):
        raise PackageError(
            f"{filename}: {member.name!a} is a hard link, device, pipe or sparse file. "
            "Leave it out, or replace it by a copy."
        )
    if member.issym() and not _leads_inside(member):
        raise PackageError(
            f"{filename}: the link {member.name!a} -> {member.linkname!a} leads out of the "
            "archive. Replace it by a copy, or leave it out."
        )


def _leads_inside(member: tarfile.TarInfo) -> bool:
    """Whether a link's target lies in the top folder, whatever its own folders are."""
    target = member.linkname
    if not target or target.startswith("/") or "\\" in target or not target.isprintable():
        return False
    depth = member.name.count("/")
    for part in target.split("/"):
        depth += -1 if part == ".." else part not in ("", ".")
        if depth < 1:
            return False
    return True


def _check_licences(raw: RawMetadata, paths: frozenset[str], stem: str, filename: str) -> None:
    if raw.get("metadata_version") not in ("2.4", "2.5"):
        return  # Older metadata states licence files without saying where they are.
    missing = [path for path in raw.get("license_files", []) if f"{stem}/{path}" not in paths]
    if missing:
        raise PackageError(
            f"{filename}: PKG-INFO names the licence files {', '.join(map(ascii, missing))}, "
            f"which are not in {stem}/. Correct `license-files` and build it again."
        )
