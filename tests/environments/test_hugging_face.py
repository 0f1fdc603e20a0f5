"""Rows of a set in the form of the Hugging Face hub, through its own library, from a folder."""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

pytestmark = [pytest.mark.slow, pytest.mark.timeout(1800)]

READ = """
import json, sys
from math_env import load_environment
splits = load_environment("rows", sys.argv[1], columns={"question": "problem"}).tasks
print(json.dumps({s: [[t.key, t.prompt[0].text, t.reference] for t in splits[s]] for s in splits}))
"""
CONFIGURATIONS = """---
configs:
- config_name: easy
  data_files: easy.jsonl
- config_name: hard
  data_files: hard.jsonl
---
"""


@pytest.fixture(scope="module")
def library(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The library `datasets`, where only who asks for it finds it."""
    folder = tmp_path_factory.mktemp("library")
    install = [sys.executable, "-m", "pip", "install", "--quiet", "--target", str(folder)]
    subprocess.run([*install, "datasets>=3"], check=True, stdin=subprocess.DEVNULL)
    return folder


def read(address: str, library: Path, import_path: str) -> "subprocess.CompletedProcess[str]":
    return subprocess.run(
        [sys.executable, "-c", READ, address],
        capture_output=True,
        text=True,
        env={**os.environ, "PYTHONPATH": os.pathsep.join([str(library), import_path])},
    )


def write(folder: Path, **files: list[str]) -> Path:
    """A set whose files have some sums each, all of which give 4."""
    for name, problems in files.items():
        lines = [json.dumps({"problem": each, "answer": "4"}) for each in problems]
        (folder / f"{name}.jsonl").write_text("\n".join(lines))
    return folder


@pytest.mark.parametrize(
    ("files", "splits"),
    [
        (
            {"train": ["1+3?", "2+2?"], "test": ["3+1?"]},
            {"train": [["0", "1+3?", "4"], ["1", "2+2?", "4"]], "eval": [["0", "3+1?", "4"]]},
        ),
        (
            {"validation": ["2+2?"], "test": ["3+1?"]},
            {"validation": [["0", "2+2?", "4"]], "eval": [["0", "3+1?", "4"]]},
        ),
        ({"validation": ["2+2?"]}, {"eval": [["0", "2+2?", "4"]]}),
    ],
    ids=["train and test", "validation and test", "validation alone"],
)
def test_rows_are_read_by_split_and_column(
    library: Path, import_path: str, tmp_path: Path, files: dict[str, list[str]], splits: Any
) -> None:
    ended = read(f"hf://{write(tmp_path, **files)}", library, import_path)
    assert ended.returncode == 0, ended.stderr
    assert json.loads(ended.stdout) == splits


def test_of_several_configurations_one_is_chosen_or_all(
    library: Path, import_path: str, tmp_path: Path
) -> None:
    folder = write(tmp_path, easy=["2+2?"], hard=["2*2?"])
    (folder / "README.md").write_text(CONFIGURATIONS)
    refused = read(f"hf://{folder}", library, import_path)
    assert f"has the configurations easy, hard. Choose one, as hf://{folder}@easy" in refused.stderr
    one = read(f"hf://{folder}@hard", library, import_path)
    assert json.loads(one.stdout) == {"train": [["0", "2*2?", "4"]]}
    both = read(f"hf://{folder}@*", library, import_path)
    assert json.loads(both.stdout) == {"train": [["easy-0", "2+2?", "4"], ["hard-0", "2*2?", "4"]]}
