"""What tests have started is gone when their process is, however it ended."""

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.architecture.tree import ROOT
from tests.waiting import wait_until

SLEEP = """
import sys, time
from pathlib import Path
from tests.servers.processes import start
folder = Path(sys.argv[1])
print(start(["sleep", "600"], folder / "log", folder=folder).pid, flush=True)
time.sleep(600)
"""
HUB = """
import sys, time
from pathlib import Path
from strop.sandbox.zygote.meter import pids_below
from tests.hub_server.running_hub import run_hub
from tests.waiting import wait_until
with run_hub(Path(sys.argv[1]) / "hub", arguments=("--workers", "2")) as hub:
    # It tells its address before its workers.
    wait_until(lambda: len(pids_below(hub.process.pid)) >= 2)
    print(hub.process.pid, *pids_below(hub.process.pid), flush=True)
    time.sleep(600)
"""
SERVERS = """
import time
from tests.servers.postgres import run_postgres
from tests.servers.seaweed import run_seaweed
with run_postgres() as database, run_seaweed() as store:
    print(database.process.pid, store.process.pid, flush=True)
    time.sleep(600)
"""

pytestmark = pytest.mark.skipif(shutil.which("setpriv") is None, reason="there is no setpriv")


@pytest.mark.parametrize(
    ("code", "count"),
    [
        pytest.param(SLEEP, 1, id="a program"),
        pytest.param(HUB, 3, id="a hub"),
        pytest.param(SERVERS, 2, id="servers", marks=pytest.mark.slow),
    ],
)
def test_nothing_survives_a_test_run_that_is_killed(code: str, count: int, tmp_path: Path) -> None:
    run = subprocess.Popen(
        [sys.executable, "-c", code, str(tmp_path)], cwd=ROOT, stdout=subprocess.PIPE, text=True
    )
    try:
        assert run.stdout is not None
        pids = run.stdout.readline().split()
        assert all(map(_is_alive, pids))
        assert len(pids) >= count
    finally:
        run.kill()
        run.communicate()

    wait_until(lambda: not any(map(_is_alive, pids)))


def _is_alive(pid: str) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except (FileNotFoundError, ProcessLookupError):
        return False
