"""Control groups are found by making one, and nothing of that stays."""

import os
import subprocess
from pathlib import Path

import pytest

from strop.sandbox import control_groups
from tests.sdk.sandbox.conftest import NOBODY, SYSTEM_PYTHON

SDK = str(Path(__file__).parents[3] / "sdk")
V1 = "30 29 0:26 / {folder}/pids rw - cgroup cgroup rw,pids\n"
V2 = "31 29 0:27 {root} {folder} rw,nosuid - cgroup2 cgroup2 rw,nsdelegate\n"


def _process(folder: Path, mounts: str, groups: str) -> Path:
    (folder / "mountinfo").write_text(f"29 1 0:25 / /tmp rw - tmpfs tmpfs rw\n{mounts}")
    (folder / "cgroup").write_text(groups)
    return folder


def _left_behind() -> list[str]:
    found = subprocess.run(
        ["find", "/sys/fs/cgroup", "-name", f"strop-probe-*-{os.getpid()}-*"],
        capture_output=True,
        text=True,
        check=False,
    )
    return found.stdout.split()


def test_what_is_bounded_was_tried_and_removed() -> None:
    found = control_groups.probe()

    assert set(found.bounds) <= {"memory", "pids", "cpu"}
    assert (
        found.bounds or found.refusals or not list(control_groups.hierarchies(Path("/proc/self")))
    )
    assert str(found)
    assert _left_behind() == []


def test_a_user_without_rights_is_told_the_errno_of_each_attempt() -> None:
    if os.geteuid() != 0:
        pytest.skip("this whole test run has no privileges already")
    code = "from strop.sandbox.control_groups import probe; f = probe(); print(len(f.bounds), f)"
    outcome = subprocess.run(
        [SYSTEM_PYTHON, "-c", code],
        capture_output=True,
        text=True,
        user=NOBODY,
        group=NOBODY,
        extra_groups=[],
        env={"PYTHONPATH": SDK, "PATH": "/usr/bin:/bin"},
        cwd="/",
        check=False,
    )

    assert outcome.returncode == 0, outcome.stderr
    if outcome.stdout.startswith("0 none;"):
        assert "EACCES" in outcome.stdout or "EROFS" in outcome.stdout


def test_ones_own_group_is_found_in_both_versions(tmp_path: Path) -> None:
    (tmp_path / "pids" / "mine").mkdir(parents=True)
    (tmp_path / "user" / "app" / "scope").mkdir(parents=True)
    groups = "8:pids:/mine\n0::/user/app/scope\n"
    mounts = V1.format(folder=tmp_path) + V2.format(root="/", folder=tmp_path)
    first, second = control_groups.hierarchies(_process(tmp_path, mounts, groups))

    assert (first.kind, first.parents) == ("cgroup", [tmp_path / "pids" / "mine"])
    assert second.own == tmp_path / "user" / "app" / "scope"
    assert second.parents == [
        second.own,
        tmp_path / "user" / "app",
        tmp_path / "user",
        tmp_path,
    ]


def test_a_mount_that_shows_only_a_part_is_understood(tmp_path: Path) -> None:
    (tmp_path / "inner").mkdir()
    mounts = V2.format(root="/docker/abc", folder=tmp_path)
    (found,) = control_groups.hierarchies(_process(tmp_path, mounts, "0::/docker/abc/inner\n"))

    assert found.own == tmp_path / "inner"


def test_folders_that_are_no_groups_bound_nothing(tmp_path: Path) -> None:
    assert control_groups._try_in(tmp_path, "cgroup2") == []
    assert list(tmp_path.iterdir()) == []


def test_without_anything_mounted_there_is_none(tmp_path: Path) -> None:
    assert list(control_groups.hierarchies(_process(tmp_path, "", "0::/\n"))) == []
    assert list(control_groups.hierarchies(tmp_path / "gone")) == []
    assert str(control_groups.Found({}, {})) == "none"


def test_the_version_that_bounds_is_named() -> None:
    assert str(control_groups.Found({"pids": "v2", "memory": "v1"}, {})) == "memory (v1), pids (v2)"
