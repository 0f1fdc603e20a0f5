"""A PEP 517 backend: hatchling, plus the manifest in every wheel (step: package).

With ``build-backend = "strop.build"`` any build frontend makes a wheel of kind ``strop``. Source
distributions and editable installs are hatchling's own.
"""

import tomllib
from pathlib import Path
from typing import Any

import hatchling.build
from hatchling.build import (
    build_editable,
    build_sdist,
    get_requires_for_build_editable,
    get_requires_for_build_sdist,
)

from strop.hub.building.environment import describe_wheel

__all__ = [
    "build_editable",
    "build_sdist",
    "build_wheel",
    "get_requires_for_build_editable",
    "get_requires_for_build_sdist",
    "get_requires_for_build_wheel",
]


def get_requires_for_build_wheel(config_settings: dict[str, Any] | None = None) -> list[str]:
    """What hatchling needs, and the environment's own dependencies.

    The latter because the package is imported, to describe its settings.
    """
    content = tomllib.loads(Path("pyproject.toml").read_text(encoding="utf-8"))
    dependencies: list[str] = content.get("project", {}).get("dependencies", [])
    needed: list[str] = hatchling.build.get_requires_for_build_wheel(config_settings)
    return [*needed, *dependencies]


def build_wheel(
    wheel_directory: str,
    config_settings: dict[str, Any] | None = None,
    metadata_directory: str | None = None,
) -> str:
    """Build the wheel of the project in the working folder; gives its file name."""
    filename: str = hatchling.build.build_wheel(
        wheel_directory, config_settings, metadata_directory
    )
    describe_wheel(Path(wheel_directory) / filename, Path.cwd())
    return filename
