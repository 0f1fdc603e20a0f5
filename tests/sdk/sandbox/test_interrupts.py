"""An interrupt of a Python session reaches the code that it is for, and nothing else."""

import json
import random
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from strop.sandbox.session import session_source
from tests.waiting import wait_until


@contextmanager
def _interpreter() -> Iterator["subprocess.Popen[bytes]"]:
    """The program of a session outside of any sandbox, where signals reach it at once."""
    program = Path(session_source.__code__.co_filename).with_name("inside") / "python_session.py"
    with subprocess.Popen(
        [sys.executable, "-I", "-S", program], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as process:
        try:
            _ask(process, "1")
            assert _answer(process) == (True, "1")
            yield process
        finally:
            process.kill()


def _ask(process: "subprocess.Popen[bytes]", code: str) -> None:
    assert process.stdin is not None
    process.stdin.write(json.dumps({"code": code, "output_bytes": 1000}).encode() + b"\n")
    process.stdin.flush()


def _answer(process: "subprocess.Popen[bytes]") -> tuple[bool, str | None]:
    assert process.stdout is not None
    told = json.loads(process.stdout.readline())
    return told["is_ok"], told["value"]


def _sleep_count(pid: int) -> int:
    """How often a process went to sleep; 0 while it is awake."""
    status = Path(f"/proc/{pid}/status").read_text()
    if "State:\tS" not in status:
        return 0
    return int(status.partition("\nvoluntary_ctxt_switches:\t")[2].split()[0])


def test_an_interrupt_reaches_code_that_has_come_and_not_yet_begun() -> None:
    with _interpreter() as process:
        for _ in range(200):
            _ask(process, "while True: pass")
            process.send_signal(signal.SIGINT)
            assert _answer(process) == (False, None)


def test_an_interrupt_that_comes_as_code_ends_is_taken_or_lost_and_ends_nothing() -> None:
    delays = random.Random(3)
    with _interpreter() as process:
        for number in range(400):
            _ask(process, str(number))
            time.sleep(delays.random() * 0.0005)
            process.send_signal(signal.SIGINT)
            assert _answer(process) in ((True, str(number)), (False, None))


def test_an_interrupt_while_nothing_runs_spoils_no_later_code() -> None:
    with _interpreter() as process:
        wait_until(lambda: _sleep_count(process.pid))
        before = _sleep_count(process.pid)
        process.send_signal(signal.SIGINT)
        wait_until(lambda: _sleep_count(process.pid) > before)
        _ask(process, "6 * 7")

        assert _answer(process) == (True, "42")
