"""Problems of public data sets and of files with columns of any name."""

import json
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import partial
from pathlib import Path
from typing import Any

from strop import Task, TaskSet
from strop.rewards import parse_quantity

Row = Mapping[str, Any]
Read = Callable[[], Iterable[Row]]

_KEYED = {"answer": "answerKey"}
SOURCES: dict[str, tuple[str, str, dict[str, str]]] = {
    "mmlu_stem": ("TIGER-Lab/MMLU-STEM", "default", {}),
    "arc_challenge": ("allenai/ai2_arc", "ARC-Challenge", _KEYED),
    "openbookqa": ("allenai/openbookqa", "main", _KEYED | {"question": "question_stem"}),
}
"""Repository and configuration on the Hugging Face hub, and what it calls its columns."""

COLUMNS = ("question", "answer", "choices", "unit", "key")
"""What is read of a row; the last three may be missing."""

_SPLITS = {"train": "train", "eval": "test"}
_INSTRUCTION = re.compile(r".*? question: (.*)\n\n(Answer1: .*)\n\nAnswer format: .*", re.DOTALL)
_NUMBERED = re.compile(r"(?:^|\s)Answer[0-9]+: ")
_LETTERS = "ABCDEFGHIJKLMNOPQRSTUVWXYZ"


def dataset_tasks(dataset: str, path: str | None, columns: Mapping[str, str]) -> dict[str, TaskSet]:
    """The splits of a data set; rows are read when they are asked for.

    Args:
        dataset: One of `SOURCES`, or ``rows`` for a file.
        path: A file (the split ``train`` when its name says so, else ``eval``), a folder, or None
            for the Hugging Face hub.
        columns: Names of columns, where they are others than in `COLUMNS`.

    Raises:
        FileNotFoundError: The path holds no file of the data set.
        ModuleNotFoundError: The extra ``hf`` is needed and not installed.
        ValueError: The settings do not fit each other.
    """
    unknown = sorted(set(columns) - set(COLUMNS))
    if unknown:
        raise ValueError(f"There is no column {unknown[0]!r}. Name some of: {', '.join(COLUMNS)}.")
    if path is not None:
        reads: dict[str, Read] = {
            split: partial(_read_rows, file) for split, file in _files(Path(path)).items()
        }
    elif dataset in SOURCES:
        columns = SOURCES[dataset][2] | dict(columns)
        reads = _hub_reads(dataset)
    else:
        raise ValueError('dataset="rows" reads a file. Give it: path=…')
    return {split: TaskSet(partial(_tasks, read, columns)) for split, read in reads.items()}


def _files(path: Path) -> dict[str, Path]:
    if path.is_file():
        return {"train" if "train" in path.stem else "eval": path}
    files = {split: sorted(path.glob(f"{name}.json*")) for split, name in _SPLITS.items()}
    if not any(files.values()):
        raise FileNotFoundError(
            f"{path} is no file, and no folder with a train or test .json or .jsonl. Give another "
            "path, or leave it out to fetch a data set from the Hugging Face hub."
        )
    return {split: found[0] for split, found in files.items() if found}


def _read_rows(file: Path) -> Iterator[Row]:
    text = file.read_text(encoding="utf-8")
    lines = [text] if text.startswith("[") else filter(str.strip, text.split("\n"))
    for number, line in enumerate(lines, 1):
        try:
            value = json.loads(line)
        except ValueError as error:
            raise ValueError(f"{file}, row {number}: no JSON: {error}") from error
        yield from value if isinstance(value, list) else [value]


def _hub_reads(dataset: str) -> dict[str, Read]:
    try:
        from datasets import load_dataset
    except ModuleNotFoundError as error:
        raise ModuleNotFoundError(
            "Data sets from the Hugging Face hub need the extra: pip install 'science-env[hf]'. "
            "Or give a file or folder: path=…"
        ) from error
    repository, configuration, _ = SOURCES[dataset]
    theirs = {"eval": "test"} if dataset == "mmlu_stem" else _SPLITS
    return {
        split: partial(load_dataset, repository, configuration, split=name)
        for split, name in theirs.items()
    }


def _tasks(read: Read, columns: Mapping[str, str]) -> Iterator[Task]:
    for index, row in enumerate(read()):
        try:
            task = _task(index, _plain(row, columns))
        except (AttributeError, KeyError, TypeError, ValueError) as error:
            raise ValueError(
                f"Row {index} cannot be read: {type(error).__name__}: {error}. It is {row!r:.200}. "
                "Say how its columns are called (columns={…}), or choose another `dataset`."
            ) from error
        if task is not None:
            yield task


def _plain(row: Row, columns: Mapping[str, str]) -> dict[str, Any]:
    """What is read of a row, under our names; choices may stand in an instruction."""
    found = _INSTRUCTION.fullmatch(str(row.get("instruction", "")))
    named = {name: row.get(columns.get(name, name)) for name in COLUMNS}
    if found is not None:
        named |= {"question": found[1], "choices": _NUMBERED.split(found[2])[1:]}
    if named["question"] is None or named["answer"] is None:
        raise ValueError("it has no question, or no answer")
    return named


def _task(index: int, row: dict[str, Any]) -> Task | None:
    key = str(index if row["key"] is None else row["key"])
    if row["choices"] is None:
        reference = f"{row['answer']} {row['unit'] or ''}".strip()
        form = "text" if parse_quantity(reference) is None else "quantity"
        return Task(key, str(row["question"]), reference, {"form": form})
    choices = row["choices"]
    if not isinstance(choices, Mapping):
        choices = {"text": choices, "label": _LETTERS}
    texts, labels = [str(text).strip() for text in choices["text"]], choices["label"]
    letter = _LETTERS[_place(row["answer"], list(labels)[: len(texts)])]
    # Where the right text stands twice, a right answer can have a wrong letter.
    if texts.count(texts[_LETTERS.index(letter)]) > 1:
        return None
    listed = [f"{name}. {text}" for name, text in zip(_LETTERS, texts, strict=False)]
    prompt = "\n".join([f"{row['question']}\n", *listed])
    return Task(key, prompt, letter, {"form": "choice", "choices": [*texts]})


def _place(answer: Any, labels: list[str]) -> int:
    if answer in labels:
        return labels.index(answer)
    numbered = re.fullmatch(r"answer([1-9])", str(answer))
    place = int(numbered[1]) - 1 if numbered else answer
    if not isinstance(place, int) or not 0 <= place < len(labels):
        raise ValueError(f"the answer {answer!r} is none of its {len(labels)} choices")
    return place
