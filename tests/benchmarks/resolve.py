"""CPU of the hub for resolving 20 references in one request.

Run as ``python -m tests.benchmarks.resolve [--json]``.
"""

from __future__ import annotations

import json

from tests.benchmarks.hub_cost import Asker, a_hub, cost_ms, publish, report

COUNT = 100
REFERENCES = 20


def measure() -> dict[str, float]:
    """CPU milliseconds a request."""
    with a_hub() as (hub, owner, token):
        for number in range(REFERENCES):
            publish(hub, owner, token, f"env-{number}", 2, 0)
        body = json.dumps(
            {"references": [f"{owner}/env-{number}" for number in range(REFERENCES)]}
        ).encode()
        kind = {"content_type": "application/json"}
        ask = Asker(hub.url, "/api/v1/resolve", method="POST", body=body, **kind)
        result = {"cpu_ms": cost_ms(hub.process.pid, ask, COUNT)}
        assert ask.status == 200
        return result


if __name__ == "__main__":
    report(measure, __doc__)
