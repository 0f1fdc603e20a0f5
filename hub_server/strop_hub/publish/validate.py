"""Step *validate*: what an upload is, when no rule is broken; needs no database (step: publish)."""

import re
from collections.abc import Mapping
from dataclasses import dataclass

from packaging.utils import canonicalize_version
from packaging.version import Version

from strop.errors import ManifestError, PackageError
from strop.hub.archive import WheelFacts, check_wheel
from strop.hub.source import read_source_archive
from strop.hub.wire import VersionKind
from strop_hub.errors import (
    DigestMismatchError,
    InvalidManifestError,
    InvalidPackageError,
    MalformedBodyError,
)
from strop_hub.publish.failpoints import reach
from strop_hub.publish.form import ReceivedFile

WHEEL, SOURCE = "wheel", "source"
FILES = (WHEEL, SOURCE)
FIELDS = ("wheel_sha256", "source_sha256", "tree_digest", "visibility")
SOURCE_SUFFIX = ".source.tar.gz"

MAX_VERSION_LENGTH = 100
_SHA256 = re.compile(r"[0-9a-f]{64}")


@dataclass(frozen=True, slots=True)
class Candidate:
    """A version that could be published: its files, and what they say."""

    wheel: ReceivedFile
    facts: WheelFacts
    source: ReceivedFile | None
    tree_digest: str | None
    """Computed from the source; None when there is none."""

    @property
    def version(self) -> Version:
        """Its number."""
        return Version(self.facts.version)

    @property
    def canonical_version(self) -> str:
        """Its number without trailing zeros, by which versions are told apart."""
        return canonicalize_version(self.version, strip_trailing_zero=True)

    @property
    def source_filename(self) -> str:
        """The name under which the source is published; never that of a source distribution."""
        return "-".join(self.facts.filename.split("-")[:2]) + SOURCE_SUFFIX

    @property
    def readme(self) -> bytes:
        """Its README; lone surrogates, which are no UTF-8, are replaced."""
        return self.facts.readme.encode(errors="replace")

    @property
    def size_bytes(self) -> int:
        """Of its files."""
        return self.wheel.size_bytes + (self.source.size_bytes if self.source else 0)


def examine(files: Mapping[str, ReceivedFile], fields: Mapping[str, str]) -> Candidate:
    """The candidate in the files and fields of a whole form.

    Raises:
        MalformedBodyError: The form has no wheel.
        DigestMismatchError: Bytes differ from what the form announces.
        InvalidPackageError: An archive breaks a rule.
        InvalidManifestError: The manifest is wrong.
    """
    wheel = files.get(WHEEL)
    if wheel is None:
        raise MalformedBodyError(f"the form has no file `{WHEEL}`")
    source = files.get(SOURCE)
    _check_digest(fields, "wheel_sha256", wheel.sha256)
    _check_digest(fields, "source_sha256", None if source is None else source.sha256)
    facts = _read_wheel(wheel)
    if source is None and facts.kind is VersionKind.STROP:
        raise InvalidPackageError(
            f"`{wheel.filename}` is an environment and comes without its source. "
            "Push it with `strop env push`, which sends both."
        )
    tree_digest = None if source is None else _read_source(source)
    _check_digest(fields, "tree_digest", tree_digest)
    return Candidate(wheel, facts, source, tree_digest)


def examine_wheel(wheel: ReceivedFile) -> Candidate:
    """The candidate in a wheel that comes without the author's tree.

    Raises:
        InvalidPackageError: The archive breaks a rule.
        InvalidManifestError: The manifest is wrong.
    """
    return Candidate(wheel, _read_wheel(wheel), None, None)


def check_version_length(version: str) -> None:
    """Refuse a version that is too long to be shown.

    Raises:
        InvalidPackageError: It is.
    """
    if len(version) > MAX_VERSION_LENGTH:
        raise InvalidPackageError(
            f"the version has {len(version)} characters; at most {MAX_VERSION_LENGTH}"
        )


def _check_digest(fields: Mapping[str, str], field: str, computed: str | None) -> None:
    announced = fields.get(field)
    if announced is None or announced == computed:
        return
    if _SHA256.fullmatch(announced) is None:
        raise MalformedBodyError(f"`{field}` is no sha256 of 64 lower-case hex digits")
    if computed is None:
        raise MalformedBodyError(f"`{field}` is given, but the form has no file `{SOURCE}`")
    raise DigestMismatchError(
        f"`{field}` announces {announced}, what came has {computed}: the upload was altered on "
        "its way, or a file changed while it was read. Nothing was stored; push again."
    )


def _read_wheel(wheel: ReceivedFile) -> WheelFacts:
    reach("publish.validate")
    try:
        facts = check_wheel(wheel.path, filename=wheel.filename)
    except ManifestError as error:
        raise InvalidManifestError(str(error), problems=error.problems) from None
    except PackageError as error:
        raise InvalidPackageError(str(error)) from None
    check_version_length(facts.version)
    return facts


def _read_source(source: ReceivedFile) -> str:
    try:
        return read_source_archive(source.path).tree_digest
    except PackageError as error:
        raise InvalidPackageError(str(error)) from None
