"""Problems from files, or from the Hugging Face hub by name: one row, one task."""

import json
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

from logic_env.facts import FACTS
from logic_env.islanders import FORM, describe_roles
from strop import Task, TaskSet

Row = dict[str, Any]
Source = tuple[str, str, Callable[[], Iterable[Row]]]
"""Its split and its name, and what reads its rows anew for each pass."""


def row_tasks(dataset: str, path: str | None, columns: dict[str, str]) -> dict[str, TaskSet]:
    """The splits of a data set; rows are read when they are asked for.

    Raises:
        FileNotFoundError: The path holds no file of the data set.
        ModuleNotFoundError: The extra ``hf`` is needed and not installed.
    """
    found: dict[str, list[Source]] = {}
    for source in _files(Path(path)) if path else _repositories(dataset):
        found.setdefault("train" if "train" in source[0] else "eval", []).append(source)
    names = {"question": "input", "answer": "target"} if dataset == "bbh" else columns
    of_text = partial(_text_task, names.get("question", "question"), names.get("answer", "answer"))
    to_task = _knights_task if dataset == "knights_knaves" else of_text
    return {split: TaskSet(partial(_tasks, each, to_task)) for split, each in found.items()}


def _files(path: Path) -> list[Source]:
    files = [path] if path.is_file() else sorted([*path.glob("*.json*"), *path.glob("*.parquet")])
    if not files:
        raise FileNotFoundError(f"{path} is no file, and holds no .json, .jsonl or .parquet file.")
    return [(file.stem, file.stem, partial(_read, file)) for file in files]


def _repositories(dataset: str) -> Iterator[Source]:
    try:
        from datasets import get_dataset_config_names, load_dataset
    except ModuleNotFoundError as error:
        advice = "Give a path, or install the extra: pip install 'logic-env[hf]'"
        raise ModuleNotFoundError(f"{dataset} comes from the Hugging Face hub. {advice}") from error
    place = FACTS["hub"][dataset]
    for name in get_dataset_config_names(place["repository"]):
        for split in place["splits"]:
            yield split, name, partial(load_dataset, place["repository"], name, split=split)


def _read(file: Path) -> Iterator[Row]:
    if file.suffix == ".parquet":
        from pyarrow import parquet

        yield from parquet.read_table(file).to_pylist()
    elif file.suffix == ".json":
        rows = json.loads(file.read_text("utf-8"))
        yield from rows["examples"] if isinstance(rows, dict) else rows
    else:
        yield from map(json.loads, filter(str.strip, file.read_text("utf-8").split("\n")))


def _tasks(sources: list[Source], to_task: Callable[[str, Row], Task]) -> Iterator[Task]:
    for _, name, rows in sources:
        keyed = ((f"{name}-{index}", row) for index, row in enumerate(rows()))
        yield from (to_task(key, row) for key, row in keyed if key not in FACTS["excluded_rows"])


def _knights_task(key: str, row: Row) -> Task:
    answer = describe_roles(row["names"], row["solution"])
    return Task(key, f"{row['quiz']} {FORM}", answer, {"verifier": "roles"})


def _text_task(question: str, answer: str, key: str, row: Row) -> Task:
    if not {question, answer} <= set(row):
        raise ValueError(f"Row {key} has no {question!r} or no {answer!r}, but {', '.join(row)}.")
    return Task(key, str(row[question]), str(row[answer]), {"verifier": "text"})
