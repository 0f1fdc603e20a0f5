"""Packs the running Strop as a wheel, so that a hub can hand it out (steps: package, install)."""

import importlib.metadata
import importlib.util
import os
import re
import tempfile
import tomllib
from collections.abc import Iterator, Mapping
from pathlib import Path, PurePosixPath

import strop
from strop.errors import BuildError
from strop.hub.building.backend import build_raw_wheel
from strop.hub.building.wheel import Entry, read_chunks, repack, write_wheel
from strop.hub.listing import listed_digest, listed_files
from strop.hub.source import copy_source, list_source, tree_digest

_PARTS = ("sdk/", "hub_server/", "migrations/")
_FILES = ("pyproject.toml", "README.md", "LICENSE")
_VERSION_LINE = re.compile(r'^version = "(?P<version>[^"+]+)"$', re.MULTILINE)
_INSTALLED_METADATA = ("METADATA", "WHEEL", "entry_points.txt", "top_level.txt")
_MEND = "Install Strop again: pip install --force-reinstall strop"


def build_sdk_wheel(out: Path) -> Path:
    """The wheel of the Strop that is running, written into the folder `out`.

    From a checkout it is built reproducibly, as ``<version>+<first 8 of the tree digest>``; an
    installed Strop is packed again from its RECORD, after each file's hash is verified.

    Raises:
        BuildError: hatchling is missing, the build fails, or installed files were changed.
    """
    out.mkdir(parents=True, exist_ok=True)
    package = Path(strop.__file__).resolve().parent
    checkout = find_checkout(package)
    if checkout is not None:
        return build_checkout(checkout, out)
    distribution = importlib.metadata.Distribution.discover(
        name="strop", path=[str(package.parent)]
    )
    found = next(iter(distribution), None)
    if found is None:
        raise BuildError(f"the Strop at {package} is neither a checkout nor installed. {_MEND}")
    return pack_installed(found, out)


def find_checkout(package: Path) -> Path | None:
    """The root of the repository that `package` lies in; None when it is installed."""
    root = package.parent.parent
    project = root / "pyproject.toml"
    if package.parent.name != "sdk" or not project.is_file():
        return None
    return root if _project_name(project) == "strop" else None


def _project_name(project: Path) -> object:
    return tomllib.loads(project.read_text(encoding="utf-8")).get("project", {}).get("name")


def build_checkout(root: Path, out: Path) -> Path:
    """The wheel of the checkout at `root`; the same files give the same bytes.

    Raises:
        BuildError: hatchling is missing, or the build fails.
    """
    if importlib.util.find_spec("hatchling") is None:
        raise BuildError(
            f"Strop runs from the checkout {root}, and packing it needs hatchling. "
            "Install it: pip install hatchling"
        )
    members = [
        member
        for member in list_source(root)
        if member.path in _FILES or member.path.startswith(_PARTS)
    ]
    with tempfile.TemporaryDirectory(prefix="strop-sdk-") as scratch:
        tree, raw = Path(scratch) / "tree", Path(scratch) / "raw"
        raw.mkdir()
        copy_source(root, members, tree)
        _stamp_version(tree / "pyproject.toml", tree_digest(tree, members)[:8])
        wheel = build_raw_wheel(tree, raw, isolated=False)
        target = out / wheel.name
        repack(wheel, target)
    return target


def _stamp_version(project: Path, local: str) -> None:
    text = project.read_text(encoding="utf-8")
    stamped, count = _VERSION_LINE.subn(rf'version = "\g<version>+{local}"', text, count=1)
    if not count:
        raise BuildError(f'{project.name} of the checkout has no line `version = "…"`.')
    project.write_text(stamped, encoding="utf-8")


def pack_installed(distribution: importlib.metadata.Distribution, out: Path) -> Path:
    """The wheel that `distribution` was installed from, put together again.

    Raises:
        BuildError: Files were changed or are missing; all are named.
    """
    record = (distribution.read_text("RECORD") or "").encode()
    digests = {path: digest for path, digest in listed_files(record) if _is_of_wheel(path)}
    places = {path: Path(str(distribution.locate_file(path))) for path in digests}
    changed = sorted(
        path
        for path, place in places.items()
        if not digests[path] or listed_digest(place) != digests[path]
    )
    if changed or not places:
        names = ", ".join(changed[:20]) or "its RECORD"
        raise BuildError(f"the installed Strop differs from what was installed: {names}. {_MEND}")
    prefix = f"strop-{distribution.version}"
    tag = re.search(r"^Tag: (\S+)$", distribution.read_text("WHEEL") or "", re.MULTILINE)
    target = out / f"{prefix}-{tag[1] if tag else 'py3-none-any'}.whl"
    write_wheel(list(_entries(places)), target, f"{prefix}.dist-info/RECORD")
    return target


def _is_of_wheel(path: str) -> bool:
    """Whether the wheel held the file; scripts, caches and the installer's notes came later."""
    parts = PurePosixPath(path).parts
    if ".." in parts or "__pycache__" in parts or path.startswith("/"):
        return False
    if not parts[0].endswith(".dist-info"):
        return True
    return parts[1] in (*_INSTALLED_METADATA, "licenses") or parts[1].startswith("LICENSE")


def _entries(places: Mapping[str, Path]) -> Iterator[Entry]:
    for path, place in places.items():
        yield path, os.access(place, os.X_OK), _contents(place)


def _contents(place: Path) -> Iterator[bytes]:
    with place.open("rb") as stream:
        yield from read_chunks(stream)
