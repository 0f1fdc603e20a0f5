"""What code of an environment changes of the whole process as it loads: told and put back."""

from __future__ import annotations

import contextlib
import logging
import os
import signal
import sys
import threading
import warnings
from collections.abc import Callable, Iterator
from typing import Any


@contextlib.contextmanager
def keeping_the_process(name: str) -> Iterator[None]:
    """Run the block, then put back what it changed of the process, with a warning.

    Working folder, signal handlers, the root logger and the standard streams belong to the program
    that loads environments: a run must write where it was told to, end on Ctrl-C, and be readable.
    Signal handlers can only be set, and put back, on the main thread.
    """
    before = _shared_state()
    try:
        yield
    finally:
        changed = [what for what, value in _shared_state().items() if value != before[what]]
        for what in changed:
            _PUT_BACK[what](before[what])
    if changed:
        warnings.warn(
            f"{name} changed the process that loads it ({', '.join(changed)}), which was put back. "
            "An environment must leave that alone: `strop env check` tells where it does not.",
            stacklevel=4,
        )


def _shared_state() -> dict[str, Any]:
    root = logging.getLogger()
    return {
        "working folder": os.getcwd(),
        "signal handlers": {number: signal.getsignal(number) for number in _own_signals()},
        "root logger": (list(root.handlers), list(root.filters), root.level),
        "standard streams": (sys.stdin, sys.stdout, sys.stderr),
    }


def _own_signals() -> list[int]:
    if threading.current_thread() is not threading.main_thread():
        return []
    # None: set by other code than Python's, which could not be put back.
    return [n for n in signal.valid_signals() if signal.getsignal(n) is not None]


def _put_back_handlers(handlers: dict[int, Any]) -> None:
    for number, handler in handlers.items():
        if signal.getsignal(number) is not handler:
            signal.signal(number, handler)


def _put_back_logger(state: tuple[list[logging.Handler], list[Any], int]) -> None:
    root = logging.getLogger()
    handlers, filters, level = state
    for added in [each for each in root.handlers if each not in handlers]:
        root.removeHandler(added)
        # One that owns a stream of the process must leave it open.
        if isinstance(added, logging.FileHandler):
            added.close()
    root.handlers[:], root.filters[:] = handlers, filters
    root.setLevel(level)


def _put_back_streams(streams: tuple[Any, Any, Any]) -> None:
    sys.stdin, sys.stdout, sys.stderr = streams


_PUT_BACK: dict[str, Callable[[Any], object]] = {
    "working folder": os.chdir,
    "signal handlers": _put_back_handlers,
    "root logger": _put_back_logger,
    "standard streams": _put_back_streams,
}
