"""Tools of a real MCP server, over stdio and HTTP, for one episode or for all."""

import asyncio
import base64
import contextlib
import gc
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest

from strop import Environment, Message, Part, ScriptedModel, Task, TimeLimits, ToolCall, Trajectory
from strop.errors import SettingsError
from strop.mcp import McpServer
from strop.models.scripted import call
from strop.trajectory_json import decode_line, encode_line
from tests.servers.processes import ending_with_us

pytest.importorskip("mcp", reason="the package mcp is not installed")

ROOT = Path(__file__).parents[2]
COMMAND = (sys.executable, "-m", "tests.sdk.mcp_server")
TASK = Task("1", "Use the tools.", split="train")


def stdio(**options: Any) -> McpServer:
    return McpServer(**{"command": COMMAND, "cwd": str(ROOT), **options})


@contextlib.contextmanager
def http_server(*arguments: str) -> Iterator[str]:
    """The address of a server in a process of its own."""
    command = [*ending_with_us(signal.SIGKILL), *COMMAND, "http", *arguments]
    child = subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, text=True)
    try:
        assert child.stdout is not None
        yield f"http://127.0.0.1:{int(child.stdout.readline())}/mcp"
    finally:
        child.kill()
        child.communicate()


@pytest.fixture(scope="module")
def http_url() -> Iterator[str]:
    with http_server() as url:
        yield url


@pytest.fixture(scope="module")
def guarded_url() -> Iterator[str]:
    with http_server("hidden-token") as url:
        yield url


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


async def test_the_model_sees_names_descriptions_and_schemas(http_url: str) -> None:
    environment = an_environment(McpServer(url=http_url))
    async with environment, environment.start(TASK) as episode:
        specs = {spec.name: spec for spec in episode.tools}

    assert set(specs) >= {"add", "note", "fail"}
    assert specs["add"].description == "Add two numbers."
    properties: Any = specs["add"].parameters["properties"]
    assert properties["left"]["type"] == "integer"


async def _notes_of_two_episodes(server: McpServer) -> list[str]:
    async with an_environment(server) as environment:
        model = ScriptedModel.replies([call("note", text="a"), "ready"])
        played = [await environment.rollout(TASK, model) for _ in range(2)]
    return [answers(trajectory)[0] for trajectory in played]


async def test_each_episode_has_a_program_of_its_own_and_a_shared_one_is_one() -> None:
    assert await _notes_of_two_episodes(stdio()) == ["1", "1"]
    assert await _notes_of_two_episodes(stdio(is_shared=True)) == ["1", "2"]


async def _callers_of_two_episodes(server: McpServer) -> list[str]:
    """By which connection each of two calls of two episodes came."""
    async with an_environment(server) as environment:
        model = ScriptedModel.replies([call("caller"), call("caller"), "ready"])
        played = [await environment.rollout(TASK, model) for _ in range(2)]
    return [answer for trajectory in played for answer in answers(trajectory)]


async def test_each_episode_has_a_connection_of_its_own_over_http_and_a_shared_one_is_one(
    http_url: str,
) -> None:
    first, again, second, last = await _callers_of_two_episodes(McpServer(url=http_url))
    assert first == again
    assert second == last
    assert first != second

    shared = await _callers_of_two_episodes(McpServer(url=http_url, is_shared=True))
    assert len(set(shared)) == 1


async def test_headers_go_with_every_request(guarded_url: str) -> None:
    headers = {"authorization": "Bearer hidden-token", "x-episode": "seven"}
    server = McpServer(url=guarded_url, headers=headers)

    trajectory = await play(an_environment(server), call("caller"), call("add", left=2, right=3))

    assert trajectory.failure is None
    assert answers(trajectory)[0].endswith(" seven")
    assert answers(trajectory)[1] == "5"


async def test_a_token_that_is_refused_is_told_and_no_secret_with_it(guarded_url: str) -> None:
    address = guarded_url.replace("//", "//user:word@") + "?key=querysecret"
    server = McpServer(url=address, headers={"authorization": "Bearer wrongtoken"})

    trajectory = await play(an_environment(server), "x")

    assert trajectory.failure is not None
    assert f"`{guarded_url}` gives no tools: it answered 401" in trajectory.failure.message
    assert "headers" in trajectory.failure.message
    for secret in ("wrongtoken", "querysecret", "word@"):
        assert secret not in trajectory.failure.message
        assert secret not in trajectory.failure.traceback
    assert "wrongtoken" not in repr(server)


async def test_images_sounds_and_texts_become_parts(http_url: str) -> None:
    trajectory = await play(an_environment(McpServer(url=http_url)), call("picture"))

    (message,) = [each for each in trajectory.messages() if each.role == "tool"]
    image, sound = (base64.b64encode(each).decode() for each in (b"\x89PNG", b"RIFF"))
    assert message.content == (
        Part("text", text="Look:"),
        Part("image", url=f"data:image/png;base64,{image}", media_type="image/png"),
        Part("audio", url=f"data:audio/wav;base64,{sound}", media_type="audio/wav"),
        Part("text", text="of a resource"),
    )
    assert decode_line(encode_line(trajectory)) == trajectory


@pytest.mark.parametrize("is_shared", [False, True])
async def test_calls_of_one_turn_run_at_the_same_time_where_that_is_allowed(
    http_url: str, is_shared: bool
) -> None:
    started: dict[bool, list[str]] = {}
    for is_parallel in (False, True):
        server = McpServer(url=http_url, is_shared=is_shared, is_parallel=is_parallel)
        calls = [call("meet", limit_s=60.0 if is_parallel else 0.2)] * 2
        started[is_parallel] = answers(await play(an_environment(server), calls))

    assert started == {False: ["alone", "alone"], True: ["met", "met"]}


@pytest.mark.parametrize(
    ("wrong", "told"),
    [
        (call("fail"), "it went wrong"),
        (call("add", left="x", right=1), "left"),
        (call("add"), "left"),
    ],
)
async def test_errors_of_a_tool_go_to_the_model(wrong: Any, told: str, http_url: str) -> None:
    trajectory = await play(an_environment(McpServer(url=http_url)), wrong)

    assert trajectory.failure is None
    assert answers(trajectory)[0].startswith("Error: ")
    assert told in answers(trajectory)[0]


async def test_arguments_that_are_no_object_go_to_the_model(http_url: str) -> None:
    calls = [ToolCall("a", "add", "{"), ToolCall("b", "add", "[1]")]

    trajectory = await play(an_environment(McpServer(url=http_url)), calls)

    assert all("Wrong arguments for `add`" in answer for answer in answers(trajectory))


def _is_a_prompt_failure(trajectory: Trajectory) -> bool:
    failure = trajectory.failure
    return failure is not None and failure.boundary == "tool" and trajectory.reward is None


async def test_a_program_that_dies_within_a_call_fails_the_attempt() -> None:
    trajectory = await asyncio.wait_for(play(an_environment(stdio()), call("crash")), 200)

    assert _is_a_prompt_failure(trajectory)


async def test_a_server_that_dies_within_a_call_over_http_fails_the_attempt() -> None:
    unhandled: list[Any] = []
    asyncio.get_running_loop().set_exception_handler(lambda _, context: unhandled.append(context))
    with http_server() as url:
        rollout = play(an_environment(McpServer(url=url)), call("crash"))
        trajectory = await asyncio.wait_for(rollout, 240)
    gc.collect()

    assert _is_a_prompt_failure(trajectory)
    assert unhandled == []


async def test_one_that_never_answers_a_call_fails_the_attempt(http_url: str) -> None:
    for server in (stdio(call_limit_s=0.5), McpServer(url=http_url, call_limit_s=0.5)):
        rollout = play(an_environment(server), call("nap", seconds=30.0))
        trajectory = await asyncio.wait_for(rollout, 240)

        assert _is_a_prompt_failure(trajectory)
        assert trajectory.failure is not None
        assert "0.5" in trajectory.failure.message


async def test_one_that_takes_connections_and_answers_nothing_gives_no_tools() -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        url = f"http://127.0.0.1:{silent.getsockname()[1]}/mcp"
        server = McpServer(url=url, start_limit_s=0.5)
        trajectory = await asyncio.wait_for(play(an_environment(server), "x"), 240)

    assert trajectory.failure is not None
    assert "gives no tools: no answer within 0.5 s" in trajectory.failure.message
    assert "raise `start_limit_s`" in trajectory.failure.message


async def test_rubbish_among_the_messages_ends_nothing() -> None:
    environment = an_environment(stdio())

    trajectory = await play(environment, call("rubbish"), call("add", left=1, right=1))

    assert trajectory.failure is None
    assert answers(trajectory) == ["still here", "2"]


async def test_arguments_that_no_message_can_carry_go_to_the_model(http_url: str) -> None:
    wrong = ToolCall("a", "note", '{"text": "\\ud800"}')

    trajectory = await play(an_environment(McpServer(url=http_url)), wrong)

    assert trajectory.failure is None
    assert "Wrong arguments for `note`" in answers(trajectory)[0]


@pytest.mark.parametrize(
    ("command", "limit_s", "told"),
    [
        (("/not/there",), 60, "FileNotFoundError"),
        ((sys.executable, "-c", "raise SystemExit(3)"), 60, "gives no tools"),
        (
            (sys.executable, "-c", "print('hello'); import time; time.sleep(60)"),
            2,
            "gives no tools: no answer within 2 s",
        ),
    ],
)
async def test_a_server_that_does_not_start_is_told(command: Any, limit_s: int, told: str) -> None:
    environment = an_environment(stdio(command=command, start_limit_s=limit_s))

    trajectory = await asyncio.wait_for(play(environment, "x"), 120)

    assert trajectory.failure is not None
    assert told in trajectory.failure.message


async def test_a_slow_call_is_left_and_the_rollout_goes_on(http_url: str) -> None:
    server = McpServer(url=http_url)
    environment = an_environment(server, time_limits=TimeLimits(tool_s=0.2))

    trajectory = await play(environment, call("nap", seconds=30))

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


async def test_the_same_tool_twice_is_told(http_url: str) -> None:
    servers = (McpServer(url=http_url), McpServer(url=http_url, is_shared=True))

    trajectory = await play(an_environment(*servers), "x")

    assert trajectory.failure is not None
    assert trajectory.failure.boundary == "environment"
    assert "two tools called 'add'" in trajectory.failure.message
    assert trajectory.failure.message.count(f"the MCP server `{http_url}`") == 2


async def test_a_shared_servers_tool_that_has_a_functions_name_is_refused_at_the_start(
    http_url: str,
) -> None:
    def add(left: int, right: int) -> int:
        """Add."""
        return left + right

    environment = an_environment(McpServer(url=http_url, is_shared=True), tools=[add])

    with pytest.raises(SettingsError) as refused:
        await environment.__aenter__()

    assert f".add` and the MCP server `{http_url}`. Rename one" in str(refused.value)


async def test_the_example_of_the_guide_runs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    guide = (ROOT / "docs" / "guides" / "author.md").read_text()
    for name in ("desk_env.py", "desk_server.py"):
        text = guide.partition(f"```python file={name}\n")[2].partition("\n```")[0]
        (tmp_path / name).write_text(text)
    monkeypatch.chdir(tmp_path)
    namespace: dict[str, Any] = {}
    exec((tmp_path / "desk_env.py").read_text(), namespace)
    environment: Environment = namespace["load_environment"]()

    def policy(messages: Sequence[Message]) -> str | ToolCall:
        return messages[-1].text if len(messages) > 1 else call("count", thing="pencils")

    async with environment:
        task = environment.tasks["train"][0]
        trajectory = await environment.rollout(task, ScriptedModel(policy))
    assert trajectory.failure is None, trajectory.failure
    assert trajectory.reward == 1.0


def test_a_server_needs_a_command_or_a_url() -> None:
    with pytest.raises(ValueError, match="either a command or a url"):
        McpServer()
    with pytest.raises(ValueError, match="either a command or a url"):
        McpServer(command=("x",), url="http://127.0.0.1:1/mcp")


def test_headers_are_for_a_url() -> None:
    with pytest.raises(ValueError, match="Only an MCP server with a url takes headers"):
        stdio(headers={"authorization": "Bearer x"})
