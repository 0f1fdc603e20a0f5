"""Data sets from files, and what is said when there are none."""

import importlib.util
import json
from pathlib import Path
from typing import Any

import pytest
from math_env import extract_answer, load_environment

from strop import ScriptedModel

GSM8K = {
    "question": "How many legs have 300 cows?",
    "answer": "4*300=<<4*300=1200>>1200\n#### 1,200",
}
MATH500 = {
    "problem": "Expand $(x+1)^2$.",
    "solution": r"It is $\boxed{x^2+2x+1}$.",
    "answer": "x^2+2x+1",
    "subject": "Algebra",
    "level": 2,
    "unique_id": "test/algebra/1.json",
}


def write(path: Path, *rows: dict[str, Any]) -> Path:
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    return path


def test_a_folder_gives_the_splits_whose_files_it_holds(tmp_path: Path) -> None:
    write(tmp_path / "train.jsonl", GSM8K, GSM8K)
    write(tmp_path / "test.jsonl", GSM8K)
    splits = load_environment("gsm8k", str(tmp_path)).tasks
    assert {split: [task.key for task in tasks] for split, tasks in splits.items()} == {
        "train": ["0", "1"],
        "eval": ["0"],
    }
    (tmp_path / "train.jsonl").unlink()
    assert list(load_environment("gsm8k", str(tmp_path)).tasks) == ["eval"]


@pytest.mark.parametrize(("name", "split"), [("my_train.jsonl", "train"), ("rows.jsonl", "eval")])
def test_a_file_is_one_split(tmp_path: Path, name: str, split: str) -> None:
    path = write(tmp_path / name, GSM8K)
    assert list(load_environment("gsm8k", str(path)).tasks) == [split]


def test_a_gsm8k_row_becomes_a_task_without_its_solution(tmp_path: Path) -> None:
    path = write(tmp_path / "test.jsonl", GSM8K)
    task = load_environment("gsm8k", str(path)).tasks["eval"][0]
    assert (task.key, task.reference, task.metadata) == ("0", "1200", {})
    assert task.prompt[0].text == GSM8K["question"]


def test_a_math500_row_keeps_subject_and_level_and_its_own_id(tmp_path: Path) -> None:
    path = write(tmp_path / "test.jsonl", MATH500)
    tasks = load_environment("math500", str(path)).tasks
    assert list(tasks) == ["eval"]
    task = tasks["eval"].get("test/algebra/1.json")
    assert task.reference == "x^2+2x+1"
    assert task.metadata == {"subject": "Algebra", "level": 2}


def test_an_aime_row_has_a_whole_number_without_zeros_before_it(tmp_path: Path) -> None:
    row = {"id": 60, "problem": "How many?", "solution": "So many.", "answer": "033"}
    path = write(tmp_path / "test.jsonl", row)
    [task] = load_environment("aime", str(path)).tasks["eval"]
    assert (task.key, task.prompt[0].text, task.reference) == ("60", "How many?", "33")


@pytest.mark.parametrize(
    ("body", "answer", "text", "reference"),
    [
        ("Ann has 3 cats. ", 8.0, "Ann has 3 cats. How many?", "8"),
        ("Ann has 3 cats", 0.5, "Ann has 3 cats. How many?", "0.5"),
        ("If Ann has 3,", 12000.0, "If Ann has 3, How many?", "12000"),
    ],
)
def test_a_svamp_row_is_told_and_then_asked(
    tmp_path: Path, body: str, answer: float, text: str, reference: str
) -> None:
    row = {"ID": "c-1", "Body": body, "Question": "How many?", "Answer": answer, "Type": "Sum"}
    [task] = load_environment("svamp", str(write(tmp_path / "test.jsonl", row))).tasks["eval"]
    assert (task.key, task.prompt[0].text, task.reference) == ("c-1", text, reference)
    assert task.metadata == {"type": "Sum"}


def test_rows_may_call_their_columns_anything(tmp_path: Path) -> None:
    path = write(tmp_path / "rows.jsonl", {"q": "1+1?", "n": 2, "id": "a/1"}, {"q": "x", "n": "y"})
    columns = {"question": "q", "answer": "n"}
    [first, second] = load_environment("rows", str(path), columns=columns).tasks["eval"]
    assert [(each.key, each.reference) for each in (first, second)] == [("0", "2"), ("1", "y")]
    keyed = load_environment("rows", str(path), columns=columns | {"key": "id"}).tasks["eval"]
    assert keyed[0].key == "a/1"
    with pytest.raises(ValueError, match="row 1: no column 'id'"):
        list(keyed)


def test_rows_of_parquet_files_are_read_like_lines(tmp_path: Path) -> None:
    pyarrow = pytest.importorskip("pyarrow")
    parquet = importlib.import_module("pyarrow.parquet")
    rows = [{"question": f"{n}+1?", "answer": str(n + 1)} for n in range(3)]
    for name in ("train", "test"):
        parquet.write_table(pyarrow.Table.from_pylist(rows), tmp_path / f"{name}.parquet")
    tasks = load_environment("rows", str(tmp_path)).tasks
    assert {split: [task.reference for task in each] for split, each in tasks.items()} == {
        "train": ["1", "2", "3"],
        "eval": ["1", "2", "3"],
    }


@pytest.mark.parametrize(
    ("dataset", "settings", "problem"),
    [
        ("rows", {}, "Which rows"),
        (
            "rows",
            {"path": "x.jsonl", "columns": {"solution": "s"}},
            "It maps question, answer, key",
        ),
        ("gsm8k", {"path": "x.jsonl", "columns": {"question": "q"}}, "It maps nothing"),
        ("gsm8k", {"path": "x.jsonl", "answer_form": "last_number"}, "is for procedural"),
        ("procedural", {"columns": {"question": "q"}}, "Say which data set"),
    ],
)
def test_settings_that_do_not_fit_are_refused(
    dataset: Any, settings: dict[str, Any], problem: str
) -> None:
    with pytest.raises(ValueError, match=problem):
        load_environment(dataset, **settings)


async def test_an_answer_is_compared_as_mathematics(tmp_path: Path) -> None:
    path = write(tmp_path / "test.jsonl", MATH500)
    environment = load_environment("math500", str(path))
    async with environment:
        [task] = environment.tasks["eval"]
        for text, expected in ((r"\boxed{(1+x)^2}", 1), (r"\boxed{(1-x)^2}", 0), ("(x+1)^2", 0)):
            trajectory = await environment.rollout(task, ScriptedModel.constant(text))
            assert trajectory.reward == expected


def test_rows_are_read_when_they_are_asked_for(tmp_path: Path) -> None:
    path = write(tmp_path / "test.jsonl", GSM8K)
    with path.open("a") as file:
        file.write("no JSON\n")
    tasks = load_environment("gsm8k", str(path)).tasks["eval"]
    assert tasks[0].key == "0"
    with pytest.raises(ValueError, match="line 2: Expecting value"):
        list(tasks)


@pytest.mark.parametrize(
    ("row", "problem"),
    [
        (MATH500, "row 0: the answer does not end in a line `#### N`"),
        ({"question": "?"}, "row 0: no column 'answer'; it has: 'question'"),
        ({"question": "?", "answer": "5"}, "row 0: the answer does not end"),
    ],
)
def test_a_row_of_another_form_is_named(tmp_path: Path, row: dict[str, Any], problem: str) -> None:
    path = write(tmp_path / "test.jsonl", row)
    with pytest.raises(ValueError, match=problem):
        list(load_environment("gsm8k", str(path)).tasks["eval"])


@pytest.mark.parametrize("name", ["", "nowhere"])
def test_a_path_without_the_data_set_is_refused(tmp_path: Path, name: str) -> None:
    with pytest.raises(FileNotFoundError, match="no folder of files"):
        load_environment("gsm8k", str(tmp_path / name))


def test_a_path_without_a_data_set_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="Say which data set"):
        load_environment(path=str(tmp_path))


@pytest.mark.skipif(importlib.util.find_spec("datasets") is not None, reason="the extra is there")
def test_without_the_extra_a_data_set_by_name_is_refused_at_once() -> None:
    with pytest.raises(ModuleNotFoundError, match=r"pip install 'math-env\[hf\]'"):
        load_environment("gsm8k")


@pytest.mark.parametrize(
    ("text", "answer"),
    [
        ("#### 5", "5"),
        ("so\n#### 1,200\n", "1,200"),
        (r"\boxed{4}" + "\n#### 5", "4"),
        ("#### 4\n#### 5", "5"),
        ("#### 5\nwait", None),
        ("a #### 5", None),
        ("####", None),
        ("", None),
    ],
)
def test_the_box_counts_and_else_the_last_line(text: str, answer: str | None) -> None:
    assert extract_answer(text) == answer
