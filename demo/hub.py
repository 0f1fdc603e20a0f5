"""A hub of one's own: created in a folder, served by a process that ends with its user."""

import json
import os
import re
import shutil
import signal
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

STROP = Path(sys.executable).with_name("strop")

_START_S = 60.0
_STOP_S = 15.0
_ADDRESS = re.compile(r"https?://[\w.\[\]:-]+:\d+")
# A proxy that this machine is told to use knows nothing of our loopback address.
_OPENER = urllib.request.build_opener(urllib.request.ProxyHandler({}))


class HubStartError(Exception):
    """A hub cannot be created, or its process ended or is not ready in time."""


def create_hub(folder: Path, strop: Path = STROP, admin: str = "demo") -> str:
    """Create a hub in a folder unless it is there; returns its administrator's token.

    Raises:
        HubStartError: It cannot be created.
    """
    token_file = folder / "admin-token"
    if token_file.exists():
        return token_file.read_text().strip()
    # Without a token nobody can use what an interrupted run left here.
    shutil.rmtree(folder / "hub", ignore_errors=True)
    folder.mkdir(parents=True, exist_ok=True)
    arguments = ["init", "--data", str(folder / "hub"), "--admin", admin, "--json"]
    reply = subprocess.run(
        [strop, "hub", *arguments], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, text=True
    )
    if reply.returncode:
        raise HubStartError(f"no hub could be created: {reply.stdout.strip()}")
    token: str = json.loads(reply.stdout)["token"]
    partial = token_file.with_suffix(".partial")
    partial.unlink(missing_ok=True)
    partial.touch(mode=0o600)
    partial.write_text(token)
    partial.rename(token_file)
    return token


@contextmanager
def serve_hub(folder: Path, strop: Path = STROP, port: int = 0) -> Iterator[str]:
    """Serve the hub of a folder until the block ends, however it ends; gives its address."""
    log = folder / "hub.log"
    command = [str(strop), "hub", "serve", "--data", str(folder / "hub"), "--port", str(port)]
    environ = {**os.environ, "PYTHONUNBUFFERED": "1"}
    # A signal between the start and the block would leave the hub behind: it waits that long.
    late: list[int] = []
    previous = signal.signal(signal.SIGTERM, lambda number, _: late.append(number))
    with log.open("w") as output:
        server = subprocess.Popen(
            command, stdout=output, stderr=subprocess.STDOUT, stdin=subprocess.DEVNULL, env=environ
        )
    try:
        signal.signal(signal.SIGTERM, previous)
        if late:
            os.kill(os.getpid(), signal.SIGTERM)
        yield _wait_until_ready(server, log)
    finally:
        server.terminate()
        try:
            server.wait(_STOP_S)
        except subprocess.TimeoutExpired:
            server.kill()
            server.wait()


def _wait_until_ready(server: "subprocess.Popen[bytes]", log: Path) -> str:
    deadline = time.monotonic() + _START_S
    while time.monotonic() < deadline and server.poll() is None:
        address = _ADDRESS.search(log.read_text())
        if address is not None and _is_ready(address.group()):
            return address.group()
        time.sleep(0.05)
    state = "is not ready" if server.poll() is None else f"ended with {server.returncode}"
    raise HubStartError(f"the hub {state}; the end of {log}:\n{log.read_text()[-2000:]}")


def _is_ready(address: str) -> bool:
    try:
        with _OPENER.open(f"{address}/readyz", timeout=5) as reply:
            return bool(reply.status == 200)
    except (urllib.error.URLError, ConnectionError, TimeoutError):
        return False
