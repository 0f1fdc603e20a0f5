"""Questions and pages of public data sets, from the Hugging Face hub or from files."""

from collections.abc import Callable, Iterable, Mapping
from functools import cache, partial
from itertools import islice
from typing import Any

from deep_research_env.answer import texts
from strop import Task, TaskSet
from strop.rows import KnownSet, Row, Rows, open_rows, read_tasks

Library = tuple[dict[str, TaskSet], Callable[[], dict[str, str]]]

KNOWN = {
    "twowiki": KnownSet(
        "hf://framolfese/2WikiMultihopQA", {"train": "train", "validation": "eval"}
    ),
    "strategyqa": KnownSet("hf://ChilleD/StrategyQA", {"train": "train", "test": "eval"}),
}


def library(dataset: str, path: str | None, max_rows: int) -> Library:
    """The questions of a data set by split, and all its pages; read when they are asked for.

    Args:
        dataset: One of `KNOWN`.
        path: As for `open_rows`, a folder as a rule; None is the place that is known. Files with
            the word ``corpus`` in their names hold pages.
        max_rows: Of each split, when it is read from there.

    Raises:
        FileNotFoundError: The path holds no rows.
        ModuleNotFoundError: An extra is needed and not installed.
    """
    found = open_rows(path, KNOWN[dataset], package="deep-research-env")
    read = cache(partial(_read, found, max_rows if path is None else None))
    splits = sorted({rows.split for rows in found} - {"corpus"})
    tasks = {s: TaskSet(partial(lambda split: read()[0][split], s)) for s in splits}
    return tasks, lambda: read()[1]


def _read(found: list[Rows], most: int | None) -> tuple[dict[str, list[Task]], dict[str, str]]:
    pages: dict[str, str] = {}
    tasks: dict[str, dict[str, Task]] = {rows.split: {} for rows in found}
    for rows in found:
        made = read_tasks([rows], partial(_read_row, pages=pages))
        for task in islice(made, most):
            # What is asked twice is kept once: the file that is read last names its pages.
            tasks[rows.split][task.prompt[0].text] = task
    # Questions whose pages are missing cannot be answered from them.
    return {
        split: [t for t in asked.values() if {*texts(t.metadata["support"])} <= pages.keys()]
        for split, asked in tasks.items()
    }, pages


def _read_row(row: Row, pages: dict[str, str]) -> Task | None:
    """The question of a row, if it has one; its pages go to `pages`."""
    question = row.get("question") or row.get("Question")
    if question is None:
        pages[row.text("title")] = row.text("text")
        return None
    support = [title for title, _ in _pairs(row.get("supporting_facts"), "sent_id")]
    if "facts" in row:
        support = [row.text("term")]
        told = [pages.get(row["term"]) or row.get("description") or "", *texts(row["facts"])]
        pages[row["term"]] = "\n".join(told)
    for title, sentences in _pairs(row.get("context"), "sentences"):
        pages.setdefault(title, " ".join(sentences))
    is_yes_or_no = isinstance(row["answer"], bool)
    answers = ["yes" if row["answer"] else "no"] if is_yes_or_no else texts(row["answer"])
    key = next((row.text(name) for name in ("_id", "id", "qid") if name in row), row.key)
    return Task(key, question, [*answers], {"support": [*dict.fromkeys(support)]})


def _pairs(value: Any, name: str) -> Iterable[tuple[str, Any]]:
    is_columns = isinstance(value, Mapping)
    return zip(value["title"], value[name], strict=True) if is_columns else value or []
