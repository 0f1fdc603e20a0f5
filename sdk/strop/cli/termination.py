"""SIGTERM ends a command as Ctrl-C does: what it holds is cleaned up, and then it leaves."""

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

import typer

EXIT_TERMINATED = 128 + signal.SIGTERM


@contextmanager
def terminated_cleanly() -> Iterator[None]:
    """Let SIGTERM raise `KeyboardInterrupt` in the block, and leave it with exit code 143.

    Elsewhere than in the main thread, which alone may handle signals, it does nothing.
    """
    is_terminated = False

    def interrupt(_: int, __: FrameType | None) -> None:
        nonlocal is_terminated
        is_terminated = True
        raise KeyboardInterrupt

    if threading.current_thread() is not threading.main_thread():
        yield
        return
    earlier = signal.signal(signal.SIGTERM, interrupt)
    try:
        yield
    except KeyboardInterrupt:
        if is_terminated:
            raise typer.Exit(EXIT_TERMINATED) from None
        raise
    finally:
        signal.signal(signal.SIGTERM, earlier)
