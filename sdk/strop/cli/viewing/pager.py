"""Where long output goes: a pager on a terminal, plain standard output elsewhere."""

from __future__ import annotations

import os
import re
import shlex
import shutil
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import IO

from rich.console import Console

from strop.cli.output import has_colours

_PADDING = re.compile(r" +\n")

_LEAST_COLUMNS = 20

PLAIN_COLUMNS = 100
"""Width where there is no terminal and `COLUMNS` does not say."""


@contextmanager
def open_console(*, has_pager: bool) -> Iterator[Console]:
    """A console that writes to standard output, through a pager where there is a person.

    Colours come only to a terminal that takes them. A reader who has seen enough is no error.
    """
    pager = _pager() if has_pager and sys.stdin.isatty() and sys.stdout.isatty() else None
    try:
        if pager is None:
            yield _console(_Output(sys.stdout.buffer, sys.stdout.encoding))
        else:
            with _paging(pager) as stream:
                yield _console(_Output(stream, sys.stdout.encoding))
        sys.stdout.flush()
    except BrokenPipeError:
        # The interpreter flushes standard output once more when it ends.
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)


class _Output:
    """A text stream that replaces what its encoding cannot say; without padding in files."""

    def __init__(self, stream: IO[bytes], encoding: str | None) -> None:
        self._stream = stream
        self.encoding = encoding or "ascii"
        self._is_terminal = sys.stdout.isatty()

    def write(self, text: str) -> int:
        if not self._is_terminal:
            text = _PADDING.sub("\n", text)
        self._stream.write(text.encode(self.encoding, "replace"))
        return len(text)

    def flush(self) -> None:
        self._stream.flush()

    def isatty(self) -> bool:
        return self._is_terminal


class _PipedConsole(Console):
    """A console that leaves it to its opener when the reader is gone."""

    def on_broken_pipe(self) -> None:
        raise BrokenPipeError


def _console(output: _Output) -> Console:
    is_coloured = has_colours(sys.stdout)
    return _PipedConsole(
        file=output,  # type: ignore[arg-type]
        force_terminal=is_coloured,
        color_system="256" if is_coloured else None,
        no_color=not is_coloured,
        force_interactive=False,
        markup=False,
        highlight=False,
        emoji=False,
        soft_wrap=False,
        width=_columns(),
    )


def _columns() -> int:
    if sys.stdout.isatty():
        # The terminal itself: an inherited COLUMNS may be that of another one.
        return max(os.get_terminal_size(sys.stdout.fileno()).columns, _LEAST_COLUMNS)
    return max(shutil.get_terminal_size((PLAIN_COLUMNS, 24)).columns, _LEAST_COLUMNS)


def _pager() -> list[str] | None:
    command = shlex.split(os.environ.get("PAGER", "less"))
    return command if command and shutil.which(command[0]) else None


@contextmanager
def _paging(command: list[str]) -> Iterator[IO[bytes]]:
    # less: leave at once when all fits, keep colours, do not clear the screen.
    environment = {"LESS": "FRX", **os.environ}
    process = subprocess.Popen(command, stdin=subprocess.PIPE, env=environment)
    assert process.stdin is not None
    # Ctrl-C belongs to the pager, which stops a search with it and lives on.
    is_main = threading.current_thread() is threading.main_thread()
    before = signal.signal(signal.SIGINT, signal.SIG_IGN) if is_main else None
    try:
        yield process.stdin
    finally:
        with suppress(BrokenPipeError):
            process.stdin.close()
        process.wait()
        if is_main:
            signal.signal(signal.SIGINT, before)
