"""Every transport keeps the same promises: local, behind an agent, in a container."""

import asyncio
import itertools
import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import time
from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from strop.errors import SandboxError, SandboxUnavailableError
from strop.sandbox import Backend, Level, Limits, SandboxSpec
from strop.sandbox.backends.agent import Agent
from strop.sandbox.backends.local import LocalTransport
from strop.sandbox.backends.remote import RemoteTransport
from tests.sdk.sandbox.conftest import TIERS, TIGHT, open_tier
from tests.waiting import until

TOKEN = "a token that nobody guesses"
SDK = str(Path(__file__).parents[3] / "sdk")


@pytest.fixture(params=["local", "remote", "docker"])
async def any_backend(request: pytest.FixtureRequest) -> AsyncIterator[Backend]:
    if request.param == "docker":
        backend = await _open_docker()
        yield backend
        await backend.close()
        return
    opened = await open_tier(TIERS[0])
    if request.param == "local":
        yield opened
        await opened.close()
        return
    agent = Agent(opened.transport, TOKEN)
    port = await agent.start("127.0.0.1", 0)
    async with Backend(await RemoteTransport.connect("127.0.0.1", port, TOKEN)) as backend:
        yield backend
    await agent.close()


async def _open_docker() -> Backend:
    from strop.sandbox.backends.docker import DockerTransport

    if shutil.which("docker") is None and shutil.which("podman") is None:
        pytest.skip("neither docker nor podman is installed")
    try:
        transport = await DockerTransport.connect()
    except SandboxUnavailableError as error:
        pytest.skip(f"no container engine answers here: {error}")
    return Backend(transport, limits=TIGHT)


async def test_code_runs_and_tells_how_it_ended(any_backend: Backend) -> None:
    good = await any_backend.run("print(input())", stdin=b"hello")
    bad = await any_backend.exec("echo out; echo err >&2; exit 3")

    assert (good.status, good.text) == ("ok", "hello\n")
    assert (bad.status, bad.exit_code, bad.stdout, bad.stderr) == ("nonzero", 3, b"out\n", b"err\n")
    assert good.backend == any_backend.name
    assert good.isolation == any_backend.capabilities.isolation >= Level.NAMESPACE


async def test_time_and_output_are_limited(any_backend: Backend) -> None:
    slow = await any_backend.run("while True: pass", limits=replace(TIGHT, wall_s=1.0))
    loud = await any_backend.run("while True: print('x' * 1000)", limits=TIGHT)

    assert (slow.status, slow.limit) == ("timeout", "wall_s")
    assert loud.status == "output_limit"
    assert len(loud.stdout) == TIGHT.output_bytes


async def test_many_inputs_give_many_results(any_backend: Backend) -> None:
    results = await any_backend.run_many("print(int(input()) * 2)", [b"1", b"x", b"3"])

    assert [result.text for result in results] == ["2\n", "", "6\n"]
    assert results[1].status == "nonzero"


async def test_files_go_in_and_come_out(any_backend: Backend) -> None:
    result = await any_backend.exec("cat a > b", files={"a": b"x"}, collect=["b", "nothing"])

    assert result.files["b"] == b"x"
    assert isinstance(result.files["nothing"], OSError)


async def test_a_sandbox_keeps_its_files_until_it_is_stopped(any_backend: Backend) -> None:
    async with await any_backend.create(SandboxSpec(limits=TIGHT)) as sandbox:
        await sandbox.write("d/f", b"one")
        await sandbox.exec("printf two >> d/f")
        snapshot = await sandbox.snapshot("d")

        assert await sandbox.read("d/f") == b"onetwo"
        assert [entry.name for entry in await sandbox.list("d")] == ["f"]
        with pytest.raises(OSError, match="f2"):
            await sandbox.read("d/f2")
        await sandbox.restore(snapshot, "e")
        assert await sandbox.read("e/f") == b"onetwo"

    with pytest.raises(SandboxError):
        await sandbox.exec("true")


async def test_jobs_stream_and_sessions_remember(any_backend: Backend) -> None:
    async with await any_backend.create(SandboxSpec(limits=TIGHT)) as sandbox:
        job = await sandbox.start("read a; echo got $a")
        await job.write(b"1\n")
        assert await job.read_line() == b"got 1\n"
        assert (await job.wait()).is_ok
        async with await sandbox.python_session() as session:
            await session.run("x = 41")
            assert (await session.run("x + 1")).value == "42"


async def test_a_cancelled_run_is_over(any_backend: Backend) -> None:
    task = asyncio.create_task(any_backend.run("import time; time.sleep(60)"))
    await asyncio.sleep(0.3)
    task.cancel()
    began = time.monotonic()
    with pytest.raises(asyncio.CancelledError):
        await task

    assert (await any_backend.run("print(1)")).text == "1\n"
    assert time.monotonic() - began < 40


async def test_an_agent_refuses_whoever_does_not_know_its_token() -> None:
    opened = await open_tier(TIERS[0])
    agent = Agent(opened.transport, TOKEN)
    port = await agent.start("127.0.0.1", 0)

    with pytest.raises(SandboxError, match="wrong token"):
        await RemoteTransport.connect("127.0.0.1", port, "another")
    await agent.close()


async def test_a_client_refuses_an_agent_that_does_not_know_the_token() -> None:
    async def pretend(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        from strop.sandbox.backends.handshake import PROTOCOL, read_words, send_words

        await send_words(writer, {"protocol": PROTOCOL, "nonce": "0"})
        await read_words(reader)
        await send_words(writer, {"proof": "0" * 64, "name": "fake"})
        writer.close()

    server = await asyncio.start_server(pretend, "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    with pytest.raises(SandboxError, match="does not know the token"):
        await RemoteTransport.connect("127.0.0.1", port, TOKEN)
    server.close()


async def test_garbage_does_not_harm_an_agent() -> None:
    opened = await open_tier(TIERS[0])
    agent = Agent(opened.transport, TOKEN)
    port = await agent.start("127.0.0.1", 0)
    for junk in (b"GET / HTTP/1.1\r\n\r\n", b"\0\0\0\x05[1,2]", b"\xff" * 64, b""):
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(junk)
        writer.write_eof()
        await reader.read()
        writer.close()

    async with Backend(await RemoteTransport.connect("127.0.0.1", port, TOKEN)) as backend:
        assert (await backend.run("print(1)")).text == "1\n"
    await agent.close()


async def test_nobody_at_the_address_is_said_with_the_remedy() -> None:
    with pytest.raises(SandboxUnavailableError, match="strop sandbox serve"):
        await RemoteTransport.connect("127.0.0.1", 1, TOKEN)


async def test_rooms_end_with_their_clients_connection() -> None:
    opened = await open_tier(TIERS[0])
    agent = Agent(opened.transport, TOKEN)
    port = await agent.start("127.0.0.1", 0)
    transport = await RemoteTransport.connect("127.0.0.1", port, TOKEN)
    await Backend(transport).create(SandboxSpec(limits=Limits()))
    assert len(agent._rooms) == 1

    await transport.close()

    await until(lambda: not agent._rooms)
    await agent.close()


async def test_a_name_with_several_addresses_means_one_agent(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """As that of a headless service, whose answers come in another order each time."""
    one, other = await open_tier(TIERS[0]), await open_tier(TIERS[0])
    agents = [Agent(one.transport, TOKEN), Agent(other.transport, TOKEN)]
    port = await agents[0].start("127.0.0.1", 0)
    await agents[1].start("127.0.0.2", port)
    addresses = itertools.cycle(["127.0.0.1", "127.0.0.2"])
    resolve = socket.getaddrinfo

    def look_up(host: str, *arguments: Any, **options: Any) -> Any:
        found = next(addresses) if host == "agents.example" else host
        return resolve(found, *arguments, **options)

    monkeypatch.setattr(socket, "getaddrinfo", look_up)
    transport = await RemoteTransport.connect("agents.example", port, TOKEN)
    async with Backend(transport) as backend, await backend.create() as sandbox:
        for index in range(4):
            await sandbox.write(f"f{index}", b"x")
        assert len(await sandbox.list()) == 5
    for agent in agents:
        await agent.close()


async def test_the_agent_runs_as_a_command(tmp_path: Path) -> None:
    await (await open_tier(TIERS[0])).close()
    token = tmp_path / "token"
    code = "import sys; from strop.cli.sandbox import app; app(sys.argv[1:])"
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-c", code, "serve", "--token-file", str(token), "--json"),
        stdout=subprocess.PIPE,
        env={**os.environ, "PYTHONPATH": os.pathsep.join([SDK, os.environ.get("PYTHONPATH", "")])},
    )
    assert process.stdout is not None
    told = json.loads(await _read_document(process.stdout))
    secret = token.read_text().strip()
    assert token.stat().st_mode & 0o077 == 0
    async with Backend(await RemoteTransport.connect("127.0.0.1", told["port"], secret)) as backend:
        assert (await backend.run("print(1)")).text == "1\n"

    process.send_signal(signal.SIGINT)

    assert await asyncio.wait_for(process.wait(), 60) in (0, 130)


async def _read_document(stream: asyncio.StreamReader) -> str:
    lines: list[str] = []
    while not lines or lines[-1] != "}\n":
        line = await stream.readline()
        assert line, "it ended before it had told where it listens"
        lines.append(line.decode())
    return "".join(lines)


def test_local_transports_satisfy_the_same_protocol() -> None:
    assert {"open_run", "open_room", "close", "capabilities"} <= set(dir(LocalTransport))
