"""Runs a project's build backend in this interpreter, as a child process (step: package).

``python -m strop.hub.building.hooks OUT`` in the project's folder. Source: PEP 517.
"""

import importlib
import sys
import tomllib
from pathlib import Path
from typing import Any

_DEFAULT = {"build-backend": "setuptools.build_meta:__legacy__"}


def load_backend(folder: Path) -> Any:
    """The object whose hooks build the project in `folder`."""
    content = tomllib.loads((folder / "pyproject.toml").read_text(encoding="utf-8"))
    system = _DEFAULT | content.get("build-system", {})
    for path in reversed(system.get("backend-path", [])):
        sys.path.insert(0, str(folder / path))
    module, _, attributes = str(system["build-backend"]).partition(":")
    backend: Any = importlib.import_module(module)
    for attribute in filter(None, attributes.split(".")):
        backend = getattr(backend, attribute)
    return backend


def main(out: str) -> None:
    """Build the wheel of the project in the working folder into `out`."""
    load_backend(Path.cwd()).build_wheel(out)


if __name__ == "__main__":
    main(sys.argv[1])
