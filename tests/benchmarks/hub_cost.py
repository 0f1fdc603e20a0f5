"""What a request costs a server: CPU time of its processes, and of nothing else."""

from __future__ import annotations

import argparse
import http.client
import json
import os
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import httpx

from tests.factories import an_upload
from tests.hub_server.running_hub import RunningHub, run_hub

_TICKS = os.sysconf("SC_CLK_TCK")
REPEATS = 5


def cpu_s(process_id: int) -> float:
    """User and system seconds of a process and of its children that still run."""
    total = _own_cpu_s(process_id)
    for task in Path(f"/proc/{process_id}/task").iterdir():
        for child in (task / "children").read_text().split():
            total += cpu_s(int(child))
    return total


def _own_cpu_s(process_id: int) -> float:
    fields = Path(f"/proc/{process_id}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / _TICKS


def cost_ms(process_id: int, ask: Callable[[], None], count: int) -> float:
    """CPU milliseconds of a request: the least of several rounds, after one that warms up."""
    rounds = []
    for _ in range(REPEATS + 1):
        before = cpu_s(process_id)
        for _ in range(count):
            ask()
        rounds.append((cpu_s(process_id) - before) / count * 1000)
    return min(rounds[1:])


@contextmanager
def a_hub() -> Iterator[tuple[RunningHub, str, str]]:
    """A hub of one process on SQLite and a folder, with an owner and a token."""
    with (
        tempfile.TemporaryDirectory(prefix="strop-cost-") as folder,
        run_hub(Path(folder) / "hub", requests_per_minute="0") as hub,
    ):
        owner, token = hub.new_user()
        yield hub, owner, token


def publish(hub: RunningHub, owner: str, token: str, name: str, versions: int, size: int) -> None:
    """Publish versions whose wheels have about so many bytes."""
    with tempfile.TemporaryDirectory() as folder:
        for number in range(versions):
            noise = os.urandom(size // 2).hex() if size else ""
            upload = an_upload(
                Path(folder) / str(number),
                name=name,
                version=f"1.{number}",
                files={f"{name}.py": f"# {noise}\n"},
            )
            answer = hub.push(token, owner, upload)
            assert answer.status_code == 201, answer.text


class Asker:
    """Sends one request again and again over one connection."""

    def __init__(
        self, url: str, path: str, *, method: str = "GET", body: bytes | None = None, **headers: str
    ) -> None:
        address = httpx.URL(url)
        self._connection = http.client.HTTPConnection(address.host, address.port)
        self._request = (method, path, body)
        self._headers = {name.replace("_", "-"): value for name, value in headers.items()}
        self.status = 0
        self.size_bytes = 0

    def __call__(self) -> None:
        """Ask once and read the whole answer."""
        method, path, body = self._request
        self._connection.request(method, path, body, self._headers)
        answer = self._connection.getresponse()
        self.status, self.size_bytes = answer.status, len(answer.read())


def report(
    measure: Callable[[], dict[str, float]],
    doc: str | None,
    measure_peers: Callable[[], dict[str, float | None]] | None = None,
) -> None:
    """Measure, print, and end with one JSON object when asked."""
    parser = argparse.ArgumentParser(description=doc)
    parser.add_argument("--json", action="store_true", help="end with one JSON object")
    if measure_peers is not None:
        parser.add_argument("--peers", action="store_true", help="the same through other indexes")
    arguments = parser.parse_args()
    result: dict[str, float | None] = dict(measure())
    if measure_peers is not None and arguments.peers:
        result |= measure_peers()
    result = {name: value and round(value, 4) for name, value in result.items()}
    for name, value in result.items():
        print(f"{name:24} {'-' if value is None else value}")
    if arguments.json:
        print(json.dumps(result))


def some_wheels(folder: Path, count: int, size: int) -> list[Path]:
    """Wheels of the project ``maze`` of about so many bytes."""
    wheels = []
    for number in range(count):
        noise = os.urandom(size // 2).hex() if size else ""
        upload = an_upload(
            folder / str(number),
            name="maze",
            version=f"1.{number}",
            files={"maze.py": f"# {noise}\n"},
        )
        wheels.append(upload.wheel)
    return wheels
