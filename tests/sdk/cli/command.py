"""Run `strop` as a user does: a process, its streams, its exit code."""

import contextlib
import json
import os
import pty
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

STROP = Path(sys.executable).with_name("strop")


@dataclass
class Finished:
    """What a command left."""

    code: int
    stdout: str
    stderr: str

    @property
    def document(self) -> Any:
        """The one JSON document on stdout."""
        return json.loads(self.stdout)

    @property
    def error(self) -> dict[str, str]:
        """The error that ``--json`` printed."""
        assert self.code != 0, self.stdout
        assert list(self.document) == ["error"]
        error: dict[str, str] = self.document["error"]
        return error


def strop(
    *arguments: str | Path, text: str | None = None, cwd: Path | None = None, **variables: str
) -> Finished:
    """Run a command; `text` goes to its standard input."""
    finished = subprocess.run(
        [STROP, *arguments],
        cwd=cwd,
        env=os.environ | variables,
        input=text or "",
        capture_output=True,
        text=True,
    )
    return Finished(finished.returncode, finished.stdout, finished.stderr)


def on_terminal(*arguments: str | Path, **variables: str) -> str:
    """Everything that a command writes to a terminal."""
    ours, theirs = pty.openpty()
    with subprocess.Popen(
        [STROP, *arguments],
        env=os.environ | {"TERM": "xterm-256color"} | variables,
        stdin=theirs,
        stdout=theirs,
        stderr=theirs,
    ) as process:
        os.close(theirs)
        shown = b""
        # Reading a terminal whose last writer is gone is an error on Linux.
        with contextlib.suppress(OSError):
            while chunk := os.read(ours, 65536):
                shown += chunk
        process.wait()
    os.close(ours)
    return shown.decode()
