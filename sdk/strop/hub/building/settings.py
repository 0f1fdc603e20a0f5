"""Asks a child process which settings an environment takes (step: package).

Author code is imported there and nowhere else on the way to the hub.
"""

import json
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from strop.errors import BuildError, ManifestError
from strop.hub.building.child import run_child
from strop.hub.manifest import read_project

IMPORT_TIMEOUT_S = 60.0


def settings_schema(folder: Path, *, timeout_s: float = IMPORT_TIMEOUT_S) -> dict[str, Any]:
    """The JSON schema of the settings of the project in `folder`, whose package is imported.

    Raises:
        ManifestError: The project or a setting is wrong; every problem is named.
        BuildError: The package cannot be imported, or not in time.
    """
    entry_point = read_project(folder).entry_point or ""
    folder = folder.resolve()
    return schema_of([folder / "src", folder], entry_point, timeout_s=timeout_s)


def schema_of(
    paths: Sequence[Path], entry_point: str, *, timeout_s: float = IMPORT_TIMEOUT_S
) -> dict[str, Any]:
    """The JSON schema of `entry_point`'s parameters, with `paths` before the installed packages.

    Raises:
        ManifestError: A parameter is no setting; all are named.
        BuildError: The module cannot be imported, or not in time.
    """
    with tempfile.TemporaryDirectory(prefix="strop-settings-") as scratch:
        answer = Path(scratch) / "answer.json"
        module = "strop.hub.building.settings_child"
        result = run_child(
            [sys.executable, "-P", "-m", module, entry_point, answer, *paths],
            folder=Path(scratch),
            timeout_s=timeout_s,
            extra={},
        )
        if result.status is None:
            raise BuildError(
                f"importing {entry_point} took more than {timeout_s:g} s. An import starts "
                f"nothing: move downloads and threads into `load_environment`.\n"
                f"{result.output_tail}"
            )
        if result.status or not answer.exists():
            raise BuildError(
                f"{entry_point} cannot be imported (exit status {result.status}):\n"
                f"{result.output_tail}\n"
                "Its dependencies must be installed beside Strop: pip install -e FOLDER"
            )
        content = json.loads(answer.read_text(encoding="utf-8"))
    if content["problems"]:
        raise ManifestError(f"the settings of {entry_point}", content["problems"])
    schema: dict[str, Any] = content["schema"]
    return schema
