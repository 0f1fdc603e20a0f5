"""The checks of `make check` and `.ci/run` find what they are for."""

import inspect
import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import coverage
import pytest

from strop import process_worker
from strop.hub.building import settings_child
from strop.hub.building.settings import settings_schema
from strop.parsers import tagged
from tests.architecture import coverage_floors, hygiene, sizes, skips, unsteady
from tests.architecture.tree import ROOT

JUNIT = """<testsuites><testsuite>
<testcase classname="tests.sdk.test_refs" name="test_parse"/>
<testcase classname="tests.sdk.test_refs" name="test_tag"><failure message="no"/></testcase>
<testcase classname="tests.sdk.test_maths" name="test_rows[gsm8k]">
  <skipped message="data set gsm8k is absent"/></testcase>
</testsuite></testsuites>"""


def test_a_module_over_450_lines_is_named() -> None:
    (problem,) = sizes.module_problems(Path("a.py"), "x = 1\n" * 451, is_test=False)
    assert problem.startswith("a.py: 451 lines")


def test_a_function_over_60_lines_is_named() -> None:
    text = "def long():\n" + "    x = 1\n" * 60
    (problem,) = sizes.module_problems(Path("a.py"), text, is_test=False)
    assert problem.startswith("a.py:1 long: 61 lines")


def test_a_function_of_six_positional_parameters_is_named_unless_it_is_a_test() -> None:
    text = "class A:\n    def wide(self, a, b, c, d, e, f, *, g): ...\n"
    (problem,) = sizes.module_problems(Path("a.py"), text, is_test=False)
    assert problem.startswith("a.py:2 wide: 6 positional parameters")
    assert not list(sizes.module_problems(Path("a.py"), text, is_test=True))


def test_blank_lines_comments_and_docstrings_do_not_count() -> None:
    text = '"""A.\n\nB.\n"""\n\nx = 1  # why\n\n# why\ny = """\n2\n"""\n'
    assert sizes.count_lines(text) == 4


@pytest.mark.parametrize(
    "line", ["see /" + "work/main", "cd /" + "home/ada/x", "https://" + "pypi" + ".org/simple"]
)
def test_a_line_with_a_machines_path_or_an_index_host_is_named(line: str) -> None:
    (problem,) = hygiene.line_problems(Path("a.md"), f"first\n{line}\n")
    assert problem.startswith("a.md:2: ")


def test_relative_paths_and_urls_of_the_hub_are_let_through() -> None:
    text = "../shared/data http://127.0.0.1:8000/home/ada docs/network/root/x"
    assert not list(hygiene.line_problems(Path("a.md"), text))


def test_a_folder_below_its_floor_is_an_error(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    def summary(covered: int) -> dict[str, object]:
        counts = {"covered_lines": 9, "num_statements": 10}
        return {"summary": {**counts, "covered_branches": covered, "num_branches": 10}}

    report = tmp_path / "coverage.json"
    names = {"sdk/strop/hub/a.py": 10, "sdk/strop/hub/b.py": 9}
    names["hub_server/strop_hub/publish/a.py"] = 8
    report.write_text(json.dumps({"files": {name: summary(n) for name, n in names.items()}}))
    assert coverage_floors.main(report) == 1
    first, second = capsys.readouterr().out.splitlines()
    assert "branches 95.0 %" in first
    assert "BELOW" not in first
    assert "BELOW" in second


def test_only_tests_of_the_floors_are_measured_with_the_processes_that_they_start(
    tmp_path: Path,
) -> None:
    tests = (
        "tests/sdk/hub/test_settings_schema.py::test_a_source_folder_is_looked_into",
        "tests/sdk/test_processes.py::test_it_scores_what_a_thread_would",
        "tests/sdk/test_parsers.py",
    )
    environment = os.environ | {
        "COVERAGE_FILE": str(tmp_path / ".coverage"),
        "COVERAGE_PROCESS_START": str(ROOT / "pyproject.toml"),
    }
    environment.pop("COVERAGE_PROCESS_CONFIG", None)
    plugins = ("-p", "tests.architecture.measuring", "-p", "no:cacheprovider")
    for command in (("pytest", "-q", "-n", "1", *plugins, *tests), ("coverage", "combine", "-q")):
        subprocess.run([sys.executable, "-m", *command], cwd=ROOT, env=environment, check=True)
    measured = coverage.CoverageData(str(tmp_path / ".coverage"))
    measured.read()

    def has_run(function: Callable[..., object]) -> bool:
        lines, first = inspect.getsourcelines(function)
        file = inspect.getsourcefile(function)
        run = set(measured.lines(str(file)) or ())
        return bool(run & set(range(first + 1, first + len(lines))))

    assert has_run(settings_schema)
    assert has_run(settings_child.main)
    assert not has_run(process_worker.main)
    assert not has_run(tagged)


def test_a_skip_that_nobody_allowed_is_found(tmp_path: Path) -> None:
    report = tmp_path / "junit.xml"
    report.write_text(JUNIT)
    outcome = skips.read_outcome(report)
    assert (outcome.passed_count, outcome.failed_count) == (1, 1)
    (skip,) = outcome.skips
    assert skip.cause == "data set gsm8k is absent"
    assert skips.unallowed(outcome.skips, ["tests.hub_server.*"]) == [skip]
    assert not skips.unallowed(outcome.skips, ["tests.sdk.test_maths::*"])


def test_every_allowed_skip_has_a_reason() -> None:
    skips.read_allowed()


def _a_checkout(root: Path, **tests: str) -> Path:
    """A folder whose tests have been run once, their failures kept by pytest."""
    (root / "pytest.ini").write_text("[pytest]\n")
    for name, body in tests.items():
        (root / f"test_{name}.py").write_text(f"def test_it():\n    {body}\n")
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:randomly"]
    subprocess.run(command, cwd=root, capture_output=True, timeout=500)
    return root


FIRST_TIME_ONLY = """
    from pathlib import Path
    been = Path(__file__).with_suffix(".been")
    is_first = not been.exists()
    been.touch()
    assert not is_first
"""


def test_a_test_that_fails_once_and_passes_alone_is_named(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    root = _a_checkout(tmp_path, fickle=FIRST_TIME_ONLY, steady="pass")
    again = tmp_path / "unsteady.xml"

    assert unsteady.main(1, again, root) == 0
    assert "  test_fickle.py::test_it\n" in capsys.readouterr().out

    report = tmp_path / "junit.xml"
    report.write_text(JUNIT)
    skips.main(report, again)
    told = capsys.readouterr().out
    assert "Run again, alone: 1 passed, 0 failed" in told
    assert "UNSTEADY     test_fickle::test_it" in told


def test_a_test_that_fails_twice_is_red(tmp_path: Path) -> None:
    root = _a_checkout(tmp_path, fickle=FIRST_TIME_ONLY, broken="raise AssertionError")

    assert unsteady.main(1, tmp_path / "unsteady.xml", root) == 1


def test_many_failures_are_red_without_another_run(tmp_path: Path) -> None:
    names = {f"fickle{number}": FIRST_TIME_ONLY for number in range(unsteady.MOST + 1)}
    root = _a_checkout(tmp_path, **names)

    assert unsteady.main(1, tmp_path / "unsteady.xml", root) == 1
    assert not (tmp_path / "unsteady.xml").exists()


def test_a_run_that_failed_before_any_test_is_red(tmp_path: Path) -> None:
    assert unsteady.main(1, tmp_path / "unsteady.xml", tmp_path) == 1


def test_a_run_that_was_cut_short_is_red_whatever_had_failed(tmp_path: Path) -> None:
    root = _a_checkout(tmp_path, fickle=FIRST_TIME_ONLY)

    for cut_short in (2, 3, 137):
        assert unsteady.main(cut_short, tmp_path / "unsteady.xml", root) == 1
    assert not (tmp_path / "unsteady.xml").exists()
