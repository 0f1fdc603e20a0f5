"""Run once more, alone, the few tests that failed among all others, and name them.

Run as ``python -m tests.architecture.unsteady STATUS junit.xml`` after a run of pytest that ended
with STATUS and kept its cache.
"""

import json
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest

from tests.architecture.tree import ROOT

MOST = 3
"""More failures than these are not the machine's mood: nothing is run again."""


def read_failed(root: Path) -> list[str]:
    """The tests of a checkout that failed when they were last run."""
    cache = root / ".pytest_cache" / "v" / "cache" / "lastfailed"
    return sorted(json.loads(cache.read_text())) if cache.exists() else []


def run_again(failed: Sequence[str], root: Path, report: Path) -> bool:
    """Whether every one of them passes, one after the other in one process."""
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", *failed]
    return subprocess.run([*command, f"--junitxml={report}"], cwd=root).returncode == 0


def main(status: int, report: Path, root: Path = ROOT) -> int:
    """Say what was unsteady; 1 when one fails again, too many did, or the run was cut short."""
    failed = read_failed(root)
    if status != pytest.ExitCode.TESTS_FAILED or not 0 < len(failed) <= MOST:
        return 1
    print(f"Running again, alone: {len(failed)} that failed", flush=True)
    if not run_again(failed, root, report):
        return 1
    print(f"Unsteady tests: {len(failed)}. Each failed above and passed alone: find its cause.")
    for test in failed:
        print(f"  {test}")
    return 0


if __name__ == "__main__":
    sys.exit(main(int(sys.argv[1]), Path(sys.argv[2])))
