"""One process of clients that push and resolve for some seconds; prints what came of it as JSON.

Run as ``python -m tests.hub_server.load_client URL TOKEN OWNER INDEX CLIENTS SECONDS``.
"""

import json
import sys
import tempfile
import threading
import time
from collections import Counter
from pathlib import Path

import httpx

from tests.factories import an_upload

PATIENCE_S = 600
"""Hundreds of clients wait for each other's pushes, on a machine that may do other things."""


class Load:
    """What all clients of a process count together."""

    def __init__(self, url: str, token: str, owner: str) -> None:
        self.url, self.token, self.owner = url, token, owner
        self.pushed: list[str] = []
        self.resolved_count = 0
        self.faults: Counter[str] = Counter()
        self.lock = threading.Lock()

    def run_client(self, label: str, until: float, folder: Path) -> None:
        """Push a version, push another at a number that all share, and resolve; again and again.

        Once at least, however slow the machine.
        """
        headers = {"authorization": f"Bearer {self.token}"}
        with httpx.Client(base_url=self.url, headers=headers, timeout=PATIENCE_S) as client:
            number = 0
            while number == 0 or time.monotonic() < until:
                number += 1
                try:
                    self._work(client, label, number, folder)
                except httpx.TransportError as error:
                    with self.lock:
                        self.faults[f"nobody answered: {error!r}"] += 1

    def _work(self, client: httpx.Client, label: str, number: int, folder: Path) -> None:
        name = f"load-{label}"
        self._push(client, folder, name, f"1.{number}", {201, 200})
        # Everybody fights for the same version with another tree: one wins.
        self._push(client, folder, "shared", f"1.{number}", {201, 200, 409}, label)
        self._resolve(client, f"{self.owner}/{name}@1.{number}")

    def _push(
        self,
        client: httpx.Client,
        folder: Path,
        name: str,
        version: str,
        wanted: set[int],
        label: str = "",
    ) -> None:
        tree = {"pyproject.toml": f"{name} {version} {label}"}
        upload = an_upload(folder / f"{name}-{version}", name=name, version=version, tree=tree)
        path = f"/api/v1/owners/{self.owner}/versions"
        answer = client.post(path, **upload.form())
        with self.lock:
            if answer.status_code in (200, 201):
                self.pushed.append(f"{name}@{version}")
            if answer.status_code not in wanted:
                self.faults[f"{answer.status_code} {answer.text[:200]}"] += 1

    def _resolve(self, client: httpx.Client, reference: str) -> None:
        answer = client.post("/api/v1/resolve", json={"references": [reference]})
        is_found = answer.status_code == 200 and "digest" in answer.json()["items"][0]
        with self.lock:
            self.resolved_count += is_found
            if not is_found:
                self.faults[f"resolve: {answer.text[:200]}"] += 1


def main() -> None:
    """Run the clients, then print."""
    url, token, owner, index, client_count, seconds = sys.argv[1:]
    load = Load(url, token, owner)
    until = time.monotonic() + float(seconds)
    with tempfile.TemporaryDirectory() as folder:
        clients = [
            threading.Thread(
                target=load.run_client,
                args=(f"{index}-{number}", until, Path(folder) / str(number)),
            )
            for number in range(int(client_count))
        ]
        for client in clients:
            client.start()
        for client in clients:
            client.join()
    print(
        json.dumps(
            {"pushed": load.pushed, "resolved": load.resolved_count, "faults": dict(load.faults)}
        )
    )


if __name__ == "__main__":
    main()
