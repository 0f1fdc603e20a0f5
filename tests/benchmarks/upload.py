"""CPU of the hub for the push of a small wheel with its source: validated, forced to disk, audited.

Run as ``python -m tests.benchmarks.upload [--json]``.
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from pathlib import Path

import httpx

from tests.benchmarks.hub_cost import REPEATS, a_hub, cost_ms, report
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


if __name__ == "__main__":
    report(measure, __doc__)
