"""Fail when the branch coverage of a folder is below its floor.

Run as ``python -m tests.architecture.coverage_floors coverage.json``.
"""

import json
import sys
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from tests.architecture.tree import ROOT

FLOORS = Path(__file__).with_name("coverage_floors.toml")


def read_floors() -> dict[str, float]:
    """The least percentage by folder."""
    floors: dict[str, float] = tomllib.loads(FLOORS.read_text())["floors"]
    return floors


def folder_coverage(files: Mapping[str, Any], folder: str) -> tuple[float, float]:
    """Percent of a folder's branches and of its lines that ran; 0 when nothing was measured."""
    counts = {"covered_branches": 0, "num_branches": 0, "covered_lines": 0, "num_statements": 0}
    for name, record in files.items():
        if _relative(name).startswith(folder):
            for key in counts:
                counts[key] += record["summary"][key]
    return (
        100 * counts["covered_branches"] / max(counts["num_branches"], 1),
        100 * counts["covered_lines"] / max(counts["num_statements"], 1),
    )


def _relative(name: str) -> str:
    path = Path(name)
    # A copy that a test installed elsewhere is none of ours.
    return path.relative_to(ROOT).as_posix() if path.is_relative_to(ROOT) else path.as_posix()


def main(report: Path) -> int:
    """Print each folder beside its floor; 1 when one is below."""
    files = json.loads(report.read_text())["files"]
    is_low = False
    for folder, floor in read_floors().items():
        branches, lines = folder_coverage(files, folder)
        verdict = "" if branches >= floor else "  BELOW ITS FLOOR: test what does not run yet"
        is_low |= branches < floor
        print(f"{folder}: branches {branches:.1f} % (floor {floor}), lines {lines:.1f} %{verdict}")
    return 1 if is_low else 0


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1])))
