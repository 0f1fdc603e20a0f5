"""CPU of the hub for a wheel of 100 KB.

Run as ``python -m tests.benchmarks.download [--peers] [--json]``.
"""

from __future__ import annotations

import tempfile
from pathlib import Path

from tests.benchmarks.hub_cost import Asker, a_hub, cost_ms, publish, report, some_wheels
from tests.benchmarks.hub_peers import INDEXES, PeerIndex, through_peers

COUNT = 500
SIZE_BYTES = 100_000


def measure() -> dict[str, float]:
    """CPU milliseconds a request."""
    with a_hub() as (hub, owner, token):
        publish(hub, owner, token, "maze", 1, SIZE_BYTES)
        file = Asker(hub.url, f"/owners/{owner}/files/maze/maze-1.0-py3-none-any.whl")
        result = {"cpu_ms": cost_ms(hub.process.pid, file, COUNT)}
        assert file.status == 200
        return result | {"size_bytes": file.size_bytes}


def measure_peers() -> dict[str, float | None]:
    """The same file of other indexes."""
    with tempfile.TemporaryDirectory(prefix="strop-peers-") as name:
        folder = Path(name)
        wheels = some_wheels(folder / "wheels", 1, SIZE_BYTES)
        return through_peers(INDEXES, folder, wheels, _cost_of_file)


def _cost_of_file(peer: PeerIndex) -> float:
    file = Asker(peer.url, peer.file)
    cost = cost_ms(peer.process_id, file, COUNT)
    assert file.status == 200
    return cost


if __name__ == "__main__":
    report(measure, __doc__, measure_peers)
