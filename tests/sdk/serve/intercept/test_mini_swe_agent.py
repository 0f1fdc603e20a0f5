"""A coding agent's commands run in the episode's sandbox, and nothing of them outside."""

import json
import sys
from collections.abc import AsyncIterator, Sequence
from pathlib import Path
from typing import Any

import pytest

from strop import ScriptedModel, Task, Trajectory, reward
from strop.sandbox import Backend, SandboxSpec
from strop.sandbox.archive import pack_files, read_files
from strop.sandbox.repository import ROOT
from strop.sandboxed import SandboxEnvironment
from strop.serve.intercept import Program
from strop.serve.intercept.mini_swe_agent import MiniSweAgentEpisode
from tests.sdk.sandbox.conftest import TIERS, TIGHT, open_tier
from tests.sdk.serve.intercept.programs import BY_HAND

AGENT = """
import socket

def execute(command):
    with socket.socket(socket.AF_UNIX) as line:
        line.connect(os.environ["MSWEA_SANDBOX_SOCKET"])
        line.sendall(json.dumps(command).encode() + b"\\n")
        return json.loads(line.makefile("rb").readline())

talk = [{"role": "user", "content": sys.argv[-1]}]
while True:
    talk.append({"role": "assistant", "content": say(call(talk))})
    if talk[-1]["content"] == "ready":
        break
    talk.append({"role": "user", "content": json.dumps(execute(talk[-1]["content"]))})
"""
"""A small agent of the same kind, that needs nothing to be installed."""


class SmallAgentEpisode(MiniSweAgentEpisode):
    """Plays the agent above; what is left in the sandbox goes into the record."""

    @property
    def source(self) -> bytes:
        return pack_files({"sums.py": b"def add(a, b):\n    return a - b\n"})

    def program(self) -> Program:
        whole = super().program()
        return Program([sys.executable, "-c", BY_HAND + AGENT, *whole.argv[-2:]], whole.env)

    async def collect(self) -> None:
        files = read_files(await self.workspace.sandbox.snapshot(ROOT))
        self.outcome["sums"] = files["sums.py"].decode()


@reward(range=(0, 1))
def repaired(trajectory: Trajectory) -> float:
    return float("a + b" in str(trajectory.outcome["sums"]))


@pytest.fixture
async def backend() -> AsyncIterator[Backend]:
    opened = await open_tier(TIERS[0])
    yield opened
    await opened.close()


async def play(backend: Backend, commands: Sequence[str]) -> Trajectory:
    environment = SandboxEnvironment(
        tasks=[Task("1", "Repair add in sums.py.")],
        rewards=[repaired],
        episode=SmallAgentEpisode,
        backend=backend,
        spec=SandboxSpec(limits=TIGHT),
    )
    async with environment:
        model = ScriptedModel.replies([*commands, "ready"])
        trajectory = await environment.rollout(environment.tasks["train"][0], model)
    assert trajectory.failure is None, trajectory.failure
    return trajectory


def results(trajectory: Trajectory) -> list[dict[str, Any]]:
    messages = [m for segment in trajectory.segments for m in segment.messages]
    return [json.loads(m.text) for m in messages if m.text.startswith("{")]


async def test_an_agents_commands_change_the_sandbox(backend: Backend) -> None:
    commands = ["cat sums.py; pwd", "sed -i 's/a - b/a + b/' sums.py", "git diff --stat; exit 3"]
    trajectory = await play(backend, commands)
    shown, changed, asked = results(trajectory)
    assert shown["output"].endswith("return a - b\n/box/work\n")
    assert (changed["output"], changed["returncode"]) == ("", 0)
    assert "sums.py" in asked["output"]
    assert asked["returncode"] == 3
    assert (trajectory.reward, trajectory.turn_count) == (1.0, 4)
    assert trajectory.isolation == f"namespace ({backend.name})"
    assert isinstance(trajectory.outcome["sandbox"], dict)


async def test_an_agents_commands_reach_nothing_of_the_host(
    backend: Backend, tmp_path: Path
) -> None:
    commands = [
        f"ls {tmp_path}; cat {Path(__file__)}",
        "env | grep -i -e openai -e mswea; curl -m 2 $OPENAI_BASE_URL",
        f"echo x > {tmp_path}/left",
    ]
    trajectory = await play(backend, commands)
    listed, variables, _ = results(trajectory)
    assert listed["output"].count("No such file") == 2
    assert "OPENAI" not in variables["output"]
    assert list(tmp_path.iterdir()) == []


async def test_a_command_that_passes_a_limit_is_told_so(backend: Backend) -> None:
    slow = f"sleep {TIGHT.wall_s + 60}"
    environment_limit, *_ = results(await play(backend, [slow]))
    assert environment_limit["returncode"] == -1
    assert "wall_s" in environment_limit["exception_info"]


def test_archives_hold_files_and_nothing_that_leads_out(tmp_path: Path) -> None:
    files = {"a.py": b"1", "b/c.bin": bytes(range(256)), "empty": b""}
    archive = pack_files(files)
    assert read_files(archive) == files
    assert pack_files(dict(reversed(files.items()))) == archive
    assert read_files(pack_files({"../out": b"", "/etc/x": b"", "in": b"1"})) == {"in": b"1"}
