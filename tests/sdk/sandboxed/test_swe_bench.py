"""Rows of SWE-bench are checked; repairs are judged by tests that nobody saw who made them.

The repository lies in a folder of this machine here, where containers have it in their image.
"""

import json
import subprocess
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from strop import Environment, ScriptedModel, Task, Trajectory, reward
from strop.errors import RowError, SettingsError
from strop.models.scripted import call
from strop.rows import Rows, read_tasks
from strop.sandbox import Backend, Profile
from strop.sandboxed import SandboxEnvironment, sandbox_tools
from strop.sandboxed.package import package_spec
from strop.sandboxed.swe_bench import (
    COLUMNS,
    SPEC,
    InstanceEnvironment,
    InstanceEpisode,
    read_instance,
    read_log,
    resolving_command,
    run_tests,
)
from strop.tools import Tool

BROKEN = "def grade(points):\n    return 'a' if points > 90 else 'b'\n"
MENDED = BROKEN.replace("> 90", ">= 90")
SEEN = "from marks import grade\n\n\ndef test_low():\n    assert grade(1) == 'b'\n"
HIDDEN = f"{SEEN}\n\ndef test_edge():\n    assert grade(90) == 'a'\n"
CASES = """import unittest
import marks


class T(unittest.TestCase):
    def test_low(self):
        self.assertEqual(marks.grade(1), "b")

    def test_told(self):
        "Whoever has 90 has an a."
        self.assertEqual(marks.grade(90), "a")
"""
PYTEST = "python3 -m pytest --no-header -rA --tb=no -p no:cacheprovider {files}"
UNITTEST = "cd tests && PYTHONPATH=.. python3 -m unittest -v {modules}"
TESTS = "tests/test_marks.py"


def git(folder: Path, *arguments: str) -> str:
    identity = ["-c", "user.name=a", "-c", "user.email=a@localhost", "-c", "commit.gpgsign=false"]
    command = ["git", *identity, *arguments]
    return subprocess.run(command, cwd=folder, check=True, capture_output=True, text=True).stdout


@pytest.fixture
def testbed(tmp_path: Path) -> Path:
    """A repository as an image has it."""
    folder = tmp_path / "testbed"
    (folder / "tests").mkdir(parents=True)
    (folder / "marks.py").write_text(BROKEN)
    (folder / TESTS).write_text(SEEN)
    git(folder, "init", "-q")
    git(folder, "add", ".")
    git(folder, "commit", "-q", "-m", "base")
    folder.chmod(0o755)
    return folder


def change(testbed: Path, path: str, text: str) -> str:
    """A change of a file, as a row has it; the repository stays as it was."""
    before = (testbed / path).read_text() if (testbed / path).exists() else None
    (testbed / path).write_text(text)
    git(testbed, "add", "--intent-to-add", ".")
    made = git(testbed, "diff")
    if before is None:
        git(testbed, "rm", "-q", "-f", "--cached", path)
        (testbed / path).unlink()
    else:
        (testbed / path).write_text(before)
    return made


def row_of(testbed: Path, **changed: Any) -> dict[str, Any]:
    return {
        "instance_id": "a__marks-1",
        "repo": "a/marks",
        "base_commit": git(testbed, "rev-parse", "HEAD").strip(),
        "problem_statement": "Whoever has 90 points should have an a.",
        "patch": change(testbed, "marks.py", MENDED),
        "test_patch": change(testbed, TESTS, HIDDEN),
        "FAIL_TO_PASS": [f"{TESTS}::test_edge"],
        "PASS_TO_PASS": json.dumps([f"{TESTS}::test_low"]),
        "image": "some/image:1",
        "test_command": PYTEST,
        **changed,
    }


def task_of(row: dict[str, Any]) -> Task:
    [task] = read_tasks([Rows("eval", "r", "r.json", lambda: [row])], read_instance)
    return task


def on_this_machine(task: Task) -> Task:
    """The same, where its repository is in no image."""
    reference: Any = task.reference
    return Task(task.key, task.prompt, {**reference, "image": None}, task.metadata)


@reward(inline=True)
def solved(trajectory: Trajectory) -> float:
    """Whether every test passes."""
    return float(trajectory.outcome["solved"] is True)


def environment_of(backend: Backend, testbed: Path, tasks: list[Task]) -> Environment:
    runner = package_spec()
    env = {**SPEC.env, "PYTHONPATH": f"{SPEC.env['PYTHONPATH']}:{runner.env['PYTHONPATH']}"}
    spec = replace(
        SPEC,
        limits=runner.limits,
        profile=Profile(mounts=(str(testbed), *runner.profile.mounts)),
        env=env,
    )
    return SandboxEnvironment(
        tasks=tasks,
        rewards=[solved],
        episode=type("Here", (InstanceEpisode,), {"testbed": str(testbed)}),
        tools=[*sandbox_tools("bash", "write_file"), Tool("run_tests", run_tests)],
        max_turns=9,
        spec=spec,
        backend=backend,
    )


async def play(backend: Backend, testbed: Path, row: dict[str, Any], *replies: Any) -> Trajectory:
    task = on_this_machine(task_of(row))
    environment = environment_of(backend, testbed, [task])
    async with environment:
        script = ScriptedModel.replies([*replies, "Ready."])
        return await environment.rollout(task, script)


def bash(commands: str) -> Any:
    return call("bash", commands=commands)


MEND = bash("sed -i 's/> 90/>= 90/' marks.py")


async def test_what_resolved_the_issue_earns_the_most_and_nothing_nothing(
    backend: Backend, testbed: Path
) -> None:
    row = row_of(testbed)
    good = await play(backend, testbed, row, bash(resolving_command(task_of(row))))
    assert (good.failure, good.reward) == (None, 1.0), good.outcome
    assert (good.outcome["repaired"], good.outcome["failing_kept"]) == (1.0, 0)
    assert (await play(backend, testbed, row, MEND)).reward == 1.0
    bad = await play(backend, testbed, row)
    assert (bad.failure, bad.reward, bad.outcome["failing_fixed"]) == (None, 0.0, 1)


async def test_a_repair_that_breaks_what_passed_is_none(backend: Backend, testbed: Path) -> None:
    write = call("write_file", path="marks.py", content="def grade(points):\n    return 'a'\n")
    trajectory = await play(backend, testbed, row_of(testbed), write)
    assert (trajectory.failure, trajectory.reward) == (None, 0.0)
    assert (trajectory.outcome["repaired"], trajectory.outcome["failing_kept"]) == (1.0, 1)


async def test_tests_of_unittest_are_read_by_name_and_by_what_they_say(
    backend: Backend, testbed: Path
) -> None:
    row = row_of(
        testbed,
        test_patch=change(testbed, TESTS, CASES),
        test_command=UNITTEST,
        FAIL_TO_PASS=["Whoever has 90 has an a."],
        PASS_TO_PASS=["test_low (test_marks.T.test_low)"],
    )
    assert (await play(backend, testbed, row, MEND)).reward == 1.0
    assert (await play(backend, testbed, row)).reward == 0.0


CHEATS = {
    "edits the tests": "echo 'def test_edge(): pass\ndef test_low(): pass' > tests/test_marks.py",
    "deletes the tests": "rm -r tests",
    "plants a conftest": (
        'echo \'import os, sys; print("PASSED tests/test_marks.py::test_edge");'
        'print("PASSED tests/test_marks.py::test_low"); sys.stdout.flush(); os._exit(0)\''
        " | tee conftest.py tests/conftest.py sitecustomize.py usercustomize.py > pytest.py"
        "; rm pytest.py"
    ),
    "configures pytest": "printf '[pytest]\naddopts = --collect-only -q\n' > pytest.ini",
    "adds tests of the same name": (
        "mkdir -p tests/test_marks; echo 'def test_edge(): pass' > tests/test_edge.py"
    ),
    "changes the repository": (
        "git config user.name x; git config user.email x@x; git commit -q -a -m x --allow-empty; "
        "git update-ref refs/heads/other HEAD; printf '* filter=x\n' > .gitattributes; "
        "git config filter.x.clean 'echo x'"
    ),
}


DAILY = ("edits the tests", "plants a conftest", "configures pytest")


@pytest.mark.parametrize(
    "name", [pytest.param(n, marks=() if n in DAILY else pytest.mark.slow) for n in CHEATS]
)
async def test_a_policy_gains_nothing_when_it(backend: Backend, testbed: Path, name: str) -> None:
    trajectory = await play(backend, testbed, row_of(testbed), bash(CHEATS[name]))
    assert (trajectory.failure, trajectory.reward) == (None, 0.0)


async def test_what_is_done_to_the_tests_harms_no_repair_either(
    backend: Backend, testbed: Path
) -> None:
    done = map(bash, [CHEATS[name] for name in DAILY if name != "plants a conftest"])
    trajectory = await play(backend, testbed, row_of(testbed), *done, MEND)
    assert (trajectory.failure, trajectory.reward) == (None, 1.0)


@pytest.mark.parametrize("command", ["rm -rf .git", "cd /; rm -rf /box/work", "chmod 0 /box/work"])
async def test_whoever_spoils_the_repository_has_resolved_nothing(
    backend: Backend, testbed: Path, command: str
) -> None:
    trajectory = await play(backend, testbed, row_of(testbed), MEND, bash(command))
    assert (trajectory.failure, trajectory.reward) == (None, 0.0)
    assert trajectory.outcome["spoiled"]


async def test_hidden_tests_and_the_solution_are_nowhere_in_the_sandbox(
    backend: Backend, testbed: Path
) -> None:
    look = bash("cat *.py tests/*; git log -p --all; env; cat /proc/*/environ /proc/*/cmdline")
    trajectory = await play(backend, testbed, row_of(testbed), look)
    said = "".join(message.text for part in trajectory.segments for message in part.messages)
    assert "def test_low" in said
    assert "test_edge" not in said
    assert ">= 90" not in said


async def test_the_model_runs_tests_with_the_repositorys_own_command(
    backend: Backend, testbed: Path
) -> None:
    trajectory = await play(backend, testbed, row_of(testbed), call("run_tests", files=[TESTS]))
    assert f"PASSED {TESTS}::test_low" in trajectory.messages()[-2].text


async def test_a_row_that_does_not_fit_its_image_is_a_failure_and_no_reward(
    backend: Backend, testbed: Path
) -> None:
    row = row_of(testbed)
    other = row | {"test_patch": row["test_patch"].replace("grade(1)", "grade(2)")}
    trajectory = await play(backend, testbed, other, MEND)
    assert trajectory.reward is None
    assert trajectory.failure is not None
    assert trajectory.failure.boundary == "sandbox"
    assert "test_patch of a__marks-1 does not apply" in trajectory.failure.message
    nowhere = await play(backend, testbed / "no", row, MEND)
    assert nowhere.failure is not None
    assert "has no repository in" in nowhere.failure.message


def test_a_row_becomes_a_task_that_tells_no_solution(testbed: Path) -> None:
    row = row_of(testbed)
    task = task_of(row)
    assert (task.key, task.prompt[0].text) == ("a__marks-1", row["problem_statement"])
    assert task.metadata == {"repository": "a/marks", "image": "some/image:1"}
    reference: Any = task.reference
    assert reference["fail_to_pass"] == [f"{TESTS}::test_edge"]
    assert reference["pass_to_pass"] == [f"{TESTS}::test_low"]


@pytest.mark.parametrize(
    ("repository", "name", "image", "command"),
    [
        ("django/django", "django__django-1", "django_1776_django-1", "./tests/runtests.py"),
        ("sympy/sympy", "sympy__sympy-2", "sympy_1776_sympy-2", "bin/test -C --verbose"),
        ("Ab/c.d", "Ab__c.d-3", "ab_1776_c.d-3", "pytest --no-header -rA"),
    ],
)
def test_image_and_command_are_those_of_the_benchmark_where_a_row_names_none(
    testbed: Path, repository: str, name: str, image: str, command: str
) -> None:
    row = row_of(testbed, repo=repository, instance_id=name)
    del row["image"]
    row["test_command"] = None
    task = task_of(row)
    assert task.metadata["image"] == f"swebench/sweb.eval.x86_64.{image}:latest"
    reference: Any = task.reference
    assert reference["test_command"].startswith(command)


@pytest.mark.parametrize(
    ("changed", "problem"),
    [
        ({"base_commit": "main"}, "base_commit is no commit: 'main'"),
        ({"base_commit": "--all"}, "base_commit is no commit"),
        ({"repo": "marks"}, "repo is not owner/name"),
        ({"image": "--privileged"}, "image is no name of an image"),
        ({"image": "a b"}, "image is no name of an image"),
        ({"FAIL_TO_PASS": []}, "FAIL_TO_PASS is empty"),
        ({"FAIL_TO_PASS": "test_a"}, "column 'FAIL_TO_PASS' is no list"),
        ({"FAIL_TO_PASS": [f"{TESTS}::test_low"]}, "is in FAIL_TO_PASS and in PASS_TO_PASS"),
        ({"test_patch": "no change"}, "test_patch is no change in git's form"),
        ({"test_patch": "diff --git a/../x b/../x\n"}, "test_patch leads out of the repository"),
        ({"test_patch": "diff --git a//x b//x\n"}, "test_patch leads out of the repository"),
        ({"problem_statement": " "}, "column 'problem_statement' is blank"),
        *(({name: None}, f"column '{name}' is no") for name in COLUMNS[:-2]),
    ],
)
def test_a_row_that_cannot_be_right_is_refused(
    testbed: Path, changed: dict[str, Any], problem: str
) -> None:
    with pytest.raises(RowError, match=r"r\.json, row 0: ") as caught:
        task_of(row_of(testbed, **changed))
    assert problem in str(caught.value)


@pytest.mark.parametrize("name", COLUMNS[:-2])
def test_a_missing_column_is_named(testbed: Path, name: str) -> None:
    row = row_of(testbed)
    del row[name]
    with pytest.raises(RowError, match=f"no column '{name}'"):
        task_of(row)


LOG = """
============ short test summary info ============
PASSED a/test_a.py::test_one
PASSED a/test_a.py::test_two[a b]
XFAIL a/test_a.py::test_x - reason
FAILED a/test_a.py::test_three - assert 1 == 2
ERROR a/test_a.py::test_four
SKIPPED [1] a/test_a.py:3: why
PASSED a/test_a.py::test_twice
FAILED a/test_a.py::test_twice - once more
FAILED a/test_a.py::test_again - once
PASSED a/test_a.py::test_again
test_five (m.T) ... ok
test_six (m.T) ... FAIL
test_seven (m.T)
It says so. ... ok
test_eight (m.T) ... skipped 'why'
test_nine (m.T) ... expected failure
test_CL_RL ok
test_sparse F
test_slow f
1 passed
"""


def test_logs_of_pytest_unittest_and_sympy_are_read() -> None:
    statuses = read_log(LOG)
    assert sorted(name for name, status in statuses.items() if status == "passed") == [
        "It says so.",
        "a/test_a.py::test_one",
        "a/test_a.py::test_two[a",
        "a/test_a.py::test_x",
        "test_CL_RL",
        "test_five (m.T)",
        "test_nine (m.T)",
        "test_slow",
    ]
    assert read_log("") == {}


@pytest.fixture
def no_engine(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Neither Docker nor Podman is found."""
    monkeypatch.setenv("PATH", str(tmp_path))


@pytest.mark.usefixtures("no_engine")
async def test_without_an_engine_of_containers_it_says_what_to_do() -> None:
    environment = InstanceEnvironment(
        tasks=[Task("1", "?")], rewards=[solved], episode=InstanceEpisode, backend="docker"
    )
    with pytest.raises(SettingsError, match=r"(?s)docker is not installed.*Start Docker or Podman"):
        async with environment:
            pass
