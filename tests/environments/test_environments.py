"""What holds for every environment of this repository, on its built-in default."""

import asyncio
import inspect
import json
import os
import subprocess
import sys
from collections import Counter
from itertools import islice

import pytest

from strop import Environment, Task
from strop.hub.manifest import read_project
from strop.testing import check_project
from tests.architecture.sizes import count_lines
from tests.environments.answers import misjudged, reward_of, solution_of
from tests.environments.conftest import FOLDER, Load

NAMES = sorted(path.parent.name for path in FOLDER.glob("*/pyproject.toml"))
TASK_COUNT = 200
SANDBOXED_TASK_COUNT = 12

pytestmark = pytest.mark.parametrize("name", NAMES)


def some_tasks(environment: Environment, count: int = TASK_COUNT) -> list[Task]:
    """Tasks of every split."""
    return [task for tasks in environment.tasks.values() for task in islice(tasks, count)]


def tasks_to_play(name: str, environment: Environment) -> list[Task]:
    """As many tasks as the tests can afford to play."""
    is_cheap = read_project(FOLDER / name).sandbox == "none"
    return some_tasks(environment, TASK_COUNT if is_cheap else SANDBOXED_TASK_COUNT)


def test_its_manifest_is_accepted(name: str) -> None:
    manifest = read_project(FOLDER / name)
    assert manifest.entry_point == f"{name}:load_environment"
    assert manifest.name == name.replace("_", "-")


def test_its_code_is_at_most_300_lines(name: str) -> None:
    modules = [path for path in (FOLDER / name / name).rglob("*.py") if "data" not in path.parts]
    assert sum(count_lines(path.read_text(encoding="utf-8")) for path in modules) <= 300


@pytest.mark.slow  # The daily suite runs the same tests from the repository's root.
@pytest.mark.timeout(1800)
def test_its_own_tests_pass_from_its_folder(name: str, import_path: str) -> None:
    ended = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider"],
        cwd=FOLDER / name,
        capture_output=True,
        text=True,
        env={**os.environ, "PYTHONPATH": import_path},
    )
    assert ended.returncode == 0, ended.stdout


@pytest.mark.slow
@pytest.mark.timeout(1800)
async def test_strop_env_check_finds_nothing(
    name: str, import_path: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PYTHONPATH", import_path)  # The mixture imports its parts.
    manifest = read_project(FOLDER / name)
    report = await asyncio.to_thread(
        check_project,
        FOLDER / name,
        f"{name}:load_environment",
        reward_range=manifest.reward_range,
        is_deterministic=manifest.deterministic,
    )
    assert [each for each in report.findings if each.verdict not in ("ok", "skipped")] == []
    print(f"{name}: {len(report.findings)} checks, none finds anything")


def test_its_readme_names_every_setting(name: str, load: Load) -> None:
    load(name)
    readme = (FOLDER / name / "README.md").read_text(encoding="utf-8")
    settings = inspect.signature(sys.modules[name].load_environment).parameters
    assert [setting for setting in settings if f"| `{setting}` |" not in readme] == []


async def test_the_oracle_gets_the_most_and_nothing_gets_nothing(name: str, load: Load) -> None:
    environment = load(name)
    low, high = read_project(FOLDER / name).reward_range or (0, 1)
    async with environment:
        tasks = tasks_to_play(name, environment)
        solved = [(task, solution_of(environment, task)) for task in tasks]
        assert await misjudged(environment, solved, high) == []
        assert await misjudged(environment, [(task, "") for task in tasks], low) == []


async def test_a_constant_policy_gets_no_more_than_the_commonest_answers_share(
    name: str, load: Load
) -> None:
    environment = load(name)
    async with environment:
        tasks = tasks_to_play(name, environment)
        [(_, count)] = Counter(str(task.reference) for task in tasks).most_common(1)
        solutions = [solution_of(environment, task) for task in tasks]
        commonest = max(solutions, key=solutions.count)
        rewards = [await reward_of(environment, task, commonest) for task in tasks]
    # Within a tolerance, an answer can be right for tasks that have another one to the letter.
    assert sum(rewards) <= max(count, len(tasks) // 100)


def test_no_problem_is_in_two_splits_and_every_key_is_unique(name: str, load: Load) -> None:
    environment = load(name)
    prompts = {
        split: {task.prompt for task in islice(tasks, TASK_COUNT)}
        for split, tasks in environment.tasks.items()
    }
    assert prompts["train"].isdisjoint(prompts["eval"])
    for tasks in environment.tasks.values():
        # What a mixture draws again is another visit of the same task.
        keys = [(task.key, visit) for task, visit in islice(tasks.draws(), TASK_COUNT)]
        assert len(keys) == len(set(keys))
        assert tasks.get(keys[7][0]) == tasks[7]


def test_another_process_makes_the_same_tasks(name: str, load: Load, import_path: str) -> None:
    code = (
        f"import itertools, json, {name}\n"
        f"splits = {name}.load_environment().tasks.values()\n"
        f"print(json.dumps([t.digest for s in splits for t in itertools.islice(s, {TASK_COUNT})]))"
    )
    printed = subprocess.run(
        [sys.executable, "-c", code],
        check=True,
        capture_output=True,
        env={"PYTHONPATH": import_path, "PYTHONHASHSEED": "7"},
    ).stdout
    assert json.loads(printed) == [task.digest for task in some_tasks(load(name))]
