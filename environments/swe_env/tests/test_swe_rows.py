"""Rows of SWE-bench are read; where there are no containers it says so."""

import json
from pathlib import Path
from typing import Any

import pytest
from swe_env import load_environment

from strop.errors import RowError, SettingsError

DIFF = "diff --git a/tests/test_a.py b/tests/test_a.py\n--- a/tests/test_a.py\n"
ROW = {
    "instance_id": "a__b-1",
    "repo": "a/b",
    "base_commit": "0123456789",
    "problem_statement": "It is broken.",
    "patch": "diff --git a/b.py b/b.py\n",
    "test_patch": DIFF,
    "FAIL_TO_PASS": ["tests/test_a.py::test_a"],
    "PASS_TO_PASS": [],
}


def write(folder: Path, *rows: dict[str, Any]) -> str:
    path = folder / "rows.jsonl"
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return str(path)


def test_columns_may_have_other_names(tmp_path: Path) -> None:
    row = {**ROW, "docker_image": "hub.example/b:1", "cmd": "pytest -rA {files}"}
    columns = {"image": "docker_image", "test_command": "cmd"}
    environment = load_environment(source="rows", path=write(tmp_path, row), columns=columns)
    [task] = environment.tasks["eval"]
    reference: Any = task.reference
    assert (task.key, task.prompt[0].text) == ("a__b-1", "It is broken.")
    assert task.metadata["image"] == "hub.example/b:1"
    assert reference["test_command"] == "pytest -rA {files}"


def test_a_row_that_is_none_of_swe_bench_is_named(tmp_path: Path) -> None:
    environment = load_environment(source="rows", path=write(tmp_path, ROW, {"question": "?"}))
    with pytest.raises(RowError, match="row 1: no column 'instance_id'; it has: 'question'"):
        list(environment.tasks["eval"])


@pytest.mark.parametrize("agent", ["tools", "mini-swe-agent"])
async def test_without_containers_it_says_what_to_do(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, agent: Any
) -> None:
    environment = load_environment(agent, source="rows", path=write(tmp_path, ROW))
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(SettingsError, match=r"(?s)run in images of containers.*Start Docker"):
        async with environment:
            pass


@pytest.mark.parametrize(
    "settings",
    [
        {"source": "rows", "packages": ("a==1",)},
        {"source": "rows", "path": "r.jsonl", "columns": {"x": "y"}},
        {"columns": {"image": "y"}},
        {"path": "r.jsonl"},
        {"source": "index"},
    ],
)
def test_settings_that_do_not_fit_are_refused(settings: dict[str, Any]) -> None:
    with pytest.raises(SettingsError):
        load_environment(**settings)
