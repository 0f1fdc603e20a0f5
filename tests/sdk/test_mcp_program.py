"""Programs of MCP servers: they may be slow to start, and nothing of them is left."""

import asyncio
import os
import subprocess
import sys
from pathlib import Path

import pytest

from strop.mcp import McpServer
from strop.models.scripted import call
from tests.sdk.test_mcp import COMMAND, ROOT, an_environment, answers, play, stdio
from tests.waiting import until, wait_until


@pytest.mark.slow
async def test_a_program_may_take_longer_to_start_than_a_probe_of_the_package_waits() -> None:
    code = "import runpy, sys, time; time.sleep(12); sys.argv[1:] = []; "
    code += "runpy.run_module('tests.sdk.mcp_server', run_name='__main__')"
    environment = an_environment(stdio(command=(sys.executable, "-c", code)))

    trajectory = await play(environment, call("add", left=2, right=3))

    assert trajectory.failure is None, trajectory.failure
    assert answers(trajectory) == ["5"]


async def test_no_program_is_left_behind_also_after_a_cancel() -> None:
    await _leave_in_a_call(stdio())


RUNNER = """
import asyncio
import sys
from strop import Environment, ScriptedModel, Task
from strop.mcp import McpServer
from strop.models.scripted import call

server = McpServer(command=sys.argv[1:])
environment = Environment(tasks=[Task("1", "go")], rewards=[], servers=[server])

def policy(messages):
    if messages[-1].role == "tool":
        print(messages[-1].text, flush=True)
        return call("nap", seconds=600.0)
    return call("family")

asyncio.run(environment.rollout(environment.tasks["train"][0], ScriptedModel(policy)))
"""


def test_no_program_survives_a_runner_that_is_killed() -> None:
    runner = subprocess.Popen(
        [sys.executable, "-c", RUNNER, *COMMAND], cwd=ROOT, stdout=subprocess.PIPE, text=True
    )
    try:
        assert runner.stdout is not None
        family = runner.stdout.readline().split()
        assert [_is_alive(pid) for pid in family] == [True] * 3
    finally:
        runner.kill()
        runner.communicate()
    wait_until(lambda: not any(map(_is_alive, family)))


async def test_nothing_that_a_program_started_is_left_when_it_ends() -> None:
    trajectory = await play(an_environment(stdio()), call("family"))

    family = answers(trajectory)[0].split()
    assert len(family) == 3
    await until(lambda: not any(map(_is_alive, family)))


STUBBORN = "import signal; signal.signal(signal.SIGTERM, signal.SIG_IGN); "


async def test_a_program_that_heeds_no_signal_is_ended_all_the_same() -> None:
    code = STUBBORN + "import runpy, sys; sys.argv[1:] = []; "
    code += "runpy.run_module('tests.sdk.mcp_server', run_name='__main__')"
    server = stdio(command=(sys.executable, "-c", code))
    await _leave_in_a_call(server)


async def _leave_in_a_call(server: McpServer) -> None:
    """Cancel a rollout within a call, and see that the program is gone."""
    before = _children()
    running = asyncio.create_task(play(an_environment(server), call("nap", seconds=600.0)))
    await until(lambda: _children() - before)
    await asyncio.sleep(1)
    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await asyncio.wait_for(running, 60)

    # Those of earlier tests may end meanwhile.
    await until(lambda: not _children() - before)


def _is_alive(pid: str) -> bool:
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except FileNotFoundError:
        return False
    return state not in "ZX"


def _children() -> set[str]:
    path = Path(f"/proc/self/task/{os.getpid()}/children")
    return set(path.read_text().split())
