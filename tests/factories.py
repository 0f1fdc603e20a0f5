"""Wheels and sources with sensible contents; a test names only what it is about."""

import base64
import gzip
import hashlib
import io
import json
import tarfile
import zipfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from strop.hub.source import read_source_archive

EPOCH = (2020, 1, 1, 0, 0, 0)


def a_manifest(name: str = "maze", version: str = "0.1.0", **fields: Any) -> dict[str, Any]:
    """A valid manifest; ``reward_range=…`` sets the key ``reward-range``."""
    document: dict[str, Any] = {
        "name": name,
        "version": version,
        "summary": "Find the exit of a hidden grid.",
        "category": "logic",
        "tags": ["multi-turn"],
        "reward-range": [0, 1],
        "deterministic": True,
        "sandbox": "none",
        "entry-point": f"{name.replace('-', '_')}:load_environment",
    }
    return document | {key.replace("_", "-"): value for key, value in fields.items()}


def a_wheel(
    folder: Path,
    *,
    name: str = "maze",
    version: str = "0.1.0",
    files: Mapping[str, str] | None = None,
    manifest: Mapping[str, Any] | None = None,
    readme: str = "# Maze\n",
    is_foreign: bool = False,
) -> Path:
    """A wheel with a `strop.json`, or a foreign one without.

    `manifest` overrides single keys; METADATA and entry points follow it.
    """
    document = a_manifest(name, version) | dict(manifest or {})
    module = name.replace("-", "_").replace(".", "_").lower()
    contents = dict(files or {f"{module}.py": "def load_environment(): ...\n"})
    prefix = f"{module}-{version}.dist-info"
    contents[f"{prefix}/METADATA"] = _metadata(document, readme)
    contents[f"{prefix}/WHEEL"] = (
        "Wheel-Version: 1.0\nGenerator: tests\nRoot-Is-Purelib: true\nTag: py3-none-any\n"
    )
    if not is_foreign:
        contents[f"{prefix}/entry_points.txt"] = (
            f"[strop.environments]\n{document['name']} = {document['entry-point']}\n"
        )
        contents[f"{prefix}/strop.json"] = json.dumps(
            {
                "schema_version": 1,
                "manifest": document,
                "settings_schema": {"type": "object", "properties": {"size": {"type": "integer"}}},
            }
        )
    contents[f"{prefix}/RECORD"] = _record(contents, prefix)
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"{module}-{version}-py3-none-any.whl"
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for member, text in contents.items():
            archive.writestr(zipfile.ZipInfo(member, EPOCH), text)
    return path


def a_source(folder: Path, files: Mapping[str, str] | None = None) -> Path:
    """A source archive of plain files, as `strop env push` packs it."""
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / "source.tar.gz"
    with (
        path.open("wb") as raw,
        gzip.GzipFile("", "wb", fileobj=raw, mtime=0) as packed,
        tarfile.open(fileobj=packed, mode="w", format=tarfile.PAX_FORMAT) as archive,
    ):
        for member, text in sorted((files or {"pyproject.toml": "[project]\n"}).items()):
            content = text.encode()
            entry = tarfile.TarInfo(member)
            entry.size, entry.mode = len(content), 0o644
            archive.addfile(entry, io.BytesIO(content))
    return path


def a_sdist(
    folder: Path,
    *,
    name: str = "maze",
    version: str = "0.1.0",
    requires_python: str | None = None,
    files: Mapping[str, str] | None = None,
) -> Path:
    """A PEP 517 source distribution with a PKG-INFO and some files."""
    document = a_manifest(name, version, requires_python=requires_python)
    stem = f"{name.replace('-', '_')}-{version}"
    contents = {"PKG-INFO": _metadata(document, "# Maze\n"), **(files or {"pyproject.toml": ""})}
    source = a_source(folder / "parts", {f"{stem}/{path}": text for path, text in contents.items()})
    return source.rename(folder / f"{stem}.tar.gz")


@dataclass(frozen=True)
class AnUpload:
    """The files of one push, and the form that carries them."""

    wheel: Path
    source: Path | None
    fields: dict[str, str] = field(default_factory=dict)

    @property
    def stored_bytes(self) -> int:
        """What it takes of its owner's quota: the files, and METADATA and README beside them."""
        with zipfile.ZipFile(self.wheel) as archive:
            (member,) = [one for one in archive.namelist() if one.endswith(".dist-info/METADATA")]
            metadata = archive.read(member)
        readme = metadata.partition(b"\n\n")[2]
        files = [self.wheel] if self.source is None else [self.wheel, self.source]
        return sum(path.stat().st_size for path in files) + len(metadata) + len(readme)

    def form(self, **fields: str) -> dict[str, Any]:
        """Arguments for `httpx` that send the upload."""
        files = {"wheel": (self.wheel.name, self.wheel.read_bytes())}
        if self.source is not None:
            files["source"] = (self.source.name, self.source.read_bytes())
        return {"files": files, "data": self.fields | fields}


def an_upload(folder: Path, *, tree: Mapping[str, str] | None = None, **wheel: Any) -> AnUpload:
    """A wheel with its source, whose tree follows from the wheel's name when none is given."""
    path = a_wheel(folder, **wheel)
    if wheel.get("is_foreign"):
        return AnUpload(path, None, {"wheel_sha256": sha256_of(path)})
    source = a_source(folder / path.stem, tree or {"pyproject.toml": path.name})
    fields = {
        "wheel_sha256": sha256_of(path),
        "source_sha256": sha256_of(source),
        "tree_digest": read_source_archive(source).tree_digest,
    }
    return AnUpload(path, source, fields)


def sha256_of(path: Path) -> str:
    """Hex digest of a file."""
    return hashlib.sha256(path.read_bytes()).hexdigest()


def _metadata(document: Mapping[str, Any], readme: str) -> str:
    lines = [
        "Metadata-Version: 2.1",
        f"Name: {document['name']}",
        f"Version: {document['version']}",
        f"Summary: {document['summary']}",
    ]
    if document.get("requires-python"):
        lines.append(f"Requires-Python: {document['requires-python']}")
    dependencies: Sequence[str] = document.get("dependencies", [])
    lines += [f"Requires-Dist: {dependency}" for dependency in dependencies]
    lines.append("Description-Content-Type: text/markdown")
    return "\n".join(lines) + "\n\n" + readme


def _record(contents: Mapping[str, str], prefix: str) -> str:
    lines = []
    for member, text in contents.items():
        digest = base64.urlsafe_b64encode(hashlib.sha256(text.encode()).digest()).rstrip(b"=")
        lines.append(f"{member},sha256={digest.decode()},{len(text.encode())}")
    return "\n".join([*lines, f"{prefix}/RECORD,,"]) + "\n"
