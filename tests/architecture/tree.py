"""The files of the repository: everything that git would not ignore, sorted into code and tests."""

import subprocess
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]

_CODE = ("sdk", "hub_server", "environments", "migrations", "demo")


def list_files() -> list[Path]:
    """Every file of the working tree that git would not ignore, relative to the root."""
    listing = subprocess.run(
        ["git", "ls-files", "-co", "--exclude-standard", "-z"],
        cwd=ROOT,
        check=True,
        capture_output=True,
    ).stdout.decode()
    paths = {Path(name) for name in listing.split("\0") if name}
    return sorted(path for path in paths if (ROOT / path).is_file())


def list_modules() -> Iterator[tuple[Path, bool]]:
    """Every Python module, with whether it is a test; data and what is copied is neither."""
    for path in list_files():
        if path.suffix == ".py" and not {"template", "data"} & set(path.parts):
            is_test = "tests" in path.parts
            if is_test or path.parts[0] in _CODE:
                yield path, is_test
