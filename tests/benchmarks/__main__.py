"""Run every benchmark of this folder, one after the other: ``python -m tests.benchmarks``."""

import subprocess
import sys
from pathlib import Path


def list_benchmarks() -> list[str]:
    """Names of the modules that measure something."""
    modules = Path(__file__).parent.glob("[a-z]*.py")
    return sorted(path.stem for path in modules if "__main__" in path.read_text())


def main() -> int:
    """Run them; 1 when one failed."""
    failed = []
    for name in list_benchmarks():
        print(f"== {name}", flush=True)
        command = [sys.executable, "-m", f"tests.benchmarks.{name}", "--json"]
        if subprocess.run(command).returncode:
            failed.append(name)
    if failed:
        print(f"Failed: {', '.join(failed)}")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
