"""Problems from files, or from the Hugging Face hub by name: one row, one task."""

from functools import partial

from logic_env.facts import FACTS
from logic_env.islanders import FORM, describe_roles
from strop import Task, TaskSet
from strop.rows import KnownSet, Row, open_rows, task_sets

COLUMNS = ("question", "answer", "key")
"""What is read of ``rows``; the last one may be missing."""
_BBH = {"question": "input", "answer": "target"}


def row_tasks(dataset: str, path: str | None, columns: dict[str, str]) -> dict[str, TaskSet]:
    """The splits of a data set; rows are read when they are asked for.

    Raises:
        FileNotFoundError: The path holds no rows.
        ModuleNotFoundError: An extra is needed and not installed.
        SettingsError: The settings do not fit each other.
    """
    known = KnownSet(**FACTS["hub"][dataset]) if dataset in FACTS["hub"] else None
    columns = columns or (_BBH if dataset == "bbh" else {})
    found = open_rows(path, known, package="logic-env", columns=columns, names=COLUMNS)
    make = _knights_task if dataset == "knights_knaves" else partial(_text_task, dataset)
    return task_sets(found, make)


def _place(row: Row) -> str:
    return f"{row.source.name}-{row.index}"


def _knights_task(row: Row) -> Task:
    answer = describe_roles(row.texts("names"), row["solution"])
    return Task(_place(row), f"{row.text('quiz')} {FORM}", answer, {"verifier": "roles"})


def _text_task(dataset: str, row: Row) -> Task | None:
    key = _place(row) if dataset == "bbh" else row.key
    if key in FACTS["excluded_rows"]:
        return None
    return Task(key, row.text("question"), row.text("answer"), {"verifier": "text"})
