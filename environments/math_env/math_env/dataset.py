"""Problems of public data sets, from the Hugging Face hub or from files."""

import json
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from strop import Task, TaskSet

Row = dict[str, Any]


@dataclass(frozen=True)
class Source:
    """Where a data set is, and how one of its rows becomes a task."""

    repository: str
    configuration: str
    splits: dict[str, str]
    """From our split to theirs; a folder holds ``<theirs>.jsonl``."""
    to_task: Callable[[int, Row], Task]


def dataset_tasks(dataset: str, path: str | None) -> dict[str, TaskSet]:
    """The splits of a data set; rows are read when they are asked for.

    Args:
        dataset: ``gsm8k`` or ``math500``.
        path: A JSON lines file (the split ``train`` when its name says so, else ``eval``), a
            folder, or None for the Hugging Face hub.

    Raises:
        FileNotFoundError: The path holds no file of the data set.
        ModuleNotFoundError: The extra ``hf`` is needed and not installed.
    """
    source = SOURCES[dataset]
    if path is None:
        load = _hub_loader()
        return {
            split: TaskSet(partial(_tasks, source, partial(load, source, theirs)))
            for split, theirs in source.splits.items()
        }
    return {
        split: TaskSet(partial(_tasks, source, partial(_read_rows, file)))
        for split, file in _files(dataset, Path(path)).items()
    }


def _files(dataset: str, path: Path) -> dict[str, Path]:
    if path.is_file():
        return {"train" if "train" in path.stem else "eval": path}
    wanted = {split: path / f"{name}.jsonl" for split, name in SOURCES[dataset].splits.items()}
    found = {split: file for split, file in wanted.items() if file.is_file()}
    if not found:
        names = " or ".join(file.name for file in wanted.values())
        raise FileNotFoundError(
            f"{path} is no file, and no folder with {names}. Give the path of {dataset}, "
            "or leave it out to fetch the data set from the Hugging Face hub."
        )
    return found


def _read_rows(file: Path) -> Iterator[Row]:
    with file.open(encoding="utf-8") as lines:
        for number, line in enumerate(lines, 1):
            if not line.strip():
                continue
            try:
                row = json.loads(line)
            except ValueError as error:
                raise ValueError(f"{file}, line {number}: no JSON: {error}") from error
            if not isinstance(row, dict):
                raise ValueError(f"{file}, line {number}: not an object with columns")
            yield row


def _hub_loader() -> Callable[[Source, str], Iterable[Row]]:
    try:
        from datasets import load_dataset
    except ModuleNotFoundError as error:
        raise ModuleNotFoundError(
            "Data sets from the Hugging Face hub need the extra: pip install 'math-env[hf]'. "
            "Or give a file or folder: path=…"
        ) from error

    def load(source: Source, split: str) -> Iterable[Row]:
        rows: Iterable[Row] = load_dataset(source.repository, source.configuration, split=split)
        return rows

    return load


def _tasks(source: Source, rows: Callable[[], Iterable[Row]]) -> Iterator[Task]:
    for index, row in enumerate(rows()):
        try:
            yield source.to_task(index, row)
        except KeyError as error:
            raise ValueError(
                f"Row {index} has no column {error}; it has: {', '.join(map(str, row))}. "
                "Is it another data set? See the setting `dataset`."
            ) from error


def _gsm8k_task(index: int, row: Row) -> Task:
    _, mark, answer = row["answer"].rpartition("####")
    if not mark:
        raise ValueError(f"Row {index}: the answer does not end in a line `#### N`")
    return Task(str(index), row["question"], reference=answer.strip().replace(",", ""))


def _math500_task(index: int, row: Row) -> Task:
    return Task(
        row["unique_id"],
        row["problem"],
        reference=row["answer"],
        metadata={"subject": row["subject"], "level": row["level"]},
    )


SOURCES = {
    "gsm8k": Source("openai/gsm8k", "main", {"train": "train", "eval": "test"}, _gsm8k_task),
    "math500": Source("HuggingFaceH4/MATH-500", "default", {"eval": "test"}, _math500_task),
}
