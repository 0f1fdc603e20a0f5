"""Rows of data sets and of files of one's own."""

import importlib.util
import json
from pathlib import Path
from typing import Any

import pytest
from science_env import load_environment
from science_env.answer import chosen_letter

from strop import ScriptedModel, Task

CHOICE = {"question": "Which is a metal?", "choices": ["S", "Fe", "Ne", "He"], "answer": 1}
LABELLED = {
    "question_stem": "Which is a metal?",
    "choices": {"text": ["S", "Fe", "Ne"], "label": ["1", "2", "3"]},
    "answerKey": "2",
}
INSTRUCTION = {
    "instruction": "Please choose the correct answer to the question: Which one\nis a metal?\n\n"
    "Answer1: S Answer2: Fe Answer3: Ne\n\nAnswer format: answer1/answer2/answer3",
    "answer": "answer2",
}
HOSTILE = ["9**9**9**9 m", "1e999999 m", "(" * 10_000, "m" * 10_000, "\uff11\uff12 m", "12 \u043c"]


def write(path: Path, *rows: Any, is_list: bool = False) -> str:
    lines = [json.dumps(row) for row in rows]
    path.write_text(f"[{', '.join(lines)}]" if is_list else "\n".join(lines), encoding="utf-8")
    return str(path)


def one_task(tmp_path: Path, row: Any, **settings: Any) -> Task:
    path = write(tmp_path / "rows.jsonl", row)
    [task] = load_environment("rows", path, **settings).tasks["eval"]
    return task


async def reward_of(path: str, text: str, **settings: Any) -> float | None:
    environment = load_environment("rows", path, **settings)
    async with environment:
        [task] = environment.tasks["eval"]
        trajectory = await environment.rollout(task, ScriptedModel.constant(text))
    assert trajectory.failure is None
    return trajectory.reward


@pytest.mark.parametrize("is_list", [False, True])
def test_a_folder_gives_the_splits_whose_files_it_holds(tmp_path: Path, is_list: bool) -> None:
    ending = "json" if is_list else "jsonl"
    write(tmp_path / f"train.{ending}", CHOICE, CHOICE, is_list=is_list)
    write(tmp_path / f"test.{ending}", CHOICE, is_list=is_list)
    splits = load_environment("mmlu_stem", str(tmp_path)).tasks
    keys = {split: [task.key for task in tasks] for split, tasks in splits.items()}
    assert keys == {"train": ["0", "1"], "eval": ["0"]}
    (tmp_path / f"train.{ending}").unlink()
    assert list(load_environment("mmlu_stem", str(tmp_path)).tasks) == ["eval"]


@pytest.mark.parametrize(("name", "split"), [("my_train.jsonl", "train"), ("rows.json", "eval")])
def test_a_file_is_one_split(tmp_path: Path, name: str, split: str) -> None:
    assert list(load_environment("rows", write(tmp_path / name, CHOICE)).tasks) == [split]


@pytest.mark.parametrize(
    ("row", "columns", "count"),
    [
        (CHOICE, {}, 4),
        (CHOICE | {"answer": "B"}, {}, 4),
        (LABELLED, {"question": "question_stem", "answer": "answerKey"}, 3),
        (INSTRUCTION, {}, 3),
    ],
)
def test_choices_come_in_several_forms(
    tmp_path: Path, row: dict[str, Any], columns: dict[str, str], count: int
) -> None:
    task = one_task(tmp_path, row, columns=columns)
    assert task.reference == "B"
    assert task.metadata == {"form": "choice", "choices": ["S", "Fe", "Ne", "He"][:count]}
    assert task.prompt[0].text.splitlines()[-count:] == ["A. S", "B. Fe", "C. Ne", "D. He"][:count]


@pytest.mark.parametrize(
    ("row", "reference", "form"),
    [
        ({"question": "?", "answer": "9.81 m/s^2"}, "9.81 m/s^2", "quantity"),
        ({"question": "?", "answer": 9.81, "unit": "m/s^2"}, "9.81 m/s^2", "quantity"),
        ({"question": "?", "answer": 42}, "42", "quantity"),
        ({"question": "?", "answer": 42, "unit": None}, "42", "quantity"),
        ({"question": "?", "answer": "a noble gas"}, "a noble gas", "text"),
    ],
)
def test_the_answer_decides_how_it_is_compared(
    tmp_path: Path, row: dict[str, Any], reference: str, form: str
) -> None:
    task = one_task(tmp_path, row)
    assert (task.reference, task.metadata) == (reference, {"form": form})


def test_columns_may_have_any_name_and_one_may_be_the_key(tmp_path: Path) -> None:
    row = {"Problem": "How fast?", "Value": 3, "In": "m/s", "Id": 17}
    columns = {"question": "Problem", "answer": "Value", "unit": "In", "key": "Id"}
    task = one_task(tmp_path, row, columns=columns)
    assert (task.key, task.prompt[0].text, task.reference) == ("17", "How fast?", "3 m/s")


def test_a_row_whose_right_choice_stands_twice_is_passed_over(tmp_path: Path) -> None:
    twice = CHOICE | {"choices": ["Fe", "Fe", "Ne", "He"]}
    cased = CHOICE | {"choices": ["FE", "Fe", "Ne", "He"]}
    path = write(tmp_path / "rows.jsonl", twice, cased, CHOICE)
    assert [task.key for task in load_environment("rows", path).tasks["eval"]] == ["1", "2"]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (r"\boxed{B}", 1),
        (r"\boxed{b}", 1),
        (r"\boxed{(B)}", 1),
        (r"\boxed{\text{B}}", 1),
        (r"\boxed{B.}", 1),
        (r"\boxed{B. Fe}", 1),
        (r"\boxed{B) fe}", 1),
        (r"\boxed{Fe}", 1),
        (r"First \boxed{A}, but then \boxed{B}", 1),
        (r"\boxed{A}\boxed{B}\boxed{C}\boxed{D}", 0),
        (r"\boxed{A, B, C, D}", 0),
        (r"\boxed{A or B}", 0),
        (r"\boxed{B or A}", 0),
        (r"\boxed{B. Ne}", 0),
        (r"\boxed{B C}", 0),
        (r"\boxed{BCD}", 0),
        (r"\boxed{E}", 0),
        (r"\boxed{1}", 0),
        (r"\boxed{not A}", 0),
        (r"\boxed{}", 0),
        ("B", 0),
        ("", 0),
        ("\\boxed{\u0392}", 0),
        ("\\boxed{\u0412}", 0),
        ("\\boxed{\uff22}", 0),
        ("\\boxed{\U0001d401}", 0),
        ("\\boxed{\u200bB}", 0),
        ("\\boxed{F\u0435}", 0),
    ],
)
async def test_one_choice_is_wanted(tmp_path: Path, text: str, expected: float) -> None:
    assert await reward_of(write(tmp_path / "rows.jsonl", CHOICE), text) == expected


def test_capitals_part_choices_that_differ_in_nothing_else() -> None:
    texts = ["bb x bb", "Bb x Bb", "Bb x bb", "BB x Bb"]
    assert chosen_letter("BB x Bb", texts) == "D"
    assert chosen_letter("BB X BB", texts) is None
    assert chosen_letter("c", ["b", "c", "a"]) == "C"


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (r"\boxed{a noble gas}", 1),
        (r"\boxed{\text{A  noble gas}.}", 1),
        (r"\boxed{a noble gas, a metal}", 0),
        (r"\boxed{gas}", 0),
        ("\\boxed{a noble g\u0430s}", 0),
        ("a noble gas", 0),
    ],
)
async def test_a_text_is_wanted_as_it_is(tmp_path: Path, text: str, expected: float) -> None:
    path = write(tmp_path / "rows.jsonl", {"question": "Helium?", "answer": "A noble gas"})
    assert await reward_of(path, text) == expected


@pytest.mark.parametrize(
    ("answer", "expected"), [("2 Nm", 1), ("2 N-m", 1), ("2 mN", 0), ("2 N/m", 0), ("2", 0)]
)
async def test_a_unit_may_be_written_as_is_common(
    tmp_path: Path, answer: str, expected: float
) -> None:
    path = write(tmp_path / "rows.jsonl", {"question": "Which torque?", "answer": "2 N m"})
    assert await reward_of(path, rf"\boxed{{{answer}}}") == expected


@pytest.mark.parametrize("answer", HOSTILE)
async def test_odd_numbers_and_units_are_wrong_at_once(tmp_path: Path, answer: str) -> None:
    path = write(tmp_path / "rows.jsonl", {"question": "How long?", "answer": "12 m"})
    assert await reward_of(path, rf"\boxed{{{answer}}}") == 0


def test_rows_are_read_when_they_are_asked_for(tmp_path: Path) -> None:
    path = tmp_path / "rows.jsonl"
    path.write_text(json.dumps(CHOICE) + "\n\nno JSON\n", encoding="utf-8")
    tasks = load_environment("rows", str(path)).tasks["eval"]
    assert tasks[0].key == "0"
    with pytest.raises(ValueError, match="line 3: Expecting value"):
        list(tasks)


@pytest.mark.parametrize(
    ("row", "problem"),
    [
        ({"question": "?"}, "row 0: no column 'answer'"),
        ({"answer": 1}, "row 0: no column 'question'"),
        (CHOICE | {"answer": 4}, "none of its 4 choices"),
        (CHOICE | {"answer": -1}, "none of its 4 choices"),
        (CHOICE | {"answer": "Fe"}, "none of its 4 choices"),
        (INSTRUCTION | {"answer": "answer4"}, "none of its 3 choices"),
        (CHOICE | {"choices": {"text": ["S"]}}, "row 0: KeyError: 'label'"),
        (CHOICE | {"choices": 7}, "row 0: 'int' object is not iterable"),
        (7, "row 0: no object, but 7"),
    ],
)
def test_a_row_of_another_form_is_named(tmp_path: Path, row: Any, problem: str) -> None:
    path = write(tmp_path / "rows.jsonl", row)
    with pytest.raises(ValueError, match=problem):
        list(load_environment("rows", path).tasks["eval"])


def test_settings_that_do_not_fit_each_other_are_refused(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError, match="no folder of files"):
        load_environment("arc_challenge", str(tmp_path))
    with pytest.raises(ValueError, match="Say which data set"):
        load_environment(path=str(tmp_path))
    with pytest.raises(ValueError, match="Which rows"):
        load_environment("rows")
    with pytest.raises(ValueError, match="columns names 'prompt'"):
        load_environment("rows", str(tmp_path), columns={"prompt": "Problem"})


@pytest.mark.skipif(importlib.util.find_spec("datasets") is not None, reason="the extra is there")
def test_without_the_extra_a_data_set_by_name_is_refused_at_once() -> None:
    with pytest.raises(ModuleNotFoundError, match=r"pip install 'science-env\[hf\]'"):
        load_environment("mmlu_stem")
