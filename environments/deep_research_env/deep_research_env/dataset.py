"""Questions and pages of public data sets, from the Hugging Face hub or from files."""

import json
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import cache, partial
from pathlib import Path
from typing import Any

from deep_research_env.answer import texts
from strop import Task, TaskSet

Row = Mapping[str, Any]
Rows = Callable[[], Iterable[Row]]
Library = tuple[dict[str, TaskSet], Callable[[], dict[str, str]]]

SOURCES = {
    "twowiki": ("framolfese/2WikiMultihopQA", {"train": "train", "eval": "validation"}),
    "strategyqa": ("ChilleD/StrategyQA", {"train": "train", "eval": "test"}),
}
"""Repositories on the Hugging Face hub, and their splits by ours."""


def library(dataset: str, path: str | None, max_rows: int) -> Library:
    """The questions of a data set by split, and all its pages; read when they are asked for.

    Args:
        dataset: One of `SOURCES`.
        path: A folder of JSON or JSON lines files; None reads from the Hugging Face hub.
        max_rows: Of each split, when it is read from there.

    Raises:
        FileNotFoundError: The path is no folder with such files.
        ModuleNotFoundError: The extra ``hf`` is needed and not installed.
    """
    files = _hub_files(dataset, max_rows) if path is None else _folder_files(Path(path))
    read = cache(partial(_read, files))
    splits = sorted({split for split, _ in files} - {""})
    return {s: TaskSet(partial(lambda split: read()[0][split], s)) for s in splits}, lambda: read()[
        1
    ]


def _read(files: list[tuple[str, Rows]]) -> tuple[dict[str, list[Task]], dict[str, str]]:
    pages: dict[str, str] = {}
    tasks: dict[str, dict[str, Task]] = {split: {} for split, _ in files}
    for split, rows in files:
        for index, row in enumerate(rows()):
            try:
                task = _read_row(index, row, pages)
            except (AttributeError, KeyError, TypeError, ValueError) as error:
                raise ValueError(
                    f"Row {index} lacks something: {error!r}. It is {row!r:.200}"
                ) from error
            if task is not None:
                # What is asked twice is kept once: the file that is read last names its pages.
                tasks[split][task.prompt[0].text] = task
    # Questions whose pages are missing cannot be answered from them.
    return {
        split: [t for t in asked.values() if {*texts(t.metadata["support"])} <= pages.keys()]
        for split, asked in tasks.items()
    }, pages


def _folder_files(folder: Path) -> list[tuple[str, Rows]]:
    files = sorted(folder.glob("*.json*"))
    if not files:
        raise FileNotFoundError(f"{folder} is no folder with .json or .jsonl files. Give another.")
    splits = ["" if "corpus" in f.stem else "train" if "train" in f.stem else "eval" for f in files]
    return [(split, partial(_read_file, file)) for split, file in zip(splits, files, strict=True)]


def _read_file(file: Path) -> Iterator[Row]:
    text = file.read_text(encoding="utf-8")
    for line in [text] if text.startswith("[") else filter(str.strip, text.split("\n")):
        value = json.loads(line)
        yield from value if isinstance(value, list) else [value]


def _hub_files(dataset: str, max_rows: int) -> list[tuple[str, Rows]]:
    try:
        from datasets import load_dataset
    except ModuleNotFoundError as error:
        raise ModuleNotFoundError(
            "Data sets by name need the extra: pip install 'deep-research-env[hf]'. Or give a path."
        ) from error
    name, splits = SOURCES[dataset]
    return [(s, partial(load_dataset, name, split=f"{t}[:{max_rows}]")) for s, t in splits.items()]


def _read_row(index: int, row: Row, pages: dict[str, str]) -> Task | None:
    """The question of a row, if it has one; its pages go to `pages`."""
    question = row.get("question") or row.get("Question")
    if question is None:
        pages[row["title"]] = row["text"]
        return None
    support = [title for title, _ in _pairs(row.get("supporting_facts"), "sent_id")]
    if "facts" in row:
        support = [row["term"]]
        told = [pages.get(row["term"]) or row["description"] or "", *texts(row["facts"])]
        pages[row["term"]] = "\n".join(told)
    for title, sentences in _pairs(row.get("context"), "sentences"):
        pages.setdefault(title, " ".join(sentences))
    is_yes_or_no = isinstance(row["answer"], bool)
    answers = ["yes" if row["answer"] else "no"] if is_yes_or_no else texts(row["answer"])
    key = next((str(row[name]) for name in ("_id", "id", "qid") if name in row), str(index))
    return Task(key, question, [*answers], {"support": [*dict.fromkeys(support)]})


def _pairs(value: Any, name: str) -> Iterable[tuple[str, Any]]:
    is_columns = isinstance(value, Mapping)
    return zip(value["title"], value[name], strict=True) if is_columns else value or []
