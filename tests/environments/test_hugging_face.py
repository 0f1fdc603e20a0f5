"""Rows of a set in the form of the Hugging Face hub, through its own library, from a folder."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = [pytest.mark.slow, pytest.mark.timeout(1800)]

READ = """
import json, sys
from math_env import load_environment
splits = load_environment("rows", sys.argv[1], columns={"question": "problem"}).tasks
print(json.dumps({s: [[t.key, t.prompt[0].text, t.reference] for t in splits[s]] for s in splits}))
"""


@pytest.fixture
def library(tmp_path: Path) -> Path:
    """The library `datasets`, where only who asks for it finds it."""
    folder = tmp_path / "library"
    install = [sys.executable, "-m", "pip", "install", "--quiet", "--target", str(folder)]
    subprocess.run([*install, "datasets>=3"], check=True, stdin=subprocess.DEVNULL)
    return folder


def test_rows_are_read_by_split_and_column(library: Path, import_path: str, tmp_path: Path) -> None:
    rows = {"train": ["1+1?", "2+2?"], "test": ["3+3?"]}
    repository = tmp_path / "sums"
    repository.mkdir()
    for split, problems in rows.items():
        lines = [json.dumps({"problem": each, "answer": "4"}) for each in problems]
        (repository / f"{split}.jsonl").write_text("\n".join(lines))
    printed = subprocess.run(
        [sys.executable, "-c", READ, f"hf://{repository}"],
        check=True,
        stdout=subprocess.PIPE,
        env={**os.environ, "PYTHONPATH": os.pathsep.join([str(library), import_path])},
    ).stdout
    assert json.loads(printed) == {
        "eval": [["0", "3+3?", "4"]],
        "train": [["0", "1+1?", "4"], ["1", "2+2?", "4"]],
    }
