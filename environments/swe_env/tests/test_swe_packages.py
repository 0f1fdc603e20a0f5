"""Real packages get faults that their own tests find, and are judged by them."""

import io
import tarfile
from pathlib import Path
from typing import Any

import pytest
from swe_env import load_environment

from strop import Environment, ScriptedModel, Task, Trajectory
from strop.errors import SettingsError
from strop.models.scripted import call

SOURCE = '''"""A little library."""


def clamp(value, low, high):
    return min(max(value, low), high)


def grade(points):
    if points >= 90:
        return "a"
    return "b" if points > 50 else "c"
'''
TESTS = """import pytest
from tiny_marks import clamp, grade


@pytest.mark.parametrize("value", [1, 5])
def test_clamp(value):
    assert clamp(value, 0, 9) == value


def test_clamp_low():
    assert clamp(-3, 0, 9) == 0


def test_grade():
    assert grade(90) == "a"


def test_grade_b():
    assert grade(60) == "b"


def test_grade_c():
    assert grade(50) == "c"


def test_names():
    assert clamp.__name__ == "clamp" and grade.__name__ == "grade"
"""


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    return tmp_path / "cache"


def sdist(folder: Path, **changed: str) -> str:
    """A source distribution of a library with tests of its own."""
    files = {
        "PKG-INFO": "Metadata-Version: 2.1\nName: tiny-marks\nVersion: 1.0\n",
        "setup.py": "raise SystemExit('a build began')",
        "tiny_marks.py": SOURCE,
        "setup.cfg": "[tool:pytest]\naddopts = --cov\n",
        "test_marks.py": TESTS,
    }
    path = folder / "tiny_marks-1.0.tar.gz"
    with tarfile.open(path, "w:gz") as archive:
        for name, text in {**files, **changed}.items():
            member = tarfile.TarInfo(f"tiny_marks-1.0/{name}")
            member.size = len(text.encode())
            archive.addfile(member, io.BytesIO(text.encode()))
    return str(path)


def tasks_of(environment: Environment) -> list[Task]:
    return [task for tasks in environment.tasks.values() for task in tasks]


async def play(environment: Environment, task: Task, *replies: Any) -> Trajectory:
    trajectory = await environment.rollout(task, ScriptedModel.replies([*replies, "Ready."]))
    assert trajectory.failure is None, trajectory.failure
    return trajectory


async def test_a_package_is_built_once_and_judged_by_its_own_hidden_tests(
    tmp_path: Path, cache: Path
) -> None:
    path = sdist(tmp_path)
    environment = load_environment(source="index", path=path, fault_count=1)
    tasks = tasks_of(environment)
    [record] = (cache / "strop" / "swe-env").iterdir()
    before = record.stat().st_mtime_ns
    again = load_environment(source="index", path=path, fault_count=1, seed=0)
    assert [task.digest for task in tasks_of(again)] == [task.digest for task in tasks]
    assert record.stat().st_mtime_ns == before
    async with environment:
        task = tasks[0]
        reference: Any = task.reference
        hidden = {test.partition("[")[0].split("::")[1] for test in reference["fault"]["failing"]}
        assert hidden
        assert all(name in task.prompt[0].text for name in list(hidden)[:1])
        assert environment.oracle is not None
        good = await play(environment, task, *environment.oracle(task)[:-1])
        assert (good.reward, good.outcome["scoring_isolation"]) == (1.0, "shared")
        cheat = "printf 'def pytest_collection_modifyitems(items): items.clear()' > conftest.py"
        look = call("bash", commands=f"{cheat}; cat *.py; git log -p; find / -name 'tiny_*' -prune")
        bad = await play(environment, task, call("run_tests"), look)
        assert bad.reward == 0.0
        assert bad.outcome["failing_visible"] == 0
        assert bad.outcome["failing_hidden"] == len(reference["fault"]["failing"])
        told = [m.text for s in bad.segments for m in s.messages if m.role == "tool"]
        assert " passed" in told[0]
        assert "failed" not in told[0]
        assert "def test_names" in told[1]
        assert [name for name in hidden if f"def {name}(" in told[1]] == []
    # A module that every sandbox has, as if it were the package to be repaired.
    environment.packages = ["json"]  # type: ignore[attr-defined]
    with pytest.raises(SettingsError, match="shows json"):
        async with environment:
            pass


BLANKET = "import _pytest.python as p\np.Function.runtest = lambda self: None\n"
REPORTS = """import _pytest.reports as r
_made = r.TestReport.from_item_and_call.__func__
def _passing(cls, item, call):
    call.excinfo = None
    return _made(cls, item, call)
r.TestReport.from_item_and_call = classmethod(_passing)
"""
BY_NAME = """import _pytest.python as p
_run = p.Function.runtest
p.Function.runtest = lambda self: None if self.originalname in {names} else _run(self)
"""
FILE = """import atexit, re, sys
def _forge():
    path = next(a.partition("=")[2] for a in sys.orig_argv if a.startswith("--junitxml="))
    text = open(path).read()
    open(path, "w").write(re.sub("<failure.*?</failure>", "", text, flags=re.S))
atexit.register(_forge)
"""


async def test_code_that_changes_how_tests_are_judged_repairs_nothing(tmp_path: Path) -> None:
    environment = load_environment(source="index", path=sdist(tmp_path), fault_count=1)
    async with environment:
        task = tasks_of(environment)[0]
        reference: Any = task.reference
        names = {test.partition("[")[0].split("::")[1] for test in reference["fault"]["failing"]}
        for hack in (BLANKET, REPORTS, BY_NAME.replace("{names}", repr(names)), FILE):
            write = call("bash", commands=f"cat >> tiny_marks.py <<'END'\n{hack}END")
            cheated = await play(environment, task, write)
            assert cheated.reward == 0.0
            assert cheated.outcome["repaired"] == 0.0
        assert environment.oracle is not None
        repaired = await play(environment, task, *environment.oracle(task)[:-1])
        assert repaired.reward == 1.0


async def test_tests_in_classes_and_modules_of_any_name_judge_too(tmp_path: Path) -> None:
    methods = "".join(f"    {line}\n" for line in TESTS.split("\n")[7:] if line)
    files = {
        "setup.cfg": "[tool:pytest]\npython_files = marks.py\n",
        "test_marks.py": "def test_never():\n    assert False\n",
        "checks/__init__.py": "",
        "checks/marks.py": f"from tiny_marks import clamp, grade\n\n\nclass TestMarks:\n{methods}",
    }
    files["checks/marks.py"] = files["checks/marks.py"].replace("():", "(self):")
    environment = load_environment(source="index", path=sdist(tmp_path, **files), fault_count=1)
    async with environment:
        task = tasks_of(environment)[0]
        assert environment.oracle is not None
        assert (await play(environment, task, *environment.oracle(task)[:-1])).reward == 1.0
        assert (await play(environment, task)).outcome["repaired"] == 0.0


@pytest.mark.parametrize(
    ("tests", "problem"),
    [
        ("def test_it():\n    assert False\n", "do not pass in a sandbox"),
        ("def test_it():\n    pass\n", "find no fault"),
        ("", "no tests"),
    ],
)
def test_a_package_whose_tests_judge_nothing_is_refused(
    tmp_path: Path, tests: str, problem: str
) -> None:
    path = sdist(tmp_path, **{"test_marks.py": tests, "tiny_marks.py": "ONE = 1\n"})
    with pytest.raises(SettingsError, match=problem):
        load_environment(source="index", path=path, fault_count=1)


def test_packages_are_named_where_they_are_asked_for() -> None:
    for settings in ({"source": "index"}, {"packages": ("a==1",)}, {"path": "a-1.tar.gz"}):
        with pytest.raises(SettingsError, match="goes with packages"):
            load_environment(**settings)  # type: ignore[arg-type]


@pytest.mark.slow
@pytest.mark.timeout(900)
async def test_a_package_of_the_index_is_repaired() -> None:
    environment = load_environment(source="index", packages=("inflection==0.5.1",), fault_count=4)
    async with environment:
        for task in tasks_of(environment):
            assert environment.oracle is not None
            assert (await play(environment, task, *environment.oracle(task)[:-1])).reward == 1.0
            assert (await play(environment, task)).reward == 0.0
