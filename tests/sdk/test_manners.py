"""Environments that change the process which loads them: what they changed is put back and told."""

import logging
import os
import signal
import subprocess
import sys
import warnings
from collections.abc import Iterator
from pathlib import Path

import pytest

from strop.errors import EnvironmentLoadError
from strop.hub.load import load_project
from strop.trajectory_file import read_trajectories
from tests.sdk.cli.command import STROP, strop
from tests.sdk.installed_module import install_module
from tests.sdk.serve.remote.serving import PROJECT
from tests.waiting import wait_until

CODE = """
{at_import}
from strop import Environment, Task, TaskSet, reward

@reward(range=(0, 1), inline=True)
def is_right(trajectory):
    return float(trajectory.text == "x")

def load_environment():
    {at_load}
    return Environment(
        tasks=TaskSet.generate(lambda index, rng: Task("", "say x")),
        rewards=[is_right],
        oracle=lambda task: "x",
    )
"""

RUDE = {
    "working folder": "import os; os.chdir('/')",
    "signal handlers": "import signal; signal.signal(signal.SIGINT, signal.SIG_IGN); "
    "signal.signal(signal.SIGTERM, signal.SIG_IGN)",
    "root logger": "import logging; logging.basicConfig(); "
    "logging.getLogger().setLevel(logging.DEBUG)",
    "standard streams": "import sys; sys.stdout = sys.stderr = None",
}


def write_project(folder: Path, *, at_import: str = "pass", at_load: str = "pass") -> Path:
    folder.mkdir(exist_ok=True)
    (folder / "pyproject.toml").write_text(PROJECT.format(name="rude-env", module="rude_env"))
    (folder / "README.md").write_text("# Rude\n")
    (folder / "rude_env.py").write_text(CODE.format(at_import=at_import, at_load=at_load))
    return folder


@pytest.fixture(autouse=True)
def _forgotten() -> Iterator[None]:
    path = list(sys.path)
    yield
    sys.path[:] = path
    sys.modules.pop("rude_env", None)


@pytest.mark.parametrize("place", ["at_import", "at_load"])
@pytest.mark.parametrize("kind", RUDE)
def test_what_an_environment_changes_of_the_process_is_put_back_and_told(
    kind: str, place: str, tmp_path: Path
) -> None:
    folder = write_project(tmp_path / "rude", **{place: RUDE[kind]})
    root = logging.getLogger()
    before = (os.getcwd(), signal.getsignal(signal.SIGINT), root.handlers[:], root.level)
    streams = (sys.stdout, sys.stderr)

    with pytest.warns(UserWarning, match=f"rude-env changed the process .*{kind}.* put back"):
        environment = load_project(folder)

    assert (os.getcwd(), signal.getsignal(signal.SIGINT), root.handlers[:], root.level) == before
    assert (sys.stdout, sys.stderr) == streams
    assert environment.identity.name == "rude-env"


def test_a_polite_one_is_loaded_without_a_word(tmp_path: Path) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        load_project(write_project(tmp_path / "rude"))


@pytest.mark.parametrize("leave", ["raise SystemExit(0)", "import sys; sys.exit('bye')"])
def test_one_that_leaves_is_named_and_what_it_changed_is_put_back(
    leave: str, tmp_path: Path
) -> None:
    folder = write_project(tmp_path / "rude", at_import=f"{RUDE['working folder']}\n{leave}")
    before = os.getcwd()

    with pytest.raises(EnvironmentLoadError, match=r"rude.env.*SystemExit"):
        load_project(folder)

    assert os.getcwd() == before


def test_a_handler_that_was_there_before_stays(tmp_path: Path) -> None:
    root = logging.getLogger()
    own = logging.NullHandler()
    root.addHandler(own)
    file = tmp_path / "left.log"
    replacing = f"logging.getLogger().handlers[:] = [logging.FileHandler({str(file)!r})]"
    code = f"import logging; {replacing}"
    try:
        with pytest.warns(UserWarning, match="root logger"):
            load_project(write_project(tmp_path / "rude", at_import=code))
        assert own in root.handlers
        assert file.exists()
        assert str(file) not in {getattr(each, "baseFilename", "") for each in root.handlers}
    finally:
        root.removeHandler(own)


@pytest.fixture
def site(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder on the import path with a rude environment, as an installer leaves it."""
    code = CODE.format(at_import="; ".join(RUDE.values()), at_load="pass")
    folder = install_module(tmp_path / "site", "rude_env", code)
    monkeypatch.setenv("PYTHONPATH", str(folder))
    return folder


@pytest.mark.usefixtures("site")
def test_a_run_of_a_rude_environment_writes_where_it_was_told_to(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)

    done = strop("eval", "run", "rude-env", "-n", "4", "--out", "here/out", "--json")

    assert done.document["attempt_count"] == 4
    assert len(read_trajectories(tmp_path / "here" / "out" / "trajectories.jsonl")) == 4
    for kind in RUDE:
        assert kind in done.stderr
    assert "DEBUG" not in done.stderr


@pytest.mark.usefixtures("site")
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_run_of_a_rude_environment_ends_on_a_signal(
    number: signal.Signals, tmp_path: Path
) -> None:
    out = tmp_path / "out"
    child = subprocess.Popen(
        [STROP, "eval", "run", "rude-env", "-n", str(10**9), "--out", str(out)],
        stderr=subprocess.PIPE,
        text=True,
    )
    lines = out / "trajectories.jsonl"
    try:
        wait_until(lambda: child.poll() or (lines.exists() and lines.stat().st_size > 50_000))
        child.send_signal(number)
        _, said = child.communicate(timeout=120)
    finally:
        child.kill()

    assert child.returncode == 128 + number
    assert "Go on with --resume" in said
