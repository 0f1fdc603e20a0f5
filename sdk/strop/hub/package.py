"""Makes of an author's folder what a push carries: a wheel and its source (step: package)."""

import hashlib
import os
import re
import shutil
import tempfile
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Any

from strop.errors import PackageError
from strop.hub.archive import check_wheel
from strop.hub.building.environment import build_described_wheel
from strop.hub.building.sdk import build_sdk_wheel
from strop.hub.building.settings import settings_schema
from strop.hub.building.wheel import add_manifest, wheel_prefix
from strop.hub.manifest import Manifest, read_project
from strop.hub.secrets import find_secrets, find_wheel_secrets, refuse_secrets
from strop.hub.source import (
    SourceMember,
    copy_source,
    list_source,
    read_source_archive,
    tree_digest,
    write_source_archive,
)

__all__ = [
    "Package",
    "add_manifest",
    "build_sdk_wheel",
    "build_wheel",
    "find_secrets",
    "pack",
    "settings_schema",
]

SOURCE_SUFFIX = ".source.tar.gz"
"""Of the source archive's name: it must never pass for a source distribution."""

_BUILD_OUTPUT = re.compile(r"(.*/)?(dist/[^/]+\.(whl|tar\.gz)|[^/]+\.(egg-info|dist-info)/.*)")


@dataclass(frozen=True, slots=True)
class Package:
    """What a push carries."""

    wheel: Path
    source: Path
    wheel_sha256: str
    """The digest of the version, once it is published."""
    source_sha256: str
    tree_digest: str
    """Tells whether a push is the same push."""
    manifest: Manifest
    settings_schema: dict[str, Any] | None
    members: tuple[SourceMember, ...]
    """What the source archive ships, sorted."""


def pack(
    folder: Path, out: Path, *, isolated: bool = True, allowed_secrets: Collection[str] = ()
) -> Package:
    """Build and check everything that a push of `folder` carries, into the folder `out`.

    `folder` is only read: the wheel is built from a copy of what the source archive ships.

    Args:
        folder: The environment, with its ``pyproject.toml``.
        out: Where wheel and source archive go; nothing appears there unless all is well.
        isolated: See `build_wheel`.
        allowed_secrets: Paths in `folder` that may hold what looks like a secret.

    Raises:
        ManifestError: The manifest or a setting is wrong.
        SecretFoundError: A secret would be published.
        BuildError: The wheel cannot be built.
        PackageError: A file cannot be shipped.
    """
    read_project(folder)
    members = list_source(folder)
    _refuse_build_outputs(folder, members)
    allowed = {str(PurePosixPath(path)) for path in allowed_secrets}
    with tempfile.TemporaryDirectory(prefix="strop-pack-") as scratch:
        tree = Path(scratch) / "tree"
        copy_source(folder, members, tree)
        refuse_secrets(find_secrets(tree, members, allowed), str(folder))
        wheel = _build(tree, Path(scratch), isolated=isolated)
        refuse_secrets(find_wheel_secrets(wheel, allowed), wheel.name)
        facts = check_wheel(wheel)
        source = Path(scratch) / (wheel_prefix(wheel) + SOURCE_SUFFIX)
        digest = tree_digest(tree, members)
        write_source_archive(tree, members, source)
        if read_source_archive(source).tree_digest != digest:
            raise PackageError(f"{source.name} does not hold what was listed. Try again.")
        source_sha256 = _sha256(source)
        wheel, source = _deliver([wheel, source], out)
    return Package(
        wheel=wheel,
        source=source,
        wheel_sha256=facts.sha256,
        source_sha256=source_sha256,
        tree_digest=digest,
        manifest=facts.manifest,
        settings_schema=facts.settings_schema,
        members=tuple(members),
    )


def build_wheel(folder: Path, out: Path, *, isolated: bool = True) -> Path:
    """The wheel of the environment in `folder`, with its ``strop.json``, written into `out`.

    The same tree and the same backend give the same bytes.

    Args:
        folder: The environment; it is only read.
        out: Where the wheel goes.
        isolated: Whether the build backend comes into an environment of its own, through uv where
            it is installed, else pip. If not, it must be installed beside Strop; no network is
            needed then.

    Raises:
        ManifestError: The manifest or a setting is wrong.
        BuildError: The wheel cannot be built.
        PackageError: A file cannot be shipped, or the wheel breaks a rule.
    """
    read_project(folder)
    members = list_source(folder)
    with tempfile.TemporaryDirectory(prefix="strop-build-") as scratch:
        tree = Path(scratch) / "tree"
        copy_source(folder, members, tree)
        wheel = _build(tree, Path(scratch), isolated=isolated)
        check_wheel(wheel)
        return _deliver([wheel], out)[0]


def _build(tree: Path, scratch: Path, *, isolated: bool) -> Path:
    raw = scratch / "wheel"
    raw.mkdir()
    # Backends may leave files beside their source; the tree that is shipped stays as it is.
    workshop = scratch / "workshop"
    shutil.copytree(tree, workshop, symlinks=True)
    return build_described_wheel(workshop, raw, isolated=isolated)


def _deliver(files: Sequence[Path], out: Path) -> list[Path]:
    """Move finished files to `out`, each of which appears whole."""
    delivered = []
    try:
        out.mkdir(parents=True, exist_ok=True)
        for file in files:
            beside = out / f".{file.name}.{os.getpid()}"
            shutil.copyfile(file, beside)
            os.replace(beside, out / file.name)
            delivered.append(out / file.name)
    except OSError as error:
        raise PackageError(f"{out} cannot be written: {error}. Choose another folder.") from error
    return delivered


def _refuse_build_outputs(folder: Path, members: Sequence[SourceMember]) -> None:
    outputs = [member.path for member in members if _BUILD_OUTPUT.fullmatch(member.path)]
    if outputs:
        raise PackageError(
            f"{folder}: {outputs[0]!a} is the output of a build, and would make each push another "
            "tree. Add `dist/` and `*.egg-info/` to .gitignore."
        )


def _sha256(path: Path) -> str:
    with path.open("rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()
