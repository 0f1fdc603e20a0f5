"""A process of a hub that hangs is replaced, and the others answer meanwhile."""

import os
import signal
from contextlib import suppress
from pathlib import Path

import pytest

from tests.factories import an_upload
from tests.hub_server.checking import check_whole
from tests.hub_server.running_hub import run_hub
from tests.waiting import wait_until

HANG_S = 120.0
LIMIT_S = HANG_S + 120


def workers_of(pid: int) -> set[int]:
    """The processes that answer for a hub of several."""
    children = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
    return {int(child) for child in children if "spawn_main" in command_of(int(child))}


def command_of(pid: int) -> str:
    try:
        return Path(f"/proc/{pid}/cmdline").read_text()
    except (FileNotFoundError, ProcessLookupError):
        return ""


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_a_worker_that_hangs_is_replaced_and_nothing_is_lost_meanwhile(
    hub_data: Path, tmp_path: Path
) -> None:
    def push(version: str) -> int:
        upload = an_upload(tmp_path / version, name="maze", version=version)
        return hub.push(token, owner, upload).status_code

    with run_hub(hub_data, arguments=("--workers", "2")) as hub:
        owner, token = hub.new_user()
        assert push("1.0") == 201
        before = workers_of(hub.process.pid)
        assert len(before) == 2
        hung = min(before)
        os.kill(hung, signal.SIGSTOP)
        try:
            answers = [push(f"1.{number}") for number in range(1, 6)]
            hangs_still = hung in workers_of(hub.process.pid)
            wait_until(lambda: hung not in workers_of(hub.process.pid), LIMIT_S)
        finally:
            with suppress(ProcessLookupError):
                os.kill(hung, signal.SIGCONT)
        wait_until(lambda: len(workers_of(hub.process.pid)) == 2)
        after = workers_of(hub.process.pid)
        last = push("1.6")

    assert answers == [201] * 5
    assert hangs_still
    assert hung not in after
    assert len(after & before) == 1
    assert last == 201
    assert check_whole(hub.settings) == 7
