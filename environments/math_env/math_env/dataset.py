"""Problems of public data sets, and of rows with columns of any name: from files or a hub."""

import json
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from strop import Task, TaskSet

Row = dict[str, Any]
Read = Callable[[], Iterable[Row]]
"""Reads the rows of a split anew for each pass."""

HUB = "hf://"
_FILES = {"train": "train", "eval": "test"}
"""What a folder's files are called, by split."""
_SUFFIXES = (".jsonl", ".parquet")


@dataclass(frozen=True)
class Source:
    """Where a data set is on the Hugging Face hub, and how one of its rows becomes a task."""

    repository: str
    configuration: str
    splits: dict[str, str]
    """From our split to theirs."""
    to_task: Callable[[int, Row], Task]


def dataset_tasks(dataset: str, path: str | None, columns: Mapping[str, str]) -> dict[str, TaskSet]:
    """The splits of a data set; rows are read when they are asked for.

    Args:
        dataset: One of `SOURCES`, or ``rows``.
        path: A file (the split ``train`` when its name says so, else ``eval``), a folder,
            ``hf://owner/name`` or ``hf://owner/name@configuration``, or None for the place that
            is known.
        columns: How ``rows`` call the columns ``question``, ``answer`` and ``key``.

    Raises:
        FileNotFoundError: The path holds no file of the data set.
        ModuleNotFoundError: The extra ``hf`` is needed and not installed.
        ValueError: The settings do not fit each other.
    """
    source = SOURCES.get(dataset)
    if path is None and source is None:
        raise ValueError(f'dataset="rows" needs a path: a file, a folder, or {HUB}owner/name.')
    if set(columns) - (set() if source else {"question", "answer", "key"}):
        raise ValueError(f"columns is {columns}. Name question, answer or key of dataset='rows'.")
    to_task = source.to_task if source else partial(_row_task, columns)
    reads = _hub_reads(source, path) if path is None or path.startswith(HUB) else _reads(path)
    return {split: TaskSet(partial(_tasks, to_task, read)) for split, read in reads.items()}


def _reads(path: str) -> dict[str, Read]:
    place = Path(path)
    if place.is_file():
        return {"train" if "train" in place.stem else "eval": partial(_read_rows, place)}
    wanted = [
        (split, place / f"{name}{suffix}") for split, name in _FILES.items() for suffix in _SUFFIXES
    ]
    found = {split: partial(_read_rows, file) for split, file in wanted if file.is_file()}
    if not found:
        names = " or ".join(f"{name}.jsonl" for name in _FILES.values())
        raise FileNotFoundError(
            f"{path} is no file, and no folder with {names} or the like in Parquet. Give another "
            "path, or leave it out to fetch a data set that is known from the Hugging Face hub."
        )
    return {split: found[split] for split in _FILES if split in found}


def _read_rows(file: Path) -> Iterator[Row]:
    if file.suffix == ".parquet":
        # An extra: who reads lines does not need it.
        from pyarrow import parquet

        for batch in parquet.ParquetFile(file).iter_batches():
            yield from batch.to_pylist()
        return
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


def _hub_reads(source: Source | None, path: str | None) -> dict[str, Read]:
    try:
        from datasets import get_dataset_split_names, load_dataset
    except ModuleNotFoundError as error:
        raise ModuleNotFoundError(
            "Data sets from the Hugging Face hub need the extra: pip install 'math-env[hf]'. "
            "Or give a file or folder: path=…"
        ) from error
    if path is None and source is not None:
        place, name, splits = source.repository, source.configuration, source.splits
    else:
        place, _, given = str(path).removeprefix(HUB).partition("@")
        name = given or "default"
        theirs = sorted(get_dataset_split_names(place, name))
        splits = {"train" if split == "train" else "eval": split for split in theirs}
    return {ours: partial(load_dataset, place, name, split=each) for ours, each in splits.items()}


def _tasks(to_task: Callable[[int, Row], Task], read: Read) -> Iterator[Task]:
    for index, row in enumerate(read()):
        try:
            yield to_task(index, row)
        except KeyError as error:
            raise ValueError(
                f"Row {index} has no column {error}; it has: {', '.join(map(str, row))}. "
                "Is it another data set? See the settings `dataset` and `columns`."
            ) from error


def _row_task(columns: Mapping[str, str], index: int, row: Row) -> Task:
    key = row[columns["key"]] if "key" in columns else index
    question, answer = (row[columns.get(name, name)] for name in ("question", "answer"))
    return Task(str(key), str(question), reference=str(answer))


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


def _aime_task(index: int, row: Row) -> Task:
    # Answers stand there with leading zeros, as on the answer sheet.
    return Task(str(row["id"]), row["problem"], reference=str(int(row["answer"])))


SOURCES = {
    "aime": Source("HuggingFaceH4/aime_2024", "default", {"eval": "train"}, _aime_task),
    "gsm8k": Source("openai/gsm8k", "main", {"train": "train", "eval": "test"}, _gsm8k_task),
    "math500": Source("HuggingFaceH4/MATH-500", "default", {"eval": "test"}, _math500_task),
}
