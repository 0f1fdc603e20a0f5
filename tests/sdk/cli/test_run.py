"""Install, run a model, uninstall: on a machine that only knows the hub."""

import json
import os
import subprocess
from pathlib import Path
from typing import Any

import pytest

from strop.trajectory_file import read_trajectories
from tests.sdk.cli.conftest import Author
from tests.sdk.conftest import MakeTarget
from tests.sdk.published import publish


@pytest.fixture
def target(author: Author, make_target: MakeTarget, tmp_path: Path) -> Path:
    """A virtual environment with the author's environment in it."""
    publish(author.hub, (author.name, author.token), tmp_path)
    folder = make_target()
    installed = author.run("env", "install", f"{author.name}/maze", "--python", folder)
    assert installed.code == 0, installed.stderr
    assert f"Installed {author.name}/maze@0.1.0" in installed.stdout
    return folder


def evaluate(target: Path, *arguments: str | Path) -> tuple[int, Any]:
    program = "import strop.cli; strop.cli.main()"
    command = [target / "bin" / "python", "-c", program, "eval", "run", *arguments, "--json"]
    finished = subprocess.run(command, capture_output=True, text=True, env=os.environ)
    return finished.returncode, json.loads(finished.stdout)


def test_a_run_reports_rewards_and_keeps_trajectories(
    author: Author, target: Path, tmp_path: Path
) -> None:
    out = tmp_path / "run"
    asked = (f"{author.name}/maze@0.1.0", "--set", "size=6", "--group-size", "2", "--out", out)

    code, report = evaluate(target, *asked, "--model", "scripted:oracle")

    assert code == 0
    assert (report["mean_reward"], report["attempt_count"]) == (1.0, 12)
    assert (report["environment"], report["state"]) == (f"{author.name}/maze", "matches")
    kept = read_trajectories(out / "trajectories.jsonl")
    assert len(kept) == 12
    assert kept[0].settings == {"size": 6}
    assert kept[0].environment.digest == report["digest"]
    assert evaluate(target, *asked)[1]["error"]["code"] == "trajectory_file"
    assert evaluate(target, *asked, "--resume")[1]["attempt_count"] == 12


def test_a_policy_that_knows_nothing_earns_nothing(target: Path) -> None:
    assert evaluate(target, "maze", "--model", "empty")[1]["mean_reward"] == 0.0


@pytest.mark.parametrize(
    ("arguments", "code"),
    [
        (["maze", "--set", "depth=1"], "settings"),
        (["maze", "--split", "absent"], "settings"),
        (["maze", "--model", "scripted:odd"], "settings"),
        (["maze", "--model", "gpt"], "config"),
        (["absent"], "environment_load"),
        (["grace/maze"], "environment_load"),
    ],
)
def test_what_cannot_be_run_is_named(arguments: list[str], code: str, target: Path) -> None:
    exit_code, document = evaluate(target, *arguments)

    assert (exit_code, document["error"]["code"]) == (1, code)


def test_installing_again_and_uninstalling_are_told(author: Author, target: Path) -> None:
    again = author.run("env", "install", f"{author.name}/maze", "--python", target)
    removed = author.run("env", "uninstall", "maze", "--python", target)
    gone = author.run("env", "uninstall", "maze", "--python", target, "--json")

    assert "is already installed" in again.stdout
    assert f"Uninstalled {author.name}/maze@0.1.0" in removed.stdout
    assert gone.error["code"] == "install"


def test_an_installer_that_is_not_there_is_named(author: Author, make_target: MakeTarget) -> None:
    refused = author.run(
        "env",
        "uninstall",
        "absent",
        "--python",
        make_target("other"),
        "--with",
        "uv",
        "--json",
        PATH="",
    )
    assert refused.error["code"] == "install"
