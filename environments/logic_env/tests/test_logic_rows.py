"""Rows of files, each as a task; and what is said when there are none."""

import importlib.util
import json
from pathlib import Path
from typing import Any

import pytest
from logic_env import load_environment

from strop import ScriptedModel

BBH = {"canary": "x", "examples": [{"input": "not True is\n(A) x", "target": "(A)"}] * 40}
KNIGHTS = {"quiz": "Who lies?", "names": ["Ann", "Bob"], "solution": [True, False]}


def write(path: Path, *rows: dict[str, Any]) -> Path:
    path.write_text("".join(json.dumps(row) + "\n\n" for row in rows), encoding="utf-8")
    return path


def test_a_folder_of_big_bench_hard_gives_every_file_and_leaves_excluded_rows_out(
    tmp_path: Path,
) -> None:
    for name in ("causal_judgement", "navigate"):
        (tmp_path / f"{name}.json").write_text(json.dumps(BBH))
    tasks = load_environment("bbh", str(tmp_path)).tasks
    assert list(tasks) == ["eval"]
    keys = {task.key for task in tasks["eval"]}
    assert len(keys) == 80 - 2
    assert "navigate-32" in keys
    assert "causal_judgement-32" not in keys


async def test_knights_and_knaves_come_from_parquet_files_by_split(tmp_path: Path) -> None:
    pyarrow = pytest.importorskip("pyarrow")
    parquet = importlib.import_module("pyarrow.parquet")
    for split in ("train", "test"):
        parquet.write_table(
            pyarrow.Table.from_pylist([KNIGHTS]), tmp_path / f"2ppl_{split}.parquet"
        )
    environment = load_environment("knights_knaves", str(tmp_path))
    assert list(environment.tasks) == ["train", "eval"]
    async with environment:
        task = environment.tasks["train"].get("2ppl_train-0")
        model = ScriptedModel.constant("Ann is a knight and Bob is a knave.")
        assert (await environment.rollout(task, model)).reward == 1


def test_any_columns_can_be_the_question_and_the_answer(tmp_path: Path) -> None:
    path = write(tmp_path / "train.jsonl", {"q": "1 or 2?", "a": 2}, {"q": "3?", "a": "a\u2028b"})
    environment = load_environment("rows", str(path), columns={"question": "q", "answer": "a"})
    assert [task.reference for task in environment.tasks["train"]] == ["2", "a\u2028b"]
    with pytest.raises(ValueError, match="row 0: no column 'question'; it has: 'q', 'a'"):
        list(load_environment("rows", str(path)).tasks["train"])


def test_a_path_without_files_is_refused(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError, match="no folder of files"):
        load_environment("bbh", str(tmp_path))


@pytest.mark.skipif(importlib.util.find_spec("datasets") is not None, reason="the extra is there")
def test_without_the_extra_a_data_set_by_name_is_refused_at_once() -> None:
    with pytest.raises(ModuleNotFoundError, match=r"pip install 'logic-env\[hf\]'"):
        load_environment("bbh")
