"""What a wheel's own METADATA and entry points say (steps: package, publish)."""

import configparser
from collections.abc import Sequence
from typing import Any

from packaging.metadata import RawMetadata, parse_email
from packaging.specifiers import InvalidSpecifier, SpecifierSet
from packaging.version import InvalidVersion, Version

from strop.errors import InvalidRefError, ManifestError, PackageError
from strop.hub.manifest import ENTRY_POINT_GROUP, Manifest
from strop.hub.refs import normalize_name

METADATA_VERSIONS = ("1.0", "1.1", "1.2", "2.1", "2.2", "2.3", "2.4", "2.5")
MANIFEST_FIELDS = ("name", "version", "summary", "requires-python", "dependencies", "license")
"""The fields of a manifest that METADATA states too; the two must agree."""


def parse_metadata(content: bytes, where: str) -> RawMetadata:
    """The fields of a METADATA file, of which name, version and Requires-Python are valid.

    Other fields are not held to their specification: widespread backends break it, and installers
    do not mind.

    Raises:
        PackageError: The file is no metadata.
    """
    try:
        raw, _ = parse_email(content)
    except (ValueError, TypeError, LookupError, RecursionError) as error:
        raise PackageError(f"{where}: METADATA cannot be read: {error}. Build it again.") from None
    problems = list(_problems(raw))
    if problems:
        raise PackageError(f"{where}: METADATA {'; '.join(problems)}. Build it again.")
    return raw


def _problems(raw: RawMetadata) -> list[str]:
    problems = []
    if raw.get("metadata_version") not in METADATA_VERSIONS:
        version = ascii(raw.get("metadata_version"))[:20]
        problems.append(f"has version {version}; known are {', '.join(METADATA_VERSIONS)}")
    try:
        normalize_name(raw.get("name", ""))
    except InvalidRefError as error:
        problems.append(f"has no usable name: {error}")
    try:
        Version(raw.get("version", ""))
    except InvalidVersion:
        problems.append(f"has no valid version: {ascii(raw.get('version'))[:40]}")
    try:
        SpecifierSet(raw.get("requires_python", ""))
    except InvalidSpecifier:
        problems.append(f"has an invalid Requires-Python: {ascii(raw['requires_python'])[:80]}")
    return problems


def parse_entry_points(content: bytes, where: str) -> dict[str, str]:
    """The entries of the group ``strop.environments``, name to value.

    Raises:
        PackageError: The file cannot be read, or has an entry twice.
    """
    parser = configparser.ConfigParser(delimiters=("=",), interpolation=None, strict=True)
    parser.optionxform = str  # type: ignore[assignment,method-assign]
    try:
        parser.read_string(content.decode("utf-8"))
    except (UnicodeDecodeError, configparser.Error) as error:
        message = " ".join(str(error).split())
        raise PackageError(
            f"{where}: entry_points.txt cannot be read: {message}. Build it again."
        ) from None
    if not parser.has_section(ENTRY_POINT_GROUP):
        return {}
    return {
        name: value.strip() for name, value in parser.items(ENTRY_POINT_GROUP) if value is not None
    }


def core_fields(raw: RawMetadata) -> dict[str, Any]:
    """The manifest's fields that METADATA states, under their kebab-case keys."""
    return {
        "name": raw["name"],
        "version": raw["version"],
        "summary": raw.get("summary", ""),
        "requires-python": raw.get("requires_python") or None,
        "dependencies": list(raw.get("requires_dist", [])),
        "license": raw.get("license_expression") or raw.get("license") or None,
        "authors": _authors(raw),
        "urls": dict(raw.get("project_urls", {})),
    }


def _authors(raw: RawMetadata) -> list[str]:
    authors = [raw.get("author", ""), raw.get("author_email", "")]
    return [author for author in authors if author]


def derive_manifest(raw: RawMetadata, entry_points: dict[str, str], where: str) -> Manifest:
    """The manifest of a foreign wheel; what METADATA gets wrong is left out, not refused."""
    fields = core_fields(raw)
    fields["summary"] = _one_line(fields["summary"])
    fields["license"] = _one_line(fields["license"] or "") or None
    fields["authors"] = [_one_line(author) for author in fields["authors"]]
    fields["urls"] = {
        label: url
        for label, url in fields["urls"].items()
        if url.startswith(("https://", "http://"))
    }
    fields["entry-point"] = next(iter(entry_points.values()), None)
    for key in ("dependencies", "entry-point", "authors"):
        if not _is_valid(raw, key, fields[key]):
            del fields[key]
    try:
        return Manifest.model_validate(fields)
    except ValueError as error:
        raise ManifestError(where, [" ".join(str(error).split())]) from None


def _is_valid(raw: RawMetadata, key: str, value: Any) -> bool:
    try:
        Manifest.model_validate({"name": raw["name"], "version": raw["version"], key: value})
    except ValueError:
        return False
    return True


def _one_line(text: str) -> str:
    return "".join(letter if letter.isprintable() else " " for letter in text)[:512].strip()


def disagreements(manifest: Manifest, raw: RawMetadata) -> Sequence[str]:
    """Where a manifest says something other than METADATA."""
    stated = Manifest.model_validate(
        {key: value for key, value in core_fields(raw).items() if key in MANIFEST_FIELDS}
    ).document()
    own = manifest.document()
    return [
        f"`{key}` is {ascii(own[key])[:120]}, but METADATA says {ascii(stated[key])[:120]}"
        for key in MANIFEST_FIELDS
        if own[key] != stated[key]
    ]
