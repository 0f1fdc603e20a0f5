"""CPU time until the SDK is imported, and until the command line has printed its help.

Run as ``python -m tests.benchmarks.startup [--json]``.
"""

import json
import resource
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

ROUNDS = 7

_BARE = [sys.executable, "-c", "pass"]
_IMPORT = [sys.executable, "-c", "from strop import Environment, Task, TaskSet, reward"]
_HELP = [str(Path(sys.executable).with_name("strop")), "--help"]


def cpu_s(command: Sequence[str]) -> float:
    """CPU seconds, user and system, of one run of a command that must succeed."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime - before.ru_utime + after.ru_stime - before.ru_stime


def measure(round_count: int = ROUNDS) -> dict[str, float]:
    """The least of several interleaved rounds; the first one fills the byte-code caches."""
    commands = {"bare": _BARE, "import": _IMPORT, "help": _HELP}
    rounds = [
        {name: cpu_s(command) for name, command in commands.items()} for _ in range(round_count + 1)
    ]
    least = {name: min(each[name] for each in rounds[1:]) for name in commands}
    return {
        "import_cpu_s": round(least["import"] - least["bare"], 4),
        "help_cpu_s": round(least["help"], 4),
        "bare_cpu_s": round(least["bare"], 4),
    }


def main(arguments: Sequence[str]) -> None:
    """Print what was measured."""
    result = measure()
    print(f"bare Python                         {result['bare_cpu_s']:.3f} s CPU")
    print(f"from strop import …, above bare     {result['import_cpu_s']:.3f} s CPU, aim 0.25")
    print(f"strop --help                        {result['help_cpu_s']:.3f} s CPU, aim 0.40")
    if "--json" in arguments:
        print(json.dumps(result))


if __name__ == "__main__":
    main(sys.argv[1:])
