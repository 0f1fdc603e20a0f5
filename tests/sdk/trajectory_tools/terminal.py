"""A real terminal of a chosen size, with a person at it."""

import contextlib
import fcntl
import os
import pty
import re
import select
import struct
import subprocess
import termios
import time
from pathlib import Path
from typing import Any, Self

from tests.sdk.cli.command import STROP

_LIMIT_S = 120
_SEQUENCE = re.compile(r"\x1b(?:\[[0-9;?<>]*[A-Za-z]|[=>])")


class Terminal:
    """Runs a command as the terminal's foreground job."""

    def __init__(
        self, *arguments: str | Path, columns: int = 80, rows: int = 24, **variables: str
    ) -> None:
        self.shown = ""
        self._ours, self._theirs = pty.openpty()
        size = struct.pack("HHHH", rows, columns, 0, 0)
        fcntl.ioctl(self._theirs, termios.TIOCSWINSZ, size)
        self.modes_before = termios.tcgetattr(self._theirs)
        self._process = subprocess.Popen(
            [STROP, *arguments],
            env=os.environ | {"TERM": "xterm-256color"} | variables,
            stdin=self._theirs,
            stdout=self._theirs,
            stderr=self._theirs,
            start_new_session=True,
            preexec_fn=self._take_terminal,
        )

    @property
    def modes(self) -> list[Any]:
        """How the terminal echoes and edits lines."""
        return termios.tcgetattr(self._theirs)

    @property
    def text(self) -> str:
        """What was shown, without colours."""
        return _SEQUENCE.sub("", self.shown).replace("\r\n", "\n")

    def press(self, keys: str) -> None:
        """Type."""
        os.write(self._ours, keys.encode())

    def wait_for(self, text: str) -> None:
        """Until the terminal shows it."""
        end = time.monotonic() + _LIMIT_S
        while text not in self.text:
            assert time.monotonic() < end, f"{text!r} never came: {self.text!r}"
            self._read(0.1)

    def finish(self, pressing: str = "") -> int:
        """Until the command ends; gives its exit code.

        `pressing` is a key pressed again and again: `less` swallows the one after a Ctrl-C
        that met it between its prompt and its wait for a key.
        """
        end = time.monotonic() + _LIMIT_S
        while self._process.poll() is None:
            assert time.monotonic() < end, f"it never ended: {self.text!r}"
            if pressing:
                self.press(pressing)
            self._read(0.3 if pressing else 0.05)
        while self._read(0.05):
            pass
        return self._process.returncode

    def wait_until_open(self, path: Path) -> None:
        """Until the command reads a file."""
        end = time.monotonic() + _LIMIT_S
        while path not in self._open_files():
            assert time.monotonic() < end, f"{path} was never opened: {self.text!r}"
            time.sleep(0.01)

    def _open_files(self) -> set[Path]:
        found = set()
        for entry in Path(f"/proc/{self._process.pid}/fd").iterdir():
            with contextlib.suppress(OSError):
                found.add(entry.readlink())
        return found

    def is_running(self) -> bool:
        """Whether the command goes on."""
        self._read(0.3)
        return self._process.poll() is None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        if self._process.poll() is None:
            self._process.kill()
        self._process.wait()
        os.close(self._ours)
        os.close(self._theirs)

    def _read(self, wait_s: float) -> bool:
        ready, _, _ = select.select([self._ours], [], [], wait_s)
        if ready:
            self.shown += os.read(self._ours, 65536).decode("utf-8", "replace")
        return bool(ready)

    @staticmethod
    def _take_terminal() -> None:
        fcntl.ioctl(0, termios.TIOCSCTTY, 0)
