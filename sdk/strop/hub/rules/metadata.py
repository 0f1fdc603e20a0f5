"""What a wheel's own METADATA and entry points say (steps: package, publish)."""

import configparser
import email.utils
import re
from typing import Any

from packaging.metadata import RawMetadata, parse_email
from packaging.specifiers import InvalidSpecifier
from packaging.version import InvalidVersion

from strop.errors import InvalidRefError, PackageError
from strop.hub.manifest import ENTRY_POINT_GROUP, Manifest
from strop.hub.refs import normalize_name, read_range, read_version

METADATA_VERSIONS = ("1.0", "1.1", "1.2", "2.1", "2.2", "2.3", "2.4", "2.5")
AGREEING_FIELDS = ("name", "version", "summary", "requires-python", "dependencies")
"""Fields of a manifest that decide something and that METADATA states too: both must agree."""

_EXTRA = re.compile(r"\bextra\b")


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
        read_version(raw.get("version", ""))
    except InvalidVersion:
        problems.append(f"has no valid version: {ascii(raw.get('version'))[:40]}")
    try:
        read_range(raw.get("requires_python", ""))
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
    """The manifest's fields that METADATA states, under their kebab-case keys.

    What is only shown to people is cut to one line; what extras need is no dependency.
    """
    licence = raw.get("license_expression") or raw.get("license") or ""
    authors = [raw.get("author", ""), *_addresses(raw.get("author_email", ""))]
    urls = dict(raw.get("project_urls", {}))
    if raw.get("home_page"):
        urls.setdefault("Homepage", raw["home_page"])
    return {
        "name": raw["name"],
        "version": raw["version"],
        "summary": _one_line(raw.get("summary", "")),
        "requires-python": raw.get("requires_python") or None,
        "dependencies": [text for text in raw.get("requires_dist", []) if not _EXTRA.search(text)],
        "license": _one_line(licence) or None,
        "authors": [line for author in authors if (line := _one_line(author))],
        "urls": {label: url for label, url in urls.items() if url.startswith(("https:", "http:"))},
    }


def _addresses(text: str) -> list[str]:
    pairs = email.utils.getaddresses([text])
    return [f"{name} <{address}>" if name else address for name, address in pairs]


def _one_line(text: str) -> str:
    first = text.strip().partition("\n")[0]
    return "".join(letter if letter.isprintable() else " " for letter in first)[:512].strip()


def derive_manifest(raw: RawMetadata, entry_points: dict[str, str]) -> Manifest:
    """The manifest of a foreign wheel; what METADATA gets wrong is left out, not refused."""
    identity = {"name": raw["name"], "version": raw["version"]}
    fields = {
        key: value
        for key, value in core_fields(raw).items()
        if key in identity or _is_valid(identity | {key: value})
    }
    entry_point = {"entry-point": next(iter(entry_points.values()), None)}
    if _is_valid(identity | entry_point):
        fields |= entry_point
    return Manifest.model_validate(fields)


def _is_valid(fields: dict[str, Any]) -> bool:
    try:
        Manifest.model_validate(fields)
    except ValueError:
        return False
    return True


def built_manifest(manifest: Manifest, raw: RawMetadata) -> Manifest:
    """`manifest` with everything that METADATA states taken from there."""
    return Manifest.model_validate(manifest.document() | core_fields(raw))


def disagreements(manifest: Manifest, raw: RawMetadata) -> list[str]:
    """Where `manifest` says something other than METADATA."""
    stated, own = core_fields(raw), manifest.document()
    problems = []
    for key in AGREEING_FIELDS:
        identity = {"name": own["name"], "version": own["version"]}
        field = identity | {key: stated[key]}
        is_same = _is_valid(field) and Manifest.model_validate(field).document()[key] == own[key]
        if not is_same:
            problems.append(
                f"`{key}` is {ascii(own[key])[:120]}, but METADATA says {ascii(stated[key])[:120]}"
            )
    return problems
