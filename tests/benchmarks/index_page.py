"""CPU of the hub for an index page of 5 files, and for its 304.

Run as ``python -m tests.benchmarks.index_page [--json]``.
"""

from __future__ import annotations

import httpx

from tests.benchmarks.hub_cost import Asker, a_hub, cost_ms, publish, report

COUNT = 1000


def measure() -> dict[str, float]:
    """CPU milliseconds a request."""
    with a_hub() as (hub, owner, token):
        publish(hub, owner, token, "maze", 5, 0)
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


if __name__ == "__main__":
    report(measure, __doc__)
