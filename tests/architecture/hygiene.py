"""Find what belongs to somebody's machine, and modules whose names say nothing.

Run as ``python -m tests.architecture.hygiene``; lists every line that must go.
"""

import re
import sys
from collections.abc import Iterator
from pathlib import Path

from tests.architecture.tree import ROOT, list_files

# Bracketed so that this file does not find itself.
_FORBIDDEN = {
    "a path of somebody's machine": re.compile(
        r"(?<![\w.])/(?:wor[k]/|roo[t]/(?!\.)|Users/\w|hom[e]/\w|opt/(?:pypi|wheels))"
    ),
    "the host of a package index": re.compile(
        r"pypi\.or[g]|pythonhosted\.or[g]|npmjs\.(?:or[g]|co[m])|(?:deb|security)\.debian\.or[g]"
    ),
}
_NAMELESS = {"utils.py", "helpers.py", "common.py", "core.py", "manager.py", "misc.py"}
_LICENCE = Path("LICENSE")


def line_problems(path: Path, text: str) -> Iterator[str]:
    """Every line that holds something forbidden."""
    for number, line in enumerate(text.splitlines(), 1):
        for what, pattern in _FORBIDDEN.items():
            if match := pattern.search(line):
                yield f"{path}:{number}: {what} ({match.group()}). Name no machine."


def main() -> int:
    """Print every problem; 1 when there is one."""
    problems: list[str] = []
    for path in list_files():
        if path.name in _NAMELESS:
            problems.append(f"{path}: this name says nothing. Name the module after what it holds.")
        if path == _LICENCE:
            continue
        try:
            text = (ROOT / path).read_text()
        except UnicodeDecodeError:
            continue
        problems.extend(line_problems(path, text))
    print(*problems, sep="\n", end="\n" if problems else "")
    print(f"Hygiene: {len(problems)} problems")
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
