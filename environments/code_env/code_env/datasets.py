"""Problems of HumanEval, MBPP and stdin/stdout sets, from files or the Hugging Face hub."""

import ast
import gzip
import json
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

from strop import Task, TaskSet
from strop.sandbox.judge import names_called

Row = dict[str, Any]
MakeTask = Callable[[int, Row], Task | None]
Source = tuple[str, str, str | None]
"""Name of the file; name and configuration of the data set on the Hugging Face hub."""

HUMAN_EVAL = ("HumanEval.jsonl.gz", "openai/openai_humaneval", None)
MBPP = ("mbpp.jsonl", "google-research-datasets/mbpp", "full")
_MBPP_SPLITS = {
    "train": ("train", range(601, 975)),
    "eval": ("test", range(11, 511)),
    "validation": ("validation", range(511, 601)),
    "prompt": ("prompt", range(1, 11)),
}
EXCLUDED = frozenset({367, 601, 927})
"""Rows of MBPP whose tests use classes of the solution, and so cannot be kept apart from it."""
COLUMNS = {"prompt": "prompt", "tests": "tests", "solution": "solution", "key": "key"}
"""Of a stdin/stdout set, where the setting says nothing else; the last two may be absent."""


def human_eval_tasks(path: str | None) -> dict[str, TaskSet]:
    """All of HumanEval as ``eval``."""
    return {"eval": _task_set(path, HUMAN_EVAL, "test", _human_eval_task)}


def mbpp_tasks(path: str | None) -> dict[str, TaskSet]:
    """MBPP in the four parts that its paper names."""
    return {
        split: _task_set(path, MBPP, theirs, partial(_mbpp_task, ids))
        for split, (theirs, ids) in _MBPP_SPLITS.items()
    }


def stdio_tasks(path: str | None, columns: dict[str, str], language: str) -> dict[str, TaskSet]:
    """A file (``train`` when its name says so, else ``eval``), or a set of the hub by its name."""
    if path is None:
        raise ValueError('Which stdin/stdout set? Give path="problems.jsonl" or path="owner/name".')
    if unknown := set(columns) - set(COLUMNS):
        raise ValueError(f"columns names {min(unknown)!r}. It maps {', '.join(COLUMNS)}.")
    make = partial(_stdio_task, {**COLUMNS, **columns}, language)
    if Path(path).suffix:
        split = "train" if "train" in Path(path).stem else "eval"
        return {split: _task_set(path, (path, "", None), split, make)}
    splits = {"train": "train", "eval": "test"}
    return {ours: _task_set(None, ("", path, None), their, make) for ours, their in splits.items()}


def _task_set(path: str | None, source: Source, split: str, make: MakeTask) -> TaskSet:
    rows = _hub_rows(source, split) if path is None else _file_rows(Path(path), source[0])

    def tasks() -> Iterator[Task]:
        for index, row in enumerate(rows()):
            try:
                task = make(index, json.loads(row) if isinstance(row, str) else row)
            except (KeyError, TypeError, ValueError) as error:
                raise ValueError(
                    f"Row {index} has another form: {error!r}. See `columns`."
                ) from error
            if task is not None:
                yield task

    return TaskSet(tasks)


def _hub_rows(source: Source, split: str) -> Callable[[], Iterable[Any]]:
    try:
        from datasets import load_dataset
    except ModuleNotFoundError as error:
        raise ModuleNotFoundError(
            "Data sets by name need the extra: pip install 'code-env[hf]'. Or give a file: path=…"
        ) from error
    return partial(load_dataset, *source[1:], split=split)


def _file_rows(path: Path, name: str) -> Callable[[], Iterable[Any]]:
    file = path / name if path.is_dir() else path
    if not file.is_file():
        raise FileNotFoundError(f"{file} is no file. Give the path of {name}, or of its folder.")

    def lines() -> Iterator[str]:
        open_file = gzip.open if file.suffix == ".gz" else open
        with open_file(file, "rt", encoding="utf-8") as opened:
            yield from opened

    return lines


def _calls_task(key: str, text: str, cases: list[str], prelude: str, **reference: Any) -> Task:
    whole: Any = {"judge": "calls", "cases": cases, **reference}
    return Task(key, text, whole, {"language": "python", "prelude": prelude})


def _human_eval_task(index: int, row: Row) -> Task:
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


def _mbpp_task(ids: range, index: int, row: Row) -> Task | None:
    if row["task_id"] not in ids or row["task_id"] in EXCLUDED:
        return None
    tests, solution = row["test_list"], row["code"].replace("\r\n", "\n")
    names = names_called("\n".join(tests), solution)
    told = {"names": names, "setup": f"import sys\n{row['test_setup_code']}", "solution": solution}
    text = f"{row['text'].strip()}\n\nYour code must pass:\n\n```python\n{tests[0]}\n```"
    return _calls_task(str(row["task_id"]), text, [*tests, *row["challenge_test_list"]], "", **told)


def _stdio_task(columns: dict[str, str], language: str, index: int, row: Row) -> Task | None:
    tests = row[columns["tests"]]
    tests = json.loads(tests) if isinstance(tests, str) else tests
    if isinstance(tests, list):
        tests = {f"{name}s": [test[name] for test in tests] for name in ("input", "output")}
    if tests.get("fn_name"):
        return None
    pairs = zip(tests["inputs"], tests["outputs"], strict=True)
    cases = [[t if isinstance(t, str) else "\n".join(map(str, t)) for t in pair] for pair in pairs]
    solution = row.get(columns["solution"])
    reference: Any = {"judge": "stdio", "cases": cases, "solution": solution}
    key = str(row.get(columns["key"], index))
    return Task(key, row[columns["prompt"]], reference, {"language": language})
