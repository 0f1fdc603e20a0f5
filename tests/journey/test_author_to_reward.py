"""From an author's folder to a reward on another machine, through a hub; nothing in-process."""

import json
import subprocess
from pathlib import Path

import pytest

from strop.trajectory_file import read_trajectories
from tests.journey.conftest import CommandLine, Pushed, RunningHub

pytestmark = pytest.mark.xdist_group("journey")


def tree_of(folder: Path) -> dict[str, tuple[int, bytes | str]]:
    """Every file with its mode and bytes, links with their target."""
    found: dict[str, tuple[int, bytes | str]] = {}
    for path in sorted(folder.rglob("*")):
        name = path.relative_to(folder).as_posix()
        if path.is_symlink():
            found[name] = (0, str(path.readlink()))
        elif path.is_file():
            found[name] = (path.stat().st_mode & 0o111, path.read_bytes())
    return found


def test_what_init_writes_passes_the_check(author: CommandLine, project: Path) -> None:
    checked = author.run("env", "check", project)
    assert checked.returncode == 0, checked.stdout + checked.stderr


def test_a_push_publishes_and_names_the_digest(pushed: Pushed) -> None:
    assert pushed.answer["outcome"] == "published"
    assert len(pushed.version["digest"]) == 64


def test_the_same_tree_again_is_already_published(author: CommandLine, pushed: Pushed) -> None:
    again = author.ask("env", "push", pushed.folder, "--owner", "ada")
    assert again["outcome"] == "already_published"
    assert again["version"]["digest"] == pushed.version["digest"]


def test_what_was_pushed_is_listed_and_shown(user: CommandLine, pushed: Pushed) -> None:
    listed = user.ask("env", "list")["items"]
    assert ("ada", "coin-env") in {(each["owner"], each["name"]) for each in listed}
    shown = user.ask("env", "info", "ada/coin-env@~=0.1")
    assert pushed.version["digest"] in json.dumps(shown)


def test_the_users_strop_came_from_the_hub(user: CommandLine) -> None:
    shown = user.run("--version")
    assert shown.stdout.startswith("strop 0.1.0+")


def test_rollouts_of_the_installed_environment_leave_trajectories_with_rewards(
    user: CommandLine, pushed: Pushed, tmp_path: Path
) -> None:
    arguments = (
        "ada/coin-env",
        "--model",
        "scripted:oracle",
        "--tasks",
        "8",
        "--out",
        tmp_path / "run",
    )
    report = user.ask("eval", "run", *arguments)
    assert report["scored_count"] == 8
    assert report["mean_reward"] == 1.0
    trajectories = read_trajectories(tmp_path / "run" / "trajectories.jsonl")
    assert [trajectory.reward for trajectory in trajectories] == [1.0] * 8
    identity = trajectories[0].environment
    assert (identity.full_name, identity.state) == ("ada/coin-env", "matches")
    assert identity.digest == pushed.version["digest"]


def test_a_pull_gives_the_exact_tree_back(
    user: CommandLine, pushed: Pushed, tmp_path: Path
) -> None:
    target = tmp_path / "pulled"
    pulled = user.run("env", "pull", "ada/coin-env", target)
    assert pulled.returncode == 0, pulled.stderr
    expected = tree_of(pushed.folder)
    del expected["notes/lost.tmp"]
    assert tree_of(target) == expected


def test_plain_pip_installs_from_the_open_index(
    hub: RunningHub, pushed: Pushed, user: CommandLine, tmp_path: Path
) -> None:
    index = f"{hub.address}/owners/ada/simple/"
    python = user.strop.with_name("python")
    arguments = ["download", "--no-deps", "--index-url", index, "-d", str(tmp_path), "coin-env"]
    finished = subprocess.run([python, "-m", "pip", *arguments], capture_output=True, text=True)
    assert finished.returncode == 0, finished.stderr
    (wheel,) = tmp_path.glob("*.whl")
    assert wheel.name == f"coin_env-{pushed.version['version']}-py3-none-any.whl"
