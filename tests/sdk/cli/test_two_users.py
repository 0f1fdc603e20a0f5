"""Two people run environments on one machine at once, with one folder for temporary files."""

import os
import shutil
import stat
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

from strop.trajectory_file import read_trajectories
from tests.sdk.cli.command import STROP
from tests.sdk.installed_module import install_module
from tests.sdk.serve.intercept.programs import BY_HAND
from tests.waiting import wait_until

CODE = """
    import os, sys
    from strop import Environment, Task, reward
    from strop.serve.intercept import AgentEpisode, Program

    AGENT = {agent!r}

    class Asking(AgentEpisode):
        def program(self):
            mark = os.environ["HOME"] + "/begun-" + self.task.key
            return Program([sys.executable, "-c", AGENT, mark, os.environ["GO"]])

    @reward(process=True, range=(0, 1))
    def is_right(trajectory):
        return float(trajectory.text == trajectory.task.reference)

    def load_environment():
        tasks = [Task(str(number), "ask", "answer") for number in range(4)]
        return Environment(
            tasks=tasks, rewards=[is_right], episode=Asking, oracle=lambda task: "answer"
        )
"""

AGENT = BY_HAND + textwrap.dedent("""
    open(sys.argv[1], "w").close()
    wait_for(sys.argv[2])
    call("what?")
""")


def as_user(number: int) -> list[str]:
    """How to become another user, who may read what this one may read, and write nothing of it.

    Nothing where that is not allowed: then one user plays both.
    """
    caps = "+dac_read_search"
    ids = [f"--reuid={number}", f"--regid={number}", "--clear-groups"]
    become = ["setpriv", *ids, f"--inh-caps={caps}", f"--ambient-caps={caps}"]
    if os.getuid() or not shutil.which("setpriv") or subprocess.run([*become, "true"]).returncode:
        return []
    return become


@pytest.fixture
def site(tmp_path: Path) -> Path:
    """A folder for the import path with an environment, as an installer leaves it."""
    code = textwrap.dedent(CODE.format(agent=AGENT))
    return install_module(tmp_path / "site", "ask_env", code)


def test_two_users_on_one_host_do_not_meet(site: Path, tmp_path: Path) -> None:
    temporary = tmp_path / "temporary"
    temporary.mkdir()
    temporary.chmod(0o1777)
    go = tmp_path / "go"
    homes, runs = [], []
    for number in (4001, 4002):
        home = tmp_path / str(number)
        home.mkdir(mode=0o700)
        become = as_user(number)
        if become:
            os.chown(home, number, number)
        homes.append(home)
        places = {"HOME": str(home), "TMPDIR": str(temporary), "GO": str(go)}
        runs.append(
            subprocess.Popen(
                [*become, sys.executable, STROP, "eval", "run", "ask-env", "--out", home / "out"],
                env={"PATH": os.environ["PATH"], "PYTHONPATH": str(site), **places},
                stdout=subprocess.DEVNULL,
                stderr=subprocess.PIPE,
                text=True,
            )
        )
    try:
        # Both are in the middle of their runs.
        wait_until(lambda: all(len(list(home.glob("begun-*"))) == 4 for home in homes))
        open_to_others = [
            path
            for path in temporary.iterdir()
            if stat.S_IMODE(path.stat().st_mode) & 0o077 and path.name.startswith("strop")
        ]
        assert open_to_others == []
    finally:
        go.touch()
        said = [run.communicate(timeout=120)[1] for run in runs]

    assert [run.returncode for run in runs] == [0, 0], said
    for home in homes:
        kept = read_trajectories(home / "out" / "trajectories.jsonl")
        assert [each.reward for each in kept] == [1.0] * 4
    assert [path.name for path in temporary.iterdir() if path.name.startswith("strop")] == []
