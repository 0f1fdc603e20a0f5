"""What a sandbox's first process bears with, and what a fork of the zygote starts with."""

import pytest

from strop.sandbox import Backend
from tests.sdk.sandbox.conftest import NAMESPACED, Tier, open_tier, stub_pids

SIGNALS = """
import os, time
for number in (*range(1, 32), *range(34, 65)):
    try:
        os.kill(1, number)
    except OSError:
        pass
time.sleep(0.1)
print("alive")
"""
ORPHANS = """
import os
for _ in range(100):
    pid = os.fork()
    if pid == 0:
        if os.fork() == 0:
            os._exit(0)
        os._exit(0)
    os.waitpid(pid, 0)
print("done")
"""
INTERRUPT = """
import signal
assert signal.getsignal(signal.SIGINT) is signal.default_int_handler
try:
    signal.raise_signal(signal.SIGINT)
except KeyboardInterrupt:
    print("interrupted")
"""
CHILDREN = """
import os, signal, subprocess
assert signal.getsignal(signal.SIGCHLD) is signal.SIG_DFL
print(subprocess.run(["sh", "-c", "exit 3"]).returncode)
pid = os.fork()
if pid == 0:
    os._exit(4)
print(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]))
"""


@pytest.mark.parametrize("tier", NAMESPACED, ids=str)
async def test_signals_to_the_first_process_run_nothing_in_the_zygote(tier: Tier) -> None:
    async with await open_tier(tier) as backend:
        await backend.run("")
        stubs = stub_pids(backend)

        results = [await backend.run(SIGNALS) for _ in range(4)]

        assert [result.text for result in results] == ["alive\n"] * 4
        assert (await backend.run("print(1)")).text == "1\n"
        assert stub_pids(backend) == stubs


@pytest.mark.parametrize("tier", NAMESPACED, ids=str)
async def test_processes_that_nobody_waits_for_do_not_pile_up(tier: Tier) -> None:
    async with await open_tier(tier) as backend:
        result = await backend.run(ORPHANS)

    assert (result.status, result.text) == ("ok", "done\n"), result.error_text


async def test_an_interrupt_is_raised_as_in_any_interpreter(backend: Backend) -> None:
    assert (await backend.run(INTERRUPT)).text == "interrupted\n"


async def test_children_are_waited_for_as_in_any_interpreter(backend: Backend) -> None:
    result = await backend.run(CHILDREN)

    assert result.text == "3\n4\n", result.error_text


async def test_ids_and_session_are_those_of_a_process_of_its_own(backend: Backend) -> None:
    result = await backend.run(
        "import os\nprint(os.getpid() == os.getsid(0) == os.getpgid(0), os.getcwd() == "
        "os.environ['HOME'], oct(os.umask(0)))"
    )

    assert result.text == "True True 0o22\n"


async def test_a_large_program_and_large_files_arrive_whole(backend: Backend) -> None:
    code = f"text = {'x' * 300_000!r}\nprint(len(text), len(open('data').read()))"

    result = await backend.run(code, files={"data": b"y" * 700_000})

    assert result.text == "300000 700000\n", result.error_text
