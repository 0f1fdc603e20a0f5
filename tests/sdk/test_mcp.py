"""Tools of a real MCP server, over stdio and HTTP, for one episode or for all."""

import asyncio
import os
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from strop import Environment, ScriptedModel, Task, TimeLimits, Trajectory
from strop.mcp import McpServer
from strop.models.scripted import call

pytest.importorskip("mcp", reason="the package mcp is not installed")

ROOT = Path(__file__).parents[2]
COMMAND = (sys.executable, "-m", "tests.sdk.mcp_server")
TASK = Task("1", "Use the tools.", split="train")


def stdio(**options: Any) -> McpServer:
    return McpServer(**{"command": COMMAND, "cwd": str(ROOT), **options})


@pytest.fixture(scope="module")
def http_url() -> Iterator[str]:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    child = subprocess.Popen(
        [*COMMAND, str(port)], cwd=ROOT, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    )
    deadline = time.monotonic() + 30
    while time.monotonic() < deadline:
        with socket.socket() as probe:
            if probe.connect_ex(("127.0.0.1", port)) == 0:
                break
        time.sleep(0.05)
    yield f"http://127.0.0.1:{port}/mcp"
    child.kill()
    child.wait()


def an_environment(*servers: McpServer, **options: Any) -> Environment:
    return Environment(tasks=[TASK], rewards=[], servers=servers, **options)


async def play(environment: Environment, *replies: Any) -> Trajectory:
    async with environment:
        return await environment.rollout(TASK, ScriptedModel.replies([*replies, "ready"]))


def answers(trajectory: Trajectory) -> list[str]:
    return [message.text for message in trajectory.messages() if message.role == "tool"]


async def test_the_tools_of_a_program_are_called_over_stdio() -> None:
    trajectory = await play(
        an_environment(stdio()), call("add", left=2, right=3), [call("note", text="a")] * 2
    )

    assert trajectory.failure is None
    assert answers(trajectory) == ["5", "1", "2"]


async def test_the_tools_of_a_server_are_called_over_http(http_url: str) -> None:
    trajectory = await play(an_environment(McpServer(url=http_url)), call("add", left=2, right=3))

    assert trajectory.failure is None
    assert answers(trajectory) == ["5"]


async def test_the_model_sees_names_descriptions_and_schemas() -> None:
    async with an_environment(stdio()) as environment, environment.start(TASK) as episode:
        specs = {spec.name: spec for spec in episode.tools}

    assert set(specs) >= {"add", "note", "fail"}
    assert specs["add"].description == "Add two numbers."
    properties: Any = specs["add"].parameters["properties"]
    assert properties["left"]["type"] == "integer"


async def test_each_episode_has_a_server_of_its_own_and_a_shared_one_is_one() -> None:
    notes: dict[bool, list[str]] = {True: [], False: []}
    for is_shared, found in notes.items():
        async with an_environment(stdio(is_shared=is_shared)) as environment:
            for _ in range(2):
                trajectory = await environment.rollout(
                    TASK, ScriptedModel.replies([call("note", text="a"), "ready"])
                )
                found.extend(answers(trajectory))

    assert notes == {True: ["1", "2"], False: ["1", "1"]}


@pytest.mark.parametrize(
    ("wrong", "told"),
    [
        (call("fail"), "it went wrong"),
        (call("add", left="x", right=1), "left"),
        (call("add"), "left"),
    ],
)
async def test_errors_of_a_tool_go_to_the_model(wrong: Any, told: str) -> None:
    trajectory = await play(an_environment(stdio()), wrong)

    assert trajectory.failure is None
    assert answers(trajectory)[0].startswith("Error: ")
    assert told in answers(trajectory)[0]


async def test_arguments_that_are_no_object_go_to_the_model() -> None:
    from strop import ToolCall

    trajectory = await play(
        an_environment(stdio()), [ToolCall("a", "add", "{"), ToolCall("b", "add", "[1]")]
    )

    assert all("Wrong arguments for `add`" in answer for answer in answers(trajectory))


async def test_a_server_that_dies_fails_the_attempt_promptly() -> None:
    rollout = play(an_environment(stdio()), call("crash"), call("add", left=1, right=1))

    trajectory = await asyncio.wait_for(rollout, 20)

    assert trajectory.failure is not None
    assert trajectory.failure.boundary == "tool"
    assert trajectory.reward is None


@pytest.mark.parametrize(
    ("command", "told"),
    [
        (("/not/there",), "FileNotFoundError"),
        ((sys.executable, "-c", "raise SystemExit(3)"), "gives no tools"),
        ((sys.executable, "-c", "print('hello'); import time; time.sleep(60)"), "gives no tools"),
    ],
)
async def test_a_server_that_does_not_start_is_told(command: Any, told: str) -> None:
    environment = an_environment(stdio(command=command, start_limit_s=2))

    trajectory = await asyncio.wait_for(play(environment, "x"), 20)

    assert trajectory.failure is not None
    assert told in trajectory.failure.message


async def test_a_slow_call_is_left_and_the_rollout_goes_on() -> None:
    environment = an_environment(stdio(), time_limits=TimeLimits(tool_s=0.2))

    trajectory = await play(environment, call("nap", seconds=2))

    assert trajectory.failure is None
    assert "took longer than 0.2 s" in answers(trajectory)[0]


async def test_secrets_of_the_environment_are_not_passed_on(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "secret")

    trajectory = await play(an_environment(stdio(env={"GIVEN": "1"})), call("environment"))

    names = answers(trajectory)[0].split()
    assert "GIVEN" in names
    assert "OPENAI_API_KEY" not in names


async def test_no_program_is_left_behind_also_after_a_cancel() -> None:
    before = _children()
    running = asyncio.create_task(play(an_environment(stdio()), call("nap", seconds=60)))
    await _until(lambda: len(_children()) > len(before))
    await asyncio.sleep(1)
    running.cancel()
    started = time.monotonic()
    with pytest.raises(asyncio.CancelledError):
        await running

    assert time.monotonic() - started < 5
    await _until(lambda: _children() == before)


async def test_the_same_tool_twice_is_told() -> None:
    trajectory = await play(an_environment(stdio(), stdio(is_shared=True)), "x")

    assert trajectory.failure is not None
    assert "two tools called" in trajectory.failure.message


def test_a_server_needs_a_command_or_a_url() -> None:
    with pytest.raises(ValueError, match="either a command or a url"):
        McpServer()
    with pytest.raises(ValueError, match="either a command or a url"):
        McpServer(command=("x",), url="http://127.0.0.1:1/mcp")


def _children() -> set[str]:
    path = Path(f"/proc/self/task/{os.getpid()}/children")
    return set(path.read_text().split())


async def _until(is_so: Any, limit_s: float = 10.0) -> None:
    deadline = time.monotonic() + limit_s
    while not is_so():
        assert time.monotonic() < deadline
        await asyncio.sleep(0.02)
