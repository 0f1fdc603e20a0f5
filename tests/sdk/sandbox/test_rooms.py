"""Sandboxes that live on: files, jobs, sessions, snapshots."""

import asyncio
import gc
import io
import signal
import tarfile
from pathlib import Path

import pytest

from strop.errors import SandboxError, SpoiledWorkspaceError
from strop.sandbox import Backend, Sandbox, SandboxSpec, room
from tests.sdk.sandbox.conftest import NAMESPACED, TIGHT, Tier, open_tier


async def _create(backend: Backend) -> Sandbox:
    return await backend.create(SandboxSpec(limits=TIGHT, env={"ROOM": "r1"}))


async def test_files_stay_from_run_to_run_and_processes_do_not(backend: Backend) -> None:
    async with await _create(backend) as sandbox:
        await sandbox.exec("echo one > word; sleep 60 &")
        result = await sandbox.exec("cat word; echo $ROOM; pgrep -x sleep")

    assert result.text == "one\nr1\n"


async def test_sandboxes_do_not_see_each_others_files(backend: Backend) -> None:
    async with await _create(backend) as one, await _create(backend) as other:
        await one.write("secret", b"x")

        with pytest.raises(FileNotFoundError):
            await other.read("secret")


async def test_files_are_written_read_listed_and_copied(backend: Backend, tmp_path: Path) -> None:
    source, target = tmp_path / "source", tmp_path / "target"
    source.write_bytes(bytes(range(256)) * 1000)
    async with await _create(backend) as sandbox:
        await sandbox.upload(source, "a/b/file")
        await sandbox.write("a/run", b"#!/bin/sh\necho ran", is_executable=True)
        await sandbox.download("a/b/file", target)

        assert await sandbox.read("a/b/file", offset=255, most_bytes=3) == b"\xff\x00\x01"
        kinds = [(entry.name, entry.kind) for entry in await sandbox.list("a")]
        assert kinds == [("b", "folder"), ("run", "file")]
        assert (await sandbox.exec(["a/run"])).text == "ran\n"
    assert target.read_bytes() == source.read_bytes()


@pytest.mark.parametrize("path", ["../etc/passwd", "/etc/passwd", "out/passwd", "link"])
async def test_paths_do_not_lead_out(backend: Backend, path: str) -> None:
    async with await _create(backend) as sandbox:
        await sandbox.exec("ln -s /etc out; ln -s /etc/passwd link")

        with pytest.raises(OSError, match="open"):
            await sandbox.read(path)


async def test_a_pipe_is_no_file_to_wait_for(backend: Backend) -> None:
    async with await _create(backend) as sandbox:
        await sandbox.exec("mkfifo pipe")

        with pytest.raises(OSError, match="not a regular file"):
            await sandbox.read("pipe")


async def test_a_snapshot_restores_files_in_another_sandbox(backend: Backend) -> None:
    async with await _create(backend) as one, await _create(backend) as other:
        await one.exec("mkdir -p a/b; echo x > a/b/c; ln -s b a/link; chmod 700 a/b/c")
        await other.restore(await one.snapshot())

        assert (await other.exec("cat a/link/c; stat -c %a a/b/c")).text == "x\n700\n"


async def test_a_hostile_archive_stays_in_its_sandbox(backend: Backend, tmp_path: Path) -> None:
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w") as archive:
        link = tarfile.TarInfo("out")
        link.type, link.linkname = tarfile.SYMTYPE, str(tmp_path)
        archive.addfile(link)
        for name in ("out/evil", "../../../../evil", f"{tmp_path}/evil"):
            archive.addfile(tarfile.TarInfo(name))
    async with await _create(backend) as sandbox:
        with pytest.raises((OSError, SandboxError)):
            await sandbox.restore(buffer.getvalue())
    assert list(tmp_path.iterdir()) == []


async def test_a_job_streams_in_both_directions(backend: Backend) -> None:
    async with await _create(backend) as sandbox:
        job = await sandbox.start("read a; echo got $a; read b; echo got $b; echo end >&2; exit 4")
        await job.write(b"1\n")
        first = await job.read_line()
        await job.write(b"2\n")
        second = await job.read_line()
        await job.end_input()
        result = await job.wait()

        assert (first, second) == (b"got 1\n", b"got 2\n")
        assert (result.exit_code, await job.read("stderr")) == (4, b"end\n")


async def test_a_job_that_nobody_reads_is_held_up_and_not_kept_in_memory(
    backend: Backend,
) -> None:
    async with await _create(backend) as sandbox:
        job = await sandbox.start("yes | head -c 20000000; echo; echo last")
        await asyncio.sleep(0.3)
        total = 0
        while chunk := await job.read():
            total += len(chunk)

    assert total == 20_000_006


async def test_a_job_takes_signals_and_can_be_killed(backend: Backend) -> None:
    async with await _create(backend) as sandbox:
        sleeper = await sandbox.start(["sleep", "60"])
        await sleeper.signal(signal.SIGTERM)
        assert (await sleeper.wait()).signal == signal.SIGTERM

        other = await sandbox.start(["sleep", "60"])
        other.kill()
        with pytest.raises(SandboxError, match="lost"):
            await other.wait()
        assert (await sandbox.exec("echo alive")).text == "alive\n"


async def test_a_job_that_nobody_keeps_lives_on(backend: Backend) -> None:
    async with await _create(backend) as sandbox:
        await sandbox.start("read never; echo unread")
        await sandbox.start("sleep 0.2; echo written > word")
        gc.collect()
        async with asyncio.timeout(60):
            while "word" not in [entry.name for entry in await sandbox.list()]:
                await sandbox.exec("sleep 0.05")

        assert await sandbox.read("word") == b"written\n"


async def test_python_remembers_and_shows_errors(backend: Backend) -> None:
    async with await _create(backend) as sandbox, await sandbox.python_session() as session:
        await session.run("import math\nx = 20")
        value = await session.run("x + 1")
        error = await session.run("print('before'); 1 / 0")
        exit_ = await session.run("raise SystemExit(2)")
        below = await session.run("import os; os.write(1, b'raw'); os.system('echo child')")

        assert (value.status, value.value) == ("ok", "21")
        assert (error.status, error.stdout) == ("error", "before\n")
        assert "ZeroDivisionError" in error.stderr
        assert exit_.status == "error"
        assert below.status == "ok"
        assert session.is_alive


async def test_an_endless_piece_is_interrupted_and_python_lives_on(backend: Backend) -> None:
    async with await _create(backend) as sandbox, await sandbox.python_session() as session:
        await session.run("x = 1")
        endless = await session.run("while True: pass", wall_s=0.3)
        after = await session.run("x")

    assert endless.status == "timeout"
    assert after.value == "1"


async def test_a_piece_that_ignores_interrupts_ends_its_session(backend: Backend) -> None:
    stubborn = "import signal, time\nsignal.signal(2, signal.SIG_IGN)\ntime.sleep(60)"
    async with await _create(backend) as sandbox, await sandbox.python_session() as session:
        result = await session.run(stubborn, wall_s=0.2)
        after = await session.run("1")

        assert (result.status, after.status) == ("dead", "dead")
        assert (await sandbox.exec("echo alive")).text == "alive\n"


async def test_python_that_dies_is_told_as_dead(backend: Backend) -> None:
    async with await _create(backend) as sandbox, await sandbox.python_session() as session:
        assert (await session.run("import os; os._exit(3)")).status == "dead"


async def test_long_output_of_a_session_is_cut(backend: Backend) -> None:
    async with await _create(backend) as sandbox:
        async with await sandbox.python_session() as session:
            python = await session.run("print('x' * 200_000)")
        async with await sandbox.bash_session() as shell:
            bash = await shell.run("yes | head -c 200000")
            after = await shell.run("echo still here")

    assert (len(python.stdout), python.is_truncated) == (64 * 1024, True)
    assert bash.is_truncated
    assert after.stdout == "still here\n"


async def test_a_shell_remembers_its_folder_variables_and_jobs(backend: Backend) -> None:
    async with await _create(backend) as sandbox, await sandbox.bash_session() as shell:
        await shell.run("mkdir d; cd d; A=5; f() { echo f$1; }")
        result = await shell.run("basename $PWD; f $A; echo bad >&2; (exit 7)")
        wrong = await shell.run("if")
        quoted = await shell.run("echo 'a  b' \"c'd\"")

        assert (result.stdout, result.stderr, result.exit_code) == ("d\nf5\n", "bad\n", 7)
        assert wrong.status == "error"
        assert quoted.stdout == "a  b c'd\n"


async def test_a_command_that_waits_is_interrupted_and_the_shell_lives_on(
    backend: Backend,
) -> None:
    async with await _create(backend) as sandbox, await sandbox.bash_session() as shell:
        await shell.run("A=5")
        waited = await shell.run("sleep 60", wall_s=0.3)
        after = await shell.run("echo $A")
        left = await shell.run("exit 3")

        assert (waited.status, after.stdout) == ("timeout", "5\n")
        assert left.status == "dead"


@pytest.mark.parametrize("tier", NAMESPACED, ids=str)
async def test_namespaces_are_used_again_within_one_sandbox_only(tier: Tier) -> None:
    look = "readlink /proc/self/ns/net /proc/self/ns/ipc; stat -c %d ~; readlink /proc/self/ns/pid"
    spec = SandboxSpec(limits=TIGHT, network="loopback")
    async with (
        await open_tier(tier) as backend,
        await backend.create(spec) as one,
        await backend.create(spec) as other,
        # It lives on, so that no number of a namespace is given out again.
        await one.bash_session() as held,
    ):
        first = (await held.run(look)).stdout.split()
        again = (await one.exec(look)).text.split()
        apart = (await other.exec(look)).text.split()

    assert first[:3] == again[:3]
    assert first[3] != again[3]
    assert not set(first) & set(apart)


@pytest.mark.parametrize("tier", NAMESPACED, ids=str)
async def test_servers_of_one_sandbox_are_reached_from_inside_only(tier: Tier) -> None:
    async with await open_tier(tier) as backend:
        spec = SandboxSpec(limits=TIGHT, network="loopback")
        ask = "import socket; print(socket.create_connection(('127.0.0.1', 8123), 1).recv(9))"
        serve = (
            "import socket\ns = socket.create_server(('127.0.0.1', 8123))\n"
            "print('up', flush=True)\ns.accept()[0].send(b'hello')"
        )
        async with await backend.create(spec) as one, await backend.create(spec) as other:
            server = await one.start(["python3", "-c", serve])
            assert await server.read_line() == b"up\n"
            outside = await other.run(ask)
            inside = await one.run(ask)

    assert "ConnectionRefusedError" in outside.error_text
    assert inside.text == "b'hello'\n"


async def test_a_network_that_a_tier_lacks_is_refused(backend: Backend) -> None:
    with pytest.raises(SandboxError, match="has no network 'host'"):
        await backend.create(SandboxSpec(network="host"))


async def test_an_image_is_refused_where_there_are_none(backend: Backend) -> None:
    with pytest.raises(SandboxError, match=r"has no images; 'python:3.12' needs"):
        await backend.create(SandboxSpec(image="python:3.12"))


NESTED = """
import os
os.mkdir("work")
os.chdir("work")
for _ in range(1200):
    os.mkdir("a")
    os.chdir("a")
"""
SPARSE = """
import os
os.mkdir("work")
for index in range(12):
    with open(f"work/{index}", "wb") as file:
        file.truncate(8 << 20)
"""
LOCKED = "import os\nos.mkdir('work')\nos.chmod('work', 0)"


@pytest.mark.parametrize("code", [NESTED, SPARSE, LOCKED, ""], ids=["deep", "big", "locked", "no"])
async def test_files_that_cannot_be_taken_out_are_the_fault_of_the_code(
    backend: Backend, code: str
) -> None:
    async with await backend.create(SandboxSpec(limits=TIGHT)) as sandbox:
        made = await sandbox.run(code)
        assert made.status == "ok", made.error_text

        with pytest.raises(SpoiledWorkspaceError, match="cannot be taken out"):
            await sandbox.snapshot("work")


async def test_files_that_take_too_long_to_take_out_are_the_fault_of_the_code(
    backend: Backend, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(room, "_OPERATION_S", 0.001)
    async with await _create(backend) as sandbox:
        with pytest.raises(SpoiledWorkspaceError, match=r"wall_s of 0\.001 s was reached"):
            await sandbox.snapshot()
        with pytest.raises(OSError, match=r"wall_s of 0\.001 s was reached"):
            await sandbox.restore(bytes(1024))


async def test_a_folder_that_code_took_away_is_told_by_the_next_run(backend: Backend) -> None:
    async with await _create(backend) as sandbox:
        await sandbox.exec("mkdir work && rmdir work")
        result = await sandbox.exec("ls", cwd="work")

    assert (result.status, result.exit_code) == ("nonzero", 126)
    assert result.error_text == "work: No such file or directory\n"
