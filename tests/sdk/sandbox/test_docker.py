"""What does not need an engine: the options of a container, and the program inside it."""

import asyncio
import os
import subprocess
import sys
from pathlib import Path

import pytest

from strop.sandbox import Limits, Profile
from strop.sandbox.backends.docker import PipeChannel, container_options
from strop.sandbox.wire import RESULT, Request, unpack_result

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
        "--memory 268435456",
        "--pids-limit 40",
        "size=16777216",
        "--volume /srv/data:/srv/data:ro",
        "--runtime runsc",
    ):
        assert wanted in text


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
    async with asyncio.timeout(10):
        while not pid_file.exists() or not pid_file.read_text():  # noqa: ASYNC110
            await asyncio.sleep(0.02)
    pid = pid_file.read_text()

    channel.close()
    await channel.wait_closed()

    async with asyncio.timeout(5):
        while os.path.exists(f"/proc/{pid}"):  # noqa: ASYNC110
            await asyncio.sleep(0.02)


def test_the_program_inside_needs_nothing_but_the_standard_library() -> None:
    code = f"import sys; sys.path.insert(0, {SDK!r}); import strop.sandbox.zygote.stdio"
    outcome = subprocess.run([sys.executable, "-I", "-S", "-c", code], check=False)

    assert outcome.returncode == 0
