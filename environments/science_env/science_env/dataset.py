"""Problems of public data sets and of files with columns of any name."""

import re
from collections.abc import Mapping
from typing import Any

from strop import Task, TaskSet
from strop.rewards import parse_quantity
from strop.rows import KnownSet, Row, open_rows, task_sets

_SPLITS = {"train": "train", "test": "eval"}
_KEYED = {"answer": "answerKey"}
_STEM = {"question": "question_stem"} | _KEYED
KNOWN = {
    "mmlu_stem": KnownSet("hf://TIGER-Lab/MMLU-STEM", {"test": "eval"}),
    "arc_challenge": KnownSet("hf://allenai/ai2_arc@ARC-Challenge", _SPLITS, _KEYED),
    "openbookqa": KnownSet("hf://allenai/openbookqa@main", _SPLITS, _STEM),
}
COLUMNS = ("question", "answer", "choices", "unit", "key")
"""What is read of a row; the last three may be missing."""

_INSTRUCTION = re.compile(r".*? question: (.*)\n\n(Answer1: .*)\n\nAnswer format: .*", re.DOTALL)
_NUMBERED = re.compile(r"(?:^|\s)Answer[0-9]+: ")
_LETTERS = "ABCDEFGHIJKLMNOPQRSTUVWXYZ"


def dataset_tasks(dataset: str, path: str | None, columns: Mapping[str, str]) -> dict[str, TaskSet]:
    """The splits of a data set; rows are read when they are asked for.

    Args:
        dataset: One of `KNOWN`, or ``rows``.
        path: As for `open_rows`; None is the place that is known.
        columns: Names of columns, where they are others than in `COLUMNS`.

    Raises:
        FileNotFoundError: The path holds no rows.
        ModuleNotFoundError: An extra is needed and not installed.
        SettingsError: The settings do not fit each other.
    """
    known = KNOWN.get(dataset)
    found = open_rows(path, known, package="science-env", columns=columns, names=COLUMNS)
    return task_sets(found, _row_task)


def _row_task(row: Row) -> Task | None:
    # Choices may stand in an instruction.
    found = _INSTRUCTION.fullmatch(str(row.get("instruction", "")))
    if found is not None:
        return _choice_task(row, found[1], _NUMBERED.split(found[2])[1:])
    question, choices = row.text("question"), row.get("choices")
    if choices is not None:
        return _choice_task(row, question, choices)
    reference = f"{row.text('answer')} {row.get('unit') or ''}".strip()
    form = "text" if parse_quantity(reference) is None else "quantity"
    return Task(row.key, question, reference, {"form": form})


def _choice_task(row: Row, question: str, choices: Any) -> Task | None:
    if not isinstance(choices, Mapping):
        choices = {"text": choices, "label": _LETTERS}
    texts, labels = [str(text).strip() for text in choices["text"]], choices["label"]
    letter = _LETTERS[_place(row["answer"], list(labels)[: len(texts)])]
    # Where the right text stands twice, a right answer can have a wrong letter.
    if texts.count(texts[_LETTERS.index(letter)]) > 1:
        return None
    listed = [f"{name}. {text}" for name, text in zip(_LETTERS, texts, strict=False)]
    prompt = "\n".join([f"{question}\n", *listed])
    return Task(row.key, prompt, letter, {"form": "choice", "choices": [*texts]})


def _place(answer: Any, labels: list[str]) -> int:
    if answer in labels:
        return labels.index(answer)
    numbered = re.fullmatch(r"answer([1-9])", str(answer))
    place = int(numbered[1]) - 1 if numbered else answer
    if not isinstance(place, int) or not 0 <= place < len(labels):
        raise ValueError(f"the answer {answer!r} is none of its {len(labels)} choices")
    return place
