"""Problems of HumanEval, MBPP and stdin/stdout sets, from files or the Hugging Face hub."""

import ast
import json
from functools import partial
from typing import Any

from strop import Task, TaskSet
from strop.rows import KnownSet, Row, open_rows, read_tasks, task_sets
from strop.sandbox.judge import names_called

PACKAGE = "code-env"
HUMAN_EVAL = KnownSet("hf://openai/openai_humaneval", {"test": "eval"})
MBPP = KnownSet("hf://google-research-datasets/mbpp@full")
MBPP_SPLITS = {
    "train": range(601, 975),
    "eval": range(11, 511),
    "validation": range(511, 601),
    "prompt": range(1, 11),
}
"""The parts that its paper names, by `task_id`."""
EXCLUDED = frozenset({367, 601, 927})
"""Rows of MBPP whose tests use classes of the solution, and so cannot be kept apart from it."""
COLUMNS = ("prompt", "tests", "solution", "key")
"""Of a stdin/stdout set; the last two may be absent."""


def human_eval_tasks(path: str | None) -> dict[str, TaskSet]:
    """All of HumanEval as ``eval``."""
    return task_sets(open_rows(path, HUMAN_EVAL, package=PACKAGE), _human_eval_task)


def mbpp_tasks(path: str | None) -> dict[str, TaskSet]:
    """MBPP in the four parts that its paper names."""
    found = open_rows(path, MBPP, package=PACKAGE)
    return {
        split: TaskSet(partial(read_tasks, found, partial(_mbpp_task, ids)))
        for split, ids in MBPP_SPLITS.items()
    }


def stdio_tasks(path: str | None, columns: dict[str, str], language: str) -> dict[str, TaskSet]:
    """The splits of a stdin/stdout set; rows that call a function instead are left out."""
    found = open_rows(path, package=PACKAGE, columns=columns, names=COLUMNS)
    return task_sets(found, partial(_stdio_task, language))


def _calls_task(key: str, text: str, cases: list[str], prelude: str, **reference: Any) -> Task:
    whole: Any = {"judge": "calls", "cases": cases, **reference}
    return Task(key, text, whole, {"language": "python", "prelude": prelude})


def _human_eval_task(row: Row) -> Task:
    name, prompt = row["entry_point"], row["prompt"]
    helpers, tests = ast.parse(prompt), ast.parse(row["test"])
    helpers.body = [node for node in helpers.body if getattr(node, "name", "") != name]
    [check] = [node for node in tests.body if isinstance(node, ast.FunctionDef)]
    tests.body.remove(check)
    prelude = ast.unparse(helpers)
    text = f"Complete this function.\n\n```python\n{prompt.rstrip()}\n```"
    setup = f"{prelude}\n{ast.unparse(tests)}\ncandidate = {name}"
    solution = prompt + row["canonical_solution"]
    told = {"names": [name], "setup": setup, "solution": solution}
    return _calls_task(row["task_id"], text, _pieces(check), prelude, **told)


def _pieces(check: ast.FunctionDef) -> list[str]:
    """The assertions of a check, each with the statements that prepare it.

    Assertions of a constant, which every solution passes, are none.
    """
    pieces, piece = [], ""
    for statement in check.body:
        piece += f"{ast.unparse(statement)}\n"
        found = [node.test for node in ast.walk(statement) if isinstance(node, ast.Assert)]
        if not all(isinstance(test, ast.Constant) for test in found):
            pieces.append(piece.rstrip())
            piece = ""
    return pieces


def _mbpp_task(ids: range, row: Row) -> Task | None:
    if row["task_id"] not in ids or row["task_id"] in EXCLUDED:
        return None
    tests, solution = row["test_list"], row["code"].replace("\r\n", "\n")
    names = names_called("\n".join(tests), solution)
    told = {"names": names, "setup": f"import sys\n{row['test_setup_code']}", "solution": solution}
    text = f"{row['text'].strip()}\n\nYour code must pass:\n\n```python\n{tests[0]}\n```"
    return _calls_task(str(row["task_id"]), text, [*tests, *row["challenge_test_list"]], "", **told)


def _stdio_task(language: str, row: Row) -> Task | None:
    tests = row["tests"]
    tests = json.loads(tests) if isinstance(tests, str) else tests
    if isinstance(tests, list):
        tests = {f"{name}s": [test[name] for test in tests] for name in ("input", "output")}
    if tests.get("fn_name"):
        return None
    pairs = zip(tests["inputs"], tests["outputs"], strict=True)
    cases = [[t if isinstance(t, str) else "\n".join(map(str, t)) for t in pair] for pair in pairs]
    reference: Any = {"judge": "stdio", "cases": cases, "solution": row.get("solution")}
    return Task(row.key, row.text("prompt"), reference, {"language": language})
