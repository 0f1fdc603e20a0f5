"""What does not need an engine: how it is spoken with, and the program inside a container."""

import asyncio
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from strop.errors import SandboxError, SandboxUnavailableError
from strop.sandbox import Backend, Level, Limits, Profile, SandboxSpec, open_backend
from strop.sandbox.backends.agent import Agent
from strop.sandbox.backends.docker import DockerTransport, PipeChannel, container_options
from strop.sandbox.backends.remote import RemoteTransport
from strop.sandbox.doctor import examine
from strop.sandbox.wire import RESULT, Request, unpack_result
from strop.sandbox.zygote import meter

STAND_IN = Path(__file__).with_name("engine.py")
SDK = str(Path(__file__).parents[3] / "sdk")
BOOT = (
    f"import sys; sys.path.insert(0, {SDK!r}); "
    "from strop.sandbox.zygote import rootfs, stdio; rootfs.BOX = sys.argv[1]; stdio.main()"
)


def test_a_container_may_do_nothing_beyond_its_limits() -> None:
    limits = Limits(memory_bytes=256 << 20, pid_count=32, disk_bytes=16 << 20)
    options = container_options("n1", limits, Profile(mounts=("/srv/data",)), "runsc")
    text = " ".join(options)

    for wanted in (
        "--network none",
        "--cap-drop ALL",
        "--security-opt no-new-privileges",
        "--read-only",
        "--pids-limit 40",
        "size=16777216",
        "--volume /srv/data:/srv/data:ro",
        "--runtime runsc",
    ):
        assert wanted in text


def test_memory_of_a_container_leaves_room_for_its_files_and_its_supervisor() -> None:
    limits = Limits(memory_bytes=256 << 20, disk_bytes=16 << 20)
    options = container_options("n1", limits, Profile(), None)

    assert options[options.index("--memory") + 1] == str((256 + 16 + 64) << 20)
    assert options[options.index("--memory-swap") + 1] == str((256 + 16 + 64) << 20)


class Engine:
    """The command that stands in for an engine, the only one on the path."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self.command = folder / "docker"
        self.command.write_text(f"#!{sys.executable} -IS\n{STAND_IN.read_text()}")
        self.command.chmod(0o755)

    def calls(self, word: str) -> list[str]:
        lines = map(json.loads, (self._folder / "calls").read_text().splitlines())
        return [" ".join(arguments) for arguments in lines if arguments[0] == word]

    def boxes(self) -> list[str]:
        return [path.name for path in (self._folder / "boxes").iterdir()]


@pytest.fixture
def engine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Engine:
    # Its program finds the shell and its tools; a backend finds no other engine.
    monkeypatch.setenv("PATH", str(tmp_path))
    return Engine(tmp_path)


async def test_a_container_for_one_run_has_the_limits_of_that_run(engine: Engine) -> None:
    limits = Limits(memory_bytes=300 << 20, disk_bytes=20 << 20, pid_count=40)
    async with await open_backend("docker") as backend:
        result = await backend.run("print(input())", stdin=b"hello", limits=limits)

    assert (result.text, result.backend, result.isolation.name) == (
        "hello\n",
        "docker",
        "CONTAINER",
    )
    last = engine.calls("run")[-1]
    assert f"--memory {384 << 20} " in last
    assert "--pids-limit 48 " in last
    assert f"size={20 << 20} " in last


async def test_limits_reach_a_container_behind_an_agent(engine: Engine) -> None:
    limits = Limits(memory_bytes=300 << 20, disk_bytes=20 << 20)
    agent = Agent(await DockerTransport.connect(), "a token that nobody guesses")
    port = await agent.start("127.0.0.1", 0)
    transport = await RemoteTransport.connect("127.0.0.1", port, "a token that nobody guesses")
    async with Backend(transport) as backend:
        assert (await backend.run("print(1)", limits=limits)).text == "1\n"
    await agent.close()

    assert f"--memory {384 << 20} " in engine.calls("run")[-1]


async def test_a_container_that_lives_on_is_removed_when_it_is_stopped(engine: Engine) -> None:
    async with await open_backend("docker") as backend:
        sandbox = await backend.create(SandboxSpec(image="python:3.12"))
        await sandbox.write("d/f", b"one")
        await sandbox.run("open('d/f', 'a').write('two')")
        assert await sandbox.read("d/f") == b"onetwo"
        (name,) = [box for box in engine.boxes() if box in engine.calls("exec")[-1]]
        await sandbox.stop()
        with pytest.raises(SandboxError, match="is stopped"):
            await sandbox.exec("true")

    assert " python:3.12 python3 " in engine.calls("run")[-1]
    assert engine.calls("rm") == [f"rm --force {name}"]
    assert name not in engine.boxes()


CLIENT = """
import asyncio
from strop.sandbox import open_backend

async def main():
    backend = await open_backend("docker")
    sandbox = await backend.create()
    await sandbox.write("up", b"")
    print("up", flush=True)
    await sandbox.exec("sleep 600")

asyncio.run(main())
"""


async def test_no_container_outlives_a_client_that_is_killed(engine: Engine) -> None:
    client = await asyncio.to_thread(_start_client)
    assert client.stdout is not None
    assert await asyncio.to_thread(client.stdout.readline) == b"up\n"
    below = meter.pids_below(client.pid)
    assert below
    client.kill()
    client.communicate()

    async with asyncio.timeout(120):
        while any(map(_is_alive, below)):  # noqa: ASYNC110
            await asyncio.sleep(0.02)


def _start_client() -> subprocess.Popen[bytes]:
    env = {**os.environ, "PYTHONPATH": SDK}
    return subprocess.Popen([sys.executable, "-c", CLIENT], stdout=subprocess.PIPE, env=env)


def _is_alive(pid: int) -> bool:
    return not meter._is_dead(pid)


async def test_what_the_engine_says_when_it_starts_no_container_is_told(engine: Engine) -> None:
    async with await open_backend("docker") as backend:
        engine.command.write_text("#!/bin/sh\necho 'no such image' >&2; exit 125\n")
        with pytest.raises(SandboxError, match="started no container: no such image"):
            await backend.create(SandboxSpec(image="absent"))
        with pytest.raises(SandboxError, match="started no container: no such image"):
            await backend.run("")


async def test_an_engine_without_the_image_is_not_chosen_and_the_image_is_named(
    engine: Engine,
) -> None:
    engine.command.write_text("#!/bin/sh\n[ $1 = info ] && exit 0\necho no image >&2; exit 125\n")
    with pytest.raises(SandboxUnavailableError, match=r"no image\. Remedy: .*python:3\.11-slim"):
        await open_backend("docker")


async def test_what_a_container_would_go_without_is_refused(engine: Engine) -> None:
    async with await open_backend("docker") as backend:
        for spec in (
            SandboxSpec(network="host"),
            SandboxSpec(profile=Profile(base_folder="/srv")),
            SandboxSpec(profile=Profile(python_paths=("/srv",))),
        ):
            with pytest.raises(SandboxError, match=r"has no network|has neither"):
                await backend.create(spec)
    assert engine.calls("exec") == []


async def test_an_engine_without_gvisor_is_not_taken_for_one_that_has_it(engine: Engine) -> None:
    with pytest.raises(SandboxUnavailableError, match="CONTAINER, and GVISOR is the least"):
        await open_backend(min_isolation=Level.GVISOR)

    assert engine.calls("run") == []


async def test_the_doctor_chooses_a_container_where_no_namespaces_are_to_be_had(
    engine: Engine, tmp_path: Path
) -> None:
    report = await examine(python=str(tmp_path / "no-python"))

    assert engine.calls("info")
    assert report.chosen == "docker"
    assert report.capabilities["docker"].isolation == Level.CONTAINER


@pytest.fixture
def box(tmp_path: Path) -> str:
    return str(tmp_path)


async def _open(box: str) -> PipeChannel:
    return await PipeChannel.open([sys.executable, "-I", "-S", "-c", BOOT, box])


async def test_the_program_inside_speaks_the_protocol_over_its_pipes(box: str) -> None:
    channel = await _open(box)
    request = Request("argv", Limits().to_wire(), argv=("sh", "-c", "cat; pwd"), stdin=b"hello\n")
    await channel.send(request.pack())
    reply = await channel.receive()
    channel.close()
    await channel.wait_closed()

    assert reply is not None
    assert reply.tag == RESULT
    head, blobs = unpack_result(reply.payload)
    assert (head["status"], blobs[0]) == ("ok", f"hello\n{box}\n".encode())


async def test_the_run_ends_when_the_client_hangs_up(box: str) -> None:
    channel = await _open(box)
    code = b"import os, time\nopen('pid', 'w').write(str(os.getpid()))\ntime.sleep(60)"
    await channel.send(Request("python", Limits().to_wire(), code=code).pack())
    pid_file = Path(box) / "pid"
    async with asyncio.timeout(60):
        while not pid_file.exists() or not pid_file.read_text():  # noqa: ASYNC110
            await asyncio.sleep(0.02)
    pid = pid_file.read_text()

    channel.close()
    await channel.wait_closed()

    async with asyncio.timeout(60):
        while os.path.exists(f"/proc/{pid}"):  # noqa: ASYNC110
            await asyncio.sleep(0.02)


def test_the_program_inside_needs_nothing_but_the_standard_library() -> None:
    code = f"import sys; sys.path.insert(0, {SDK!r}); import strop.sandbox.zygote.stdio"
    outcome = subprocess.run([sys.executable, "-I", "-S", "-c", code], check=False)

    assert outcome.returncode == 0
