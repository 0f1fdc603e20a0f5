"""Data sets from files, and what is said when there are none."""

import gzip
import importlib.util
import json
from pathlib import Path
from typing import Any

import pytest
from code_env import load_environment
from conftest import Play

from strop import Task

shared_loop = pytest.mark.asyncio(loop_scope="module")

HUMAN_EVAL = {
    "task_id": "HumanEval/7",
    "prompt": (
        "from typing import List\n\n\ndef shift(x: int) -> int:\n    return x + 1\n\n\n"
        'def shifted(xs: List[int]) -> List[int]:\n    """Shift every number."""\n'
    ),
    "entry_point": "shifted",
    "canonical_solution": "    return [shift(x) for x in xs]\n",
    "test": (
        "\n\nMETADATA = {}\n\n\ndef check(candidate):\n    assert True, 'always'\n"
        "    assert candidate([]) == []\n    xs = [1, 2]\n"
        "    assert candidate(xs) == [shift(x) for x in xs]\n"
        "    for n in range(3):\n        assert candidate([n]) == [n + 1], 'one'\n"
    ),
}
MBPP = {
    "task_id": 600,
    "text": "Write a function to add.",
    "code": "def add(a, b):\r\n\treturn a + b",
    "test_setup_code": "",
    "test_list": ["assert add(1, 2) == 3", "assert add(0, 0) == 0", "assert add(5, 5) == 10"],
    "challenge_test_list": ["assert add('a', 'b') == 'ab'"],
}


def write(path: Path, *rows: dict[str, Any]) -> str:
    text = "".join(json.dumps(row) + "\n" for row in rows)
    path.write_bytes(gzip.compress(text.encode()) if path.suffix == ".gz" else text.encode())
    return str(path)


def cases_of(task: Task) -> list[Any]:
    reference: Any = task.reference
    return list(reference["cases"])


def only_task(dataset: Any, path: str, **settings: Any) -> Task:
    splits = load_environment(dataset, path, **settings).tasks.values()
    [task] = [task for tasks in splits for task in tasks]
    return task


@shared_loop
async def test_a_row_of_human_eval_keeps_its_helpers_and_drops_what_everything_passes(
    play: Play, tmp_path: Path
) -> None:
    write(tmp_path / "HumanEval.jsonl.gz", HUMAN_EVAL)
    [task] = load_environment("humaneval", str(tmp_path)).tasks["eval"]
    assert task.key == "HumanEval/7"
    assert "def shifted" in task.prompt[0].text
    assert cases_of(task) == [
        "assert True, 'always'\nassert candidate([]) == []",
        "xs = [1, 2]\nassert candidate(xs) == [shift(x) for x in xs]",
        "for n in range(3):\n    assert candidate([n]) == [n + 1], 'one'",
    ]
    body = "def shifted(xs):\n    return [shift(x) for x in xs]"
    assert (await play(task, body)).reward == 1.0
    assert (await play(task, "def shifted(xs): return xs")).reward == 0.0
    third = await play(task, "def shifted(xs): return xs", grading="fraction")
    assert third.reward == pytest.approx(1 / 3)


@shared_loop
async def test_mbpp_has_the_parts_of_its_paper_and_shows_one_test(
    play: Play, tmp_path: Path
) -> None:
    rows = [{**MBPP, "task_id": number} for number in (1, 10, 11, 367, 510, 511, 600, 601, 974)]
    path = write(tmp_path / "mbpp.jsonl", *rows)
    splits = load_environment("mbpp", path).tasks
    assert {split: [task.key for task in tasks] for split, tasks in splits.items()} == {
        "train": ["974"],
        "eval": ["11", "510"],
        "validation": ["511", "600"],
        "prompt": ["1", "10"],
    }
    task = splits["train"][0]
    assert len(cases_of(task)) == 4
    assert "assert add(1, 2) == 3" in task.prompt[0].text
    assert "add(5, 5)" not in task.prompt[0].text
    assert (await play(task, "def add(a, b): return a + b")).reward == 1.0
    shown = await play(task, "def add(a, b): return 3", grading="fraction")
    quarter = await play(task, "def add(a, b): return 10", grading="fraction")
    assert (shown.reward, quarter.reward) == (0.0, 0.25)


@pytest.mark.parametrize(
    "tests",
    [
        [{"input": "1 2\n", "output": "3"}, {"input": "4 5", "output": "9\n"}],
        {"inputs": ["1 2\n", "4 5"], "outputs": ["3", "9\n"]},
        json.dumps({"inputs": [["1", "2"], ["4", "5"]], "outputs": [["3"], ["9"]]}),
    ],
    ids=["list", "columns", "text"],
)
@shared_loop
async def test_problems_of_a_file_come_in_the_usual_forms(
    play: Play, tmp_path: Path, tests: Any
) -> None:
    path = write(tmp_path / "my_train.jsonl", {"question": "Add.", "cases": tests, "id": "a/1"})
    columns = {"prompt": "question", "tests": "cases", "key": "id"}
    tasks = load_environment("stdio", path, columns=columns).tasks
    assert list(tasks) == ["train"]
    assert [(task.key, task.prompt[0].text) for task in tasks["train"]] == [("a/1", "Add.")]
    code = "import sys\nprint(sum(map(int, sys.stdin.read().split())))"
    assert (await play(only_task("stdio", path, columns=columns), code)).reward == 1.0


@shared_loop
async def test_a_solution_of_the_file_is_the_oracles_in_its_language(
    play: Play, tmp_path: Path
) -> None:
    row = {"prompt": "Echo.", "tests": [{"input": "a", "output": "a"}], "solution": "cat"}
    environment = load_environment("stdio", write(tmp_path / "p.jsonl", row), "bash")
    [task] = environment.tasks["eval"]
    assert environment.oracle is not None
    assert environment.oracle(task) == "```bash\ncat\n```"
    assert (await play(task, environment.oracle(task), is_text=True)).reward == 1.0


def test_rows_that_call_a_function_are_no_programs(tmp_path: Path) -> None:
    row = {"prompt": "?", "tests": {"fn_name": "f", "inputs": [[1]], "outputs": [1]}}
    assert list(load_environment("stdio", write(tmp_path / "p.jsonl", row)).tasks["eval"]) == []


@pytest.mark.parametrize(
    ("content", "problem"),
    [
        ('{"prompt": "?"}', "row 1: no column 'tests'; it has: 'prompt'"),
        ("no JSON", "line 2: Expecting value"),
        ('{"prompt": "?", "tests": {"inputs": ["1"], "outputs": []}}', "row 1: zip"),
    ],
)
def test_a_row_of_another_form_is_named(tmp_path: Path, content: str, problem: str) -> None:
    good = json.dumps({"prompt": "?", "tests": [{"input": "1", "output": "1"}]})
    (tmp_path / "p.jsonl").write_text(f"{good}\n{content}\n")
    tasks = load_environment("stdio", str(tmp_path / "p.jsonl")).tasks["eval"]
    assert tasks[0].key == "0"
    with pytest.raises(ValueError, match=problem):
        list(tasks)


@pytest.mark.parametrize(
    ("settings", "kind", "problem"),
    [
        ({"dataset": "humaneval", "path": "no/where"}, FileNotFoundError, "no folder of files"),
        ({"dataset": "stdio"}, ValueError, "Which rows"),
        ({"dataset": "stdio", "path": "a.jsonl", "columns": {"x": "y"}}, ValueError, "'x'"),
        ({"dataset": "mbpp", "language": "c"}, ValueError, "calls Python functions"),
    ],
    ids=["no file", "no name", "no such column", "language"],
)
def test_settings_that_cannot_be_met_are_refused(
    settings: dict[str, Any], kind: type[Exception], problem: str
) -> None:
    with pytest.raises(kind, match=problem):
        load_environment(**settings)


@pytest.mark.skipif(importlib.util.find_spec("datasets") is not None, reason="the extra is there")
@pytest.mark.parametrize("settings", [("humaneval",), ("mbpp",), ("stdio", "hf://owner/name")])
def test_without_the_extra_a_data_set_by_name_is_refused_at_once(settings: Any) -> None:
    with pytest.raises(ModuleNotFoundError, match=r"pip install 'code-env\[hf\]'"):
        load_environment(*settings)
