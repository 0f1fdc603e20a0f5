"""Runs a build's child process: bounded time, output kept for the error message (step: package)."""

import os
import signal
import subprocess
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

BUILD_EPOCH = "1580601600"
"""SOURCE_DATE_EPOCH of every build, so that equal sources give equal wheels."""

_TAIL_LINES = 20


@dataclass(frozen=True, slots=True)
class ChildResult:
    """How a child process ended."""

    status: int | None
    """Its exit status; None when it was killed at its time limit."""
    output_tail: str
    """The last lines of its output, indented for a message."""


def run_child(
    command: Sequence[str | Path], *, folder: Path, timeout_s: float, extra: Mapping[str, str]
) -> ChildResult:
    """Run `command` in `folder`, with `extra` variables; kill it and its children when it is late.

    Raises:
        FileNotFoundError: There is no such program.
    """
    environ = os.environ | {
        "SOURCE_DATE_EPOCH": BUILD_EPOCH,
        "PYTHONDONTWRITEBYTECODE": "1",
        "PYTHONHASHSEED": "0",
        **extra,
    }
    # Output goes to a file: a grandchild that keeps a pipe open could make the wait endless.
    with tempfile.TemporaryFile() as output:
        child = subprocess.Popen(
            command,
            cwd=folder,
            env=environ,
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
        status: int | None = None
        try:
            status = child.wait(timeout_s)
        except subprocess.TimeoutExpired:
            pass
        finally:
            if status is None:
                _kill(child)
        return ChildResult(status, _tail(output.fileno()))


def _kill(child: subprocess.Popen[bytes]) -> None:
    if hasattr(os, "killpg"):
        os.killpg(child.pid, signal.SIGKILL)
    else:
        child.kill()
    child.wait()


def _tail(descriptor: int) -> str:
    size = os.fstat(descriptor).st_size
    os.lseek(descriptor, max(0, size - 64 * 1024), os.SEEK_SET)
    lines = os.read(descriptor, 64 * 1024).decode("utf-8", "replace").splitlines()
    shown = [line.rstrip() for line in lines if line.strip()][-_TAIL_LINES:]
    return "\n".join(f"    {line}" for line in shown)
