"""From an environment's tree to a wheel that says what it is (step: package)."""

import tempfile
import zipfile
from pathlib import Path
from typing import Any

from strop.hub.building.backend import WRAPPER, backend_name, build_raw_wheel
from strop.hub.building.sdk import build_sdk_wheel
from strop.hub.building.settings import schema_of
from strop.hub.building.wheel import add_manifest, read_from_wheel
from strop.hub.manifest import Manifest, read_project
from strop.hub.rules.metadata import built_manifest, parse_metadata


def build_described_wheel(tree: Path, out: Path, *, isolated: bool) -> Path:
    """The wheel of the environment in `tree`, with its ``strop.json``, in the empty folder `out`.

    Raises:
        BuildError: The backend fails, or the package cannot be imported.
        ManifestError: The manifest or a setting is wrong.
    """
    if backend_name(tree) != WRAPPER:
        wheel = build_raw_wheel(tree, out, isolated=isolated)
        describe_wheel(wheel, tree)
        return wheel
    with tempfile.TemporaryDirectory(prefix="strop-links-") as links:
        if isolated:
            # The wrapper is this very Strop; a public index may not have it.
            build_sdk_wheel(Path(links))
        return build_raw_wheel(tree, out, isolated=isolated, links=Path(links))


def describe_wheel(wheel: Path, project: Path) -> None:
    """Add manifest and settings schema of the environment in `project` to its built `wheel`.

    Raises:
        BuildError: The package cannot be imported.
        ManifestError: The manifest or a setting is wrong.
    """
    metadata = parse_metadata(read_from_wheel(wheel, "METADATA"), wheel.name)
    manifest = built_manifest(read_project(project, version=metadata["version"]), metadata)
    add_manifest(wheel, manifest, _schema(wheel, manifest))


def _schema(wheel: Path, manifest: Manifest) -> dict[str, Any]:
    with tempfile.TemporaryDirectory(prefix="strop-import-") as scratch:
        with zipfile.ZipFile(wheel) as archive:
            archive.extractall(scratch)
        return schema_of([Path(scratch)], manifest.entry_point or "")
