"""The worker's own rules; its limits are tried from outside, in `test_symbolic.py`."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from strop.rewards import symbolic_worker

SCRIPT = str(Path(symbolic_worker.__file__))
MEMORY_BYTES = 512 * 1024**2


def serve(
    *requests: dict[str, object], memory_bytes: int = MEMORY_BYTES
) -> list[dict[str, object]]:
    """The replies of a worker of its own."""
    code = (
        "import os, subprocess, sys; "
        f"sys.exit(subprocess.run([sys.executable, '-P', {SCRIPT!r}, str(os.getpid()), "
        f"'{memory_bytes}']).returncode)"
    )
    lines = "".join(json.dumps(request) + "\n" for request in requests)
    ended = subprocess.run(
        [sys.executable, "-c", code], input=lines, capture_output=True, text=True, check=True
    )
    return [json.loads(line) for line in ended.stdout.splitlines()]


def request(answer: str, reference: str, cpu_limit_s: float = 5.0) -> dict[str, object]:
    """One comparison."""
    return {"answer": answer, "reference": reference, "cpu_limit_s": cpu_limit_s}


def test_each_request_gets_one_reply_in_order() -> None:
    replies = serve(request("1+x", "x+1"), request("x", "y"), request("{{{", "5"))
    assert replies == [{"is_equal": True}, {"is_equal": False}, {"is_equal": False}]


def test_memory_that_runs_out_leaves_no_verdict() -> None:
    code = (
        "from strop.rewards import symbolic_worker as worker;"
        "worker.compare('1+x', 'x+1'); print(worker._peak_bytes())"
    )
    measured = subprocess.run([sys.executable, "-c", code], capture_output=True, check=True)
    enough_to_begin = int(measured.stdout) + 16 * 1024**2
    [reply] = serve(request("(a+b+c+d+e)^{40}", "x+y", 60.0), memory_bytes=enough_to_begin)
    assert "MiB of memory" in str(reply["problem"])


def test_a_worker_whose_caller_has_gone_does_not_begin() -> None:
    ended = subprocess.run(
        [sys.executable, "-P", SCRIPT, "1", str(MEMORY_BYTES)],
        input="",
        capture_output=True,
        text=True,
    )
    assert ended.returncode == 1
    assert "the caller has gone" in ended.stderr


@pytest.mark.parametrize(
    ("answer", "reference", "is_equal"),
    [("1+x", "x+1", True), (r"\frac{1}{0}", "1", False), ("", "1", False), ("$", "1", False)],
)
def test_what_has_no_value_equals_nothing(answer: str, reference: str, is_equal: bool) -> None:
    assert symbolic_worker.compare(answer, reference) is is_equal


def test_the_reply_says_what_was_decided() -> None:
    wanted = {"answer": "2x", "reference": "x+x"}
    assert symbolic_worker.answer(wanted, 2**50) == {"is_equal": True}


def test_a_negative_verdict_at_the_memory_limit_is_not_trusted() -> None:
    reply = symbolic_worker.answer({"answer": "2x", "reference": "3x"}, 1024**2)
    assert reply == {"problem": "it took more than 1 MiB of memory"}
