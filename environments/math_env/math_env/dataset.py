"""Problems of public data sets, and of rows with columns of any name: from files or a hub."""

from collections.abc import Mapping

from strop import Task, TaskSet
from strop.rows import KnownSet, Row, open_rows, task_sets

COLUMNS = ("question", "answer", "key")
"""What is read of ``rows``; the last one may be missing."""
KNOWN = {
    "aime": KnownSet("hf://HuggingFaceH4/aime_2024", {"train": "eval"}),
    "gsm8k": KnownSet("hf://openai/gsm8k@main", {"train": "train", "test": "eval"}),
    "svamp": KnownSet("hf://ChilleD/SVAMP", {"train": "train", "test": "eval"}),
    "math500": KnownSet("hf://HuggingFaceH4/MATH-500", {"test": "eval"}),
}


def dataset_tasks(dataset: str, path: str | None, columns: Mapping[str, str]) -> dict[str, TaskSet]:
    """The splits of a data set; rows are read when they are asked for.

    Args:
        dataset: One of `KNOWN`, or ``rows``.
        path: As for `open_rows`; None is the place that is known.
        columns: How ``rows`` call `COLUMNS`.

    Raises:
        FileNotFoundError: The path holds no rows.
        ModuleNotFoundError: An extra is needed and not installed.
        SettingsError: The settings do not fit each other.
    """
    known = KNOWN.get(dataset)
    names = COLUMNS if known is None else ()
    found = open_rows(path, known, package="math-env", columns=columns, names=names)
    return task_sets(found, _MAKERS[dataset])


def _row_task(row: Row) -> Task:
    return Task(row.key, row.text("question"), reference=row.text("answer"))


def _gsm8k_task(row: Row) -> Task:
    _, mark, answer = row.text("answer").rpartition("####")
    if not mark:
        raise row.error("the answer does not end in a line `#### N`")
    return Task(row.key, row.text("question"), reference=answer.strip().replace(",", ""))


def _math500_task(row: Row) -> Task:
    metadata = {name: row[name] for name in ("subject", "level")}
    return Task(row.text("unique_id"), row.text("problem"), row.text("answer"), metadata)


def _aime_task(row: Row) -> Task:
    # Answers stand there with leading zeros, as on the answer sheet.
    return Task(row.text("id"), row.text("problem"), reference=str(int(row.text("answer"))))


def _svamp_task(row: Row) -> Task:
    body, question = row.text("Body").strip(), row.text("Question").strip()
    text = body if body.endswith((".", "?", "!", ",")) else f"{body}."
    answer = f"{float(row.text('Answer')):.12g}"
    return Task(row.text("ID"), f"{text} {question}", answer, {"type": row.text("Type")})


_MAKERS = {
    "aime": _aime_task,
    "gsm8k": _gsm8k_task,
    "math500": _math500_task,
    "rows": _row_task,
    "svamp": _svamp_task,
}
