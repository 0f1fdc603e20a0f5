"""CPU of the hub for an index page of 5 files, and for its 304.

Run as ``python -m tests.benchmarks.index_page [--peers] [--json]``.
"""

from __future__ import annotations

import tempfile
from pathlib import Path

import httpx

from tests.benchmarks.hub_cost import Asker, a_hub, cost_ms, publish, report, some_wheels
from tests.benchmarks.hub_peers import INDEXES, PeerIndex, through_peers

COUNT = 1000
FILES = 5


def measure() -> dict[str, float]:
    """CPU milliseconds a request."""
    with a_hub() as (hub, owner, token):
        publish(hub, owner, token, "maze", FILES, 0)
        path = f"/owners/{owner}/simple/maze/"
        accept = "application/vnd.pypi.simple.v1+json"
        etag = httpx.get(hub.url + path, headers={"accept": accept}).headers["etag"]
        page = Asker(hub.url, path, accept=accept)
        known = Asker(hub.url, path, accept=accept, if_none_match=etag)
        result = {
            "cpu_ms": cost_ms(hub.process.pid, page, COUNT),
            "not_modified_cpu_ms": cost_ms(hub.process.pid, known, COUNT),
        }
        assert (page.status, known.status) == (200, 304)
        return result


def measure_peers() -> dict[str, float | None]:
    """The same page of other indexes."""
    with tempfile.TemporaryDirectory(prefix="strop-peers-") as name:
        folder = Path(name)
        wheels = some_wheels(folder / "wheels", FILES, 0)
        return through_peers(INDEXES, folder, wheels, _cost_of_page)


def _cost_of_page(peer: PeerIndex) -> float:
    page = Asker(peer.url, peer.page, accept="text/html")
    cost = cost_ms(peer.process_id, page, COUNT // 2)
    assert page.status == 200
    return cost


if __name__ == "__main__":
    report(measure, __doc__, measure_peers)
