"""Every environment of this repository: pushed, installed into a home of its own, and played."""

import sys
import time
from collections.abc import Sequence
from pathlib import Path

from demo.folder import ROOT
from demo.run import (
    OWNER,
    DemoError,
    ask_strop,
    make_environment,
    push_environments,
    run_strop,
    say,
    show,
)
from strop import read_trajectories
from strop.hub.manifest import read_project

TASK_COUNT, GROUP_SIZE = 4, 2


def play(folder: Path, address: str, model: Sequence[str]) -> Path:
    """Push them all, then resolve, install and play each by name and version.

    Raises:
        DemoError: An attempt failed.
    """
    projects = sorted(path.parent for path in (ROOT / "environments").glob("*/pyproject.toml"))
    say(f"Push the {len(projects)} environments of this repository to {address}")
    push_environments([project.name for project in projects])
    out = folder / "runs" / time.strftime("%Y%m%d-%H%M%S")
    for project in projects:
        manifest = read_project(project)
        _play_one(f"{OWNER}/{manifest.name}@{manifest.version}", folder, out / manifest.name, model)
    return out


def _play_one(reference: str, folder: Path, out: Path, model: Sequence[str]) -> None:
    version = ask_strop("env", "info", reference)
    say(f"{reference}, sha256 {version['digest'][:12]}…, in a virtual environment of its own")
    python = make_environment(folder / "homes" / version["name"])
    run_strop("env", "install", reference, "--python", python)
    counts = ["--tasks", str(TASK_COUNT), "--group-size", str(GROUP_SIZE)]
    command: list[str | Path] = ["eval", "run", reference, *model, *counts]
    run_strop(*command, "--out", out, strop=python.with_name("strop"))
    trajectories = read_trajectories(out / "trajectories.jsonl")
    failures = [each.failure.message for each in trajectories if each.failure is not None]
    if failures or len(trajectories) != TASK_COUNT * GROUP_SIZE:
        raise DemoError(f"{len(failures)} of {len(trajectories)} attempts failed: {failures[:1]}")
    rewards = " ".join(f"{each.reward:g}" for each in trajectories)
    print(f"  {len(trajectories)} rollouts, rewards {rewards}")


def main(local_model: str | None = None) -> int:
    """Run it; 0 when every environment was installed and no attempt failed.

    Args:
        local_model: One that `strop model serve` knows.
    """
    return show(local_model, play)


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:2]))
