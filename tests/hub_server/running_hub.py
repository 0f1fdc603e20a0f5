"""A real hub process on a free port, and what tests do to it."""

import itertools
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, Any

import httpx

from strop.hub.wire import Scope
from strop_hub import admin
from strop_hub.settings import Settings
from tests.factories import AnUpload
from tests.hub_server import backends
from tests.servers.processes import ending_with_us

STOP_S = 120
PATIENCE_S = 300
"""Of a client: a deadline for what is broken, and not for what is slow."""


@dataclass
class RunningHub:
    """A hub that answers at `url`."""

    url: str
    settings: Settings
    admin_token: str
    process: subprocess.Popen[str]
    log: Path
    began_at: float = 0.0
    """When its process was started, on the monotonic clock."""
    _counter: Iterator[int] = field(default_factory=itertools.count)

    def client(self, token: str | None = None) -> httpx.Client:
        """A client of the hub, to be closed by the caller."""
        headers = {} if token is None else {"authorization": f"Bearer {token}"}
        return httpx.Client(base_url=self.url, headers=headers, timeout=PATIENCE_S)

    def new_user(self, scopes: Sequence[Scope] | None = None) -> tuple[str, str]:
        """A user whom no other test knows, and a token."""
        name = f"user-{os.getpid()}-{next(self._counter)}"
        admin.user_add(self.settings, name)
        return name, self.new_token(name, scopes=scopes)

    def new_token(self, user: str, **given: Any) -> str:
        """A token of a user."""
        return admin.token_create(self.settings, user, **given)[0]

    def push(
        self, token: str | None, owner: str, upload: AnUpload, **fields: str
    ) -> httpx.Response:
        """Push as `owner`."""
        with self.client(token) as client:
            return client.post(f"/api/v1/owners/{owner}/versions", **upload.form(**fields))

    def get(self, path: str, token: str | None = None) -> httpx.Response:
        """Read an address."""
        with self.client(token) as client:
            return client.get(path)

    def stop(self) -> int:
        """Ask the hub to stop; gives its exit status."""
        self.process.send_signal(signal.SIGTERM)
        return self.process.wait(STOP_S)


@contextmanager
def run_hub(
    data: Path, admin_name: str = "root", *, arguments: Sequence[str] = (), **variables: str
) -> Iterator[RunningHub]:
    """A hub over `data`, made when it is not there; ``max_file_bytes="9"`` sets that variable.

    `arguments` go to ``strop hub serve``.

    The SDK is not published: it takes seconds, and few tests need it.
    """
    given = backends.settings_for(data)
    settings = backends.settings_of(data)
    token = admin.init(settings, admin_name, with_sdk=False).token
    if token is None:
        token = admin.token_create(settings, admin_name, scopes=[Scope.ADMIN])[0]
    log_path = data.parent / f"{data.name}.log"
    with log_path.open("a") as log:
        began_at = time.monotonic()
        process = _start(data, log, given | variables, arguments)
        try:
            url = json.loads(_read_document(process, log_path))["url"]
            yield RunningHub(url, settings, token, process, log_path, began_at)
        finally:
            process.terminate()
            process.wait(STOP_S)
            assert process.stdout is not None
            process.stdout.close()


def _start(
    data: Path, log: IO[str], variables: dict[str, str], arguments: Sequence[str]
) -> subprocess.Popen[str]:
    environment = os.environ | {
        f"STROP_HUB_{name.upper()}": value for name, value in variables.items()
    }
    command = [
        *ending_with_us(signal.SIGTERM),
        str(Path(sys.executable).with_name("strop")),
        "hub",
        "serve",
        "--data",
        str(data),
        "--port",
        "0",
        "--json",
        *arguments,
    ]
    return subprocess.Popen(
        command,
        env=environment,
        stdout=subprocess.PIPE,
        stderr=log,
        text=True,
    )


def _read_document(process: subprocess.Popen[str], log: Path) -> str:
    assert process.stdout is not None
    lines = []
    for line in process.stdout:
        lines.append(line)
        if line.rstrip() == "}":
            return "".join(lines)
    raise AssertionError(f"the hub did not start:\n{log.read_text()}")
