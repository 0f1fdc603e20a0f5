"""Builds a wheel with the project's own backend, isolated or not (step: package)."""

import os
import shutil
import sys
import tomllib
from collections.abc import Mapping
from pathlib import Path

from strop.errors import BuildError
from strop.hub.building.child import run_child

BUILD_TIMEOUT_S = 900.0
WRAPPER = "strop.build"


def build_raw_wheel(folder: Path, out: Path, *, isolated: bool, links: Path | None = None) -> Path:
    """The wheel of the project in `folder`, as its backend writes it into `out`.

    Args:
        folder: The project.
        out: An empty folder.
        isolated: Whether the backend comes into an environment of its own, from the configured
            index; if not, it must be installed beside Strop.
        links: A folder of wheels in which isolated builds look first.

    Raises:
        BuildError: The backend fails; the message ends with its last lines.
    """
    extra = _variables(links) if isolated else {}
    result = run_child(
        _command(folder, out, isolated), folder=folder, timeout_s=BUILD_TIMEOUT_S, extra=extra
    )
    name = backend_name(folder)
    if result.status is None:
        raise BuildError(f"the backend {name} took more than {BUILD_TIMEOUT_S:.0f} s. Ask it why.")
    if result.status:
        raise BuildError(
            f"the backend {name} could not build the wheel (exit status {result.status}):\n"
            f"{result.output_tail}\n{_advice(isolated, name)}"
        )
    wheels = sorted(out.glob("*.whl"))
    if len(wheels) != 1:
        raise BuildError(f"the backend {name} wrote {len(wheels)} wheels instead of one.")
    return wheels[0]


def backend_name(folder: Path) -> str:
    """The backend that ``pyproject.toml`` names."""
    content = tomllib.loads((folder / "pyproject.toml").read_text(encoding="utf-8"))
    return str(content.get("build-system", {}).get("build-backend", "setuptools.build_meta"))


def _command(folder: Path, out: Path, isolated: bool) -> list[str]:
    if not isolated:
        return [sys.executable, "-P", "-m", "strop.hub.building.hooks", str(out)]
    uv = shutil.which("uv")
    if uv is not None:
        python = ["--python", sys.executable]
        return [uv, "build", "--wheel", *python, "--out-dir", str(out), str(folder)]
    pip = [sys.executable, "-P", "-m", "pip", "--disable-pip-version-check", "--no-input"]
    return [*pip, "wheel", "--no-deps", "--wheel-dir", str(out), str(folder)]


def _variables(links: Path | None) -> Mapping[str, str]:
    if links is None:
        return {}
    names = ("PIP_FIND_LINKS", "UV_FIND_LINKS")
    return {name: " ".join(filter(None, (str(links), os.environ.get(name, "")))) for name in names}


def _advice(isolated: bool, name: str) -> str:
    if isolated:
        return (
            "Correct pyproject.toml. Without a network, install the backend here and build "
            "without isolation."
        )
    package = name.partition(".")[0].partition(":")[0]
    return f"Correct pyproject.toml. If the backend is missing, install it: pip install {package}"
