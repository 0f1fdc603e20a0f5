"""CPU of the hub for the push of a small wheel with its source: validated, forced to disk, audited.

Run as ``python -m tests.benchmarks.upload [--peers] [--json]``.
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from pathlib import Path

import httpx

from tests.benchmarks.hub_cost import REPEATS, a_hub, cost_ms, report, some_wheels
from tests.benchmarks.hub_peers import UPLOADS, PeerIndex, send, through_peers
from tests.factories import an_upload

COUNT = 50


def measure() -> dict[str, float]:
    """CPU milliseconds a push; every one is a version of its own."""
    with a_hub() as (hub, owner, token), tempfile.TemporaryDirectory() as folder:
        uploads = (
            an_upload(Path(folder) / str(number), name="maze", version=f"1.{number}").form()
            for number in range(COUNT * (REPEATS + 1))
        )
        path = f"{hub.url}/api/v1/owners/{owner}/versions"
        requests = [_prepared(path, token, upload) for upload in uploads]
        pushes = _pushed(requests)
        return {"cpu_ms": cost_ms(hub.process.pid, lambda: next(pushes), COUNT)}


def _prepared(path: str, token: str, upload: dict[str, dict[str, str]]) -> httpx.Request:
    request = httpx.Request(
        "POST",
        path,
        headers={"authorization": f"Bearer {token}"},
        **upload,  # type: ignore[arg-type]
    )
    request.read()
    return request


def _pushed(requests: list[httpx.Request]) -> Iterator[None]:
    with httpx.Client(timeout=60) as client:
        for request in requests:
            answer = client.send(request)
            assert answer.status_code == 201, answer.text
            yield


def measure_peers() -> dict[str, float | None]:
    """The wheel alone through other indexes, which check nothing of it."""
    with tempfile.TemporaryDirectory(prefix="strop-peers-") as name:
        folder = Path(name)
        wheels = some_wheels(folder / "wheels", COUNT * (REPEATS + 1) + 1, 0)

        def cost_of_upload(peer: PeerIndex) -> float:
            left = iter(wheels[1:])
            address = f"{peer.url}{peer.upload}"
            return cost_ms(peer.process_id, lambda: send(address, next(left), peer.headers), COUNT)

        return through_peers(UPLOADS, folder, wheels[:1], cost_of_upload)


if __name__ == "__main__":
    report(measure, __doc__, measure_peers)
