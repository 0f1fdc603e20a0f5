"""`make demo`: the whole journey with one command, as often as one likes."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from demo.folder import STATE, demo_folder
from demo.hub import STROP
from strop import read_trajectories
from strop.hub.manifest import read_project
from tests.architecture.tree import ROOT

pytestmark = pytest.mark.xdist_group("journey")

DEMO = [sys.executable, "-m", "demo.run"]


def hubs_of(folder: Path) -> list[str]:
    """Command lines of running hubs that serve a folder."""
    found = []
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            words = path.read_bytes().decode(errors="replace").split("\0")
        except OSError:
            continue
        if {str(STROP), "serve"} <= set(words) and any(
            word.startswith(str(folder)) for word in words
        ):
            found.append(" ".join(words))
    return found


def test_the_demo_runs_64_rollouts_and_can_be_repeated() -> None:
    for _ in range(2):
        finished = subprocess.run(DEMO, cwd=ROOT, capture_output=True, text=True)
        assert finished.returncode == 0, finished.stdout + finished.stderr
        (line,) = [
            each for each in finished.stdout.splitlines() if each.startswith("Trajectories:")
        ]
        trajectories = read_trajectories(ROOT / line.split()[-1])
        assert len(trajectories) == 64
        assert not [each for each in trajectories if each.failure is not None]
    assert "already published" in finished.stdout
    assert not hubs_of(demo_folder())


def test_a_terminated_demo_leaves_no_hub_behind() -> None:
    demo = subprocess.Popen(DEMO, cwd=ROOT, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    deadline = time.monotonic() + 120
    while not hubs_of(STATE) and demo.poll() is None and time.monotonic() < deadline:
        time.sleep(0.05)
    os.kill(demo.pid, signal.SIGTERM)
    demo.wait(120)
    assert not hubs_of(demo_folder())


@pytest.mark.slow
@pytest.mark.timeout(1800)
def test_the_demo_plays_with_a_real_model_on_this_machine() -> None:
    finished = subprocess.run([*DEMO, "smollm2"], cwd=ROOT, capture_output=True, text=True)

    assert finished.returncode == 0, finished.stdout + finished.stderr
    (line,) = [each for each in finished.stdout.splitlines() if each.startswith("Trajectories:")]
    trajectories = read_trajectories(ROOT / line.split()[-1])
    assert len(trajectories) == 64
    assert trajectories[0].settings["level"] == 0
    rewards = [trajectory.reward for trajectory in trajectories]
    assert 0 < rewards.count(1.0) < 64
    print(f"{rewards.count(1.0)} of 64 rollouts of SmolLM2 are right")
    for trajectory in trajectories:
        assert trajectory.failure is None
        assert trajectory.segments[-1].model == "smollm2"
        assert len(trajectory.to_samples()) == 1


@pytest.mark.slow
@pytest.mark.timeout(3600)
def test_every_environment_is_installed_by_name_and_version_into_a_home_of_its_own() -> None:
    command = [sys.executable, "-m", "demo.every"]
    finished = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)

    print(finished.stdout)
    assert finished.returncode == 0, finished.stdout + finished.stderr
    (line,) = [each for each in finished.stdout.splitlines() if each.startswith("Trajectories:")]
    projects = [path.parent for path in (ROOT / "environments").glob("*/pyproject.toml")]
    played = {path.parent.name: path for path in (ROOT / line.split()[-1]).glob("*/*.jsonl")}
    assert set(played) == {read_project(project).name for project in projects}
    for name, path in played.items():
        assert (demo_folder() / "homes" / name / "bin" / "strop").exists()
        trajectories = read_trajectories(path)
        assert len(trajectories) == 8
        assert not [each for each in trajectories if each.failure is not None]
        assert any(each.reward == 1 for each in trajectories)
    assert not hubs_of(demo_folder())


def test_the_demo_stops_and_says_why_where_a_model_is_unknown() -> None:
    before = hubs_of(demo_folder())
    finished = subprocess.run([*DEMO, "gpt-9"], cwd=ROOT, capture_output=True, text=True)

    assert finished.returncode == 1
    assert "The demo stopped: `strop model serve gpt-9` failed" in finished.stderr
    assert set(hubs_of(demo_folder())) <= set(before)
