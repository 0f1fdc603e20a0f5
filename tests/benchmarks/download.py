"""CPU of the hub for a wheel of 100 KB.

Run as ``python -m tests.benchmarks.download [--json]``.
"""

from __future__ import annotations

from tests.benchmarks.hub_cost import Asker, a_hub, cost_ms, publish, report

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


if __name__ == "__main__":
    report(measure, __doc__)
