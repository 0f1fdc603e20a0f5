"""What the servers of tests have in common: free ports, waiting, and an end with the test run."""

import os
import random
import shutil
import signal
import socket
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path

START_S = 180
STOP_S = 60
UNPRIVILEGED_ID = 65534
"""The user `nobody`: PostgreSQL refuses to run as root."""


def free_ports(count: int, offset: int = 0) -> list[int]:
    """Ports that nobody listens on now, nor on the ones `offset` above.

    They lie below what the system gives to clients, which could take one before the server does.
    """
    ports: list[int] = []
    while len(ports) < count:
        port = random.SystemRandom().randrange(10_000, 22_000)
        if port not in ports and _is_free(port) and _is_free(port + offset):
            ports.append(port)
    return ports


@contextmanager
def private_folder(prefix: str, *, owner_id: int | None = None) -> Iterator[Path]:
    """A folder of one's own, for whoever runs the server; its parents stay as they are."""
    folder = Path(tempfile.mkdtemp(prefix=f"strop-{prefix}-", dir="/tmp"))
    try:
        if owner_id is not None:
            os.chown(folder, owner_id, owner_id)
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def ending_with_us(how: signal.Signals) -> list[str]:
    """What comes before a command to have it ended when the thread that starts it is gone.

    Also when nobody could end it, as when a test run is killed; only where there is setpriv.
    """
    setpriv = shutil.which("setpriv")
    return [] if setpriv is None else [setpriv, "--pdeathsig", how.name.removeprefix("SIG"), "--"]


def start(
    command: Sequence[str],
    log: Path,
    *,
    user_id: int | None = None,
    folder: Path,
    dies_by: signal.Signals = signal.SIGKILL,
) -> subprocess.Popen[bytes]:
    """Run a server in a session of its own, as another user where one is given.

    `dies_by` is how it ends when the test run does.
    """
    with log.open("ab") as output:
        return subprocess.Popen(
            [*ending_with_us(dies_by), *command],
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=output,
            cwd=folder,
            user=user_id,
            group=user_id,
            extra_groups=None if user_id is None else [],
            env={"PATH": os.environ["PATH"], "HOME": str(folder), "LC_ALL": "C.UTF-8"},
            start_new_session=True,
        )


def wait_until(
    is_ready: Callable[[], bool], process: subprocess.Popen[bytes], log: Path, *, name: str
) -> None:
    """Wait for a server that is starting.

    Raises:
        AssertionError: It ended, or took too long; with what it wrote.
    """
    until = time.monotonic() + START_S
    while not is_ready():
        if process.poll() is not None or time.monotonic() > until:
            raise AssertionError(
                f"{name} did not start:\n{log.read_text(errors='replace')[-4000:]}"
            )
        time.sleep(0.05)


def end(process: subprocess.Popen[bytes], how: signal.Signals = signal.SIGTERM) -> None:
    """End a server and what it started."""
    with suppress(ProcessLookupError):
        os.killpg(process.pid, how)
    try:
        process.wait(STOP_S)
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()


def is_listening(port: int) -> bool:
    """Whether somebody accepts connections."""
    with suppress(OSError), socket.create_connection(("127.0.0.1", port), timeout=1):
        return True
    return False


def _is_free(port: int) -> bool:
    with suppress(OSError), socket.create_server(("127.0.0.1", port)):
        return True
    return False
