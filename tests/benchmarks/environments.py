"""CPU time of a rollout by environment: ``python -m tests.benchmarks.environments [--json]``.

Each environment of this repository plays 1,000 tasks at concurrency 64 with scripted policies:
always right, hardly ever, and in seven of ten attempts.
"""

import argparse
import asyncio
import importlib
import json
import sys

from tests.environments.conftest import FOLDER
from tests.environments.test_thousand_rollouts import POLICIES, cpu_s, play

ROLLOUT_COUNT = 1_000


def measure(name: str) -> dict[str, float]:
    """CPU milliseconds a rollout by policy, children included; a failed attempt ends it."""
    module = importlib.import_module(name)
    used: dict[str, float] = {}
    for policy in POLICIES:
        before = cpu_s()
        trajectories = asyncio.run(play(module.load_environment(), policy, ROLLOUT_COUNT))
        if any(each.failure for each in trajectories):
            raise SystemExit(f"{name}: an attempt failed")
        used[f"{name}_{policy}_cpu_ms"] = round((cpu_s() - before) / ROLLOUT_COUNT * 1_000, 3)
    return used


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--json", action="store_true")
    parser.add_argument("names", nargs="*", help="folders; else all")
    arguments = parser.parse_args()
    folders = sorted(path.parent for path in FOLDER.glob("*/pyproject.toml"))
    sys.path[:0] = [str(folder) for folder in folders]
    result: dict[str, float] = {}
    for name in arguments.names or [folder.name for folder in folders]:
        result |= (used := measure(name))
        for row, value in used.items():
            print(f"  {row:40} {value:9.3f}", flush=True)
    if arguments.json:
        print(json.dumps(result))


if __name__ == "__main__":
    main()
