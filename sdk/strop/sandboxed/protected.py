"""What is never taken from whoever works in a repository, and never shown there (step: author)."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from pathlib import PurePosixPath

from strop.sandbox.archive import read_files
from strop.sandbox.client import Backend

_PROTECTED = re.compile(
    r"(^|/)(\.|tests?/|test_[^/]*$|[^/]*_test\.py$|(conftest|sitecustomize|usercustomize)\.py$)"
    r"|^(run_tests\.py|setup\.\w+|tox\.ini|pytest\.ini|pyproject\.toml)$|\.pth$"
)
_LOOK = """
import importlib.util, os, sys
sys.path = [path for path in sys.path if path]
count = int(sys.argv[1])
found = [path for path in sys.argv[2 : 2 + count] if os.path.exists(path)]
found += filter(importlib.util.find_spec, sys.argv[2 + count :])
print(*found, sep="\\n", end="\\n" if found else "")
"""


def is_protected(path: str) -> bool:
    """Whether a file of a repository decides how its tests run: tests, and what configures them."""
    return _PROTECTED.search(path) is not None


def kept_sources(archive: bytes, known: Mapping[str, str]) -> dict[str, bytes]:
    """The sources as they were left: those that were known, and new modules in their packages.

    Args:
        archive: A snapshot of the repository, by whoever worked on it.
        known: From the paths of its sources to what they were.
    """
    packages = {PurePosixPath(path).parent for path in known if path.endswith("__init__.py")}
    return {
        path: content
        for path, content in read_files(archive).items()
        if not is_protected(path)
        and (path in known or (path.endswith(".py") and PurePosixPath(path).parent in packages))
    }


async def visible_in_sandbox(
    backend: Backend, paths: Sequence[str], modules: Sequence[str]
) -> list[str]:
    """Those of some paths of this machine, and of some modules, that a sandbox can see."""
    argv = ["python3", "-c", _LOOK, str(len(paths)), *paths, *modules]
    looked = await backend.exec(argv)
    return looked.text.split("\n")[:-1] if looked.is_ok else [looked.error_text.strip()[-500:]]
