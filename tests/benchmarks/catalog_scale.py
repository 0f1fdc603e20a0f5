"""Search, pages, resolution and start of a hub with many environments, against one with few.

Run as ``python -m tests.benchmarks.catalog_scale [--environments N] [--versions N] [--json]``.
"""

from __future__ import annotations

import argparse
import json
import random
import statistics
import tempfile
import time
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path

import httpx

from strop_hub import admin
from strop_hub.db import Database
from strop_hub.settings import Settings
from tests.benchmarks.hub_catalog import OWNERS, fill, vocabulary
from tests.hub_server.running_hub import RunningHub, run_hub

SEARCHES = 300
REFERENCES = 20
ROUNDS = 100
SMALL_ENVIRONMENTS = 1000
_LISTED = 20


def measure(environment_count: int, version_count: int) -> dict[str, float]:
    """Milliseconds of wall time as a client sees them, and seconds until the hub answers."""
    each = max(1, version_count // environment_count)
    few_count = min(SMALL_ENVIRONMENTS, environment_count)
    with tempfile.TemporaryDirectory(prefix="strop-catalog-") as folder, ExitStack() as stack:
        small, large = Path(folder) / "small", Path(folder) / "large"
        _make(small, few_count, few_count * each)
        _make(large, environment_count, version_count)
        few = stack.enter_context(run_hub(small, requests_per_minute="0"))
        many = stack.enter_context(run_hub(large, requests_per_minute="0"))
        # From the start of the process until something that reads the database is answered.
        many.get("/readyz")
        start_s = time.monotonic() - many.began_at
        return {
            "environments": environment_count,
            "versions": environment_count * each,
            "start_s": round(start_s, 2),
            **_searches(many),
            **_compared(few, many),
        }


def _make(data: Path, environment_count: int, version_count: int) -> None:
    settings = Settings.read({}, data=data)
    admin.init(settings, "root", with_sdk=False)
    database = Database.open(settings.database)
    fill(database, environment_count, version_count)
    database.close()


def _searches(hub: RunningHub) -> dict[str, float]:
    with hub.client() as client:
        searches = [
            _ms(client, "/api/v1/environments", q=text) for text in _texts(random.Random(3))
        ]
        first, index = _ms(client, "/"), _ms(client, "/simple/")
    return {
        "search_p50_ms": round(statistics.median(searches), 2),
        "search_p95_ms": round(statistics.quantiles(searches, n=20)[-1], 2),
        "first_page_ms": round(first, 2),
        "simple_ms": round(index, 1),
    }


def _compared(few: RunningHub, many: RunningHub) -> dict[str, float]:
    """Medians of both hubs, asked in turn so that what else the machine does hits both."""
    result = {}
    for what, ask in {"page": _ask_page, "index": _ask_index, "resolve": _ask_resolve}.items():
        costs: dict[str, list[float]] = {"few": [], "many": []}
        with few.client() as asks_few, many.client() as asks_many:
            names = {"few": _names(asks_few), "many": _names(asks_many)}
            for number in range(ROUNDS + 10):
                for kind, client in (("few", asks_few), ("many", asks_many)):
                    costs[kind].append(ask(client, names[kind], number))
        small, large = (statistics.median(costs[kind][10:]) for kind in ("few", "many"))
        result[f"{what}_ms"] = round(large, 2)
        result[f"{what}_ratio"] = round(large / small, 2)
    return result


def _names(client: httpx.Client) -> list[str]:
    """Full names of environments of many owners."""
    names = []
    for number in range(0, OWNERS, OWNERS // _LISTED):
        page = client.get("/api/v1/environments", params={"owner": f"owner-{number}", "limit": 1})
        names += [f"{item['owner']}/{item['name']}" for item in page.json()["items"]]
    return names


def _ask_page(client: httpx.Client, names: list[str], number: int) -> float:
    return _ms(client, f"/{names[number % len(names)]}")


def _ask_index(client: httpx.Client, names: list[str], number: int) -> float:
    owner, _, name = names[number % len(names)].partition("/")
    return _ms(client, f"/owners/{owner}/simple/{name}/")


def _ask_resolve(client: httpx.Client, names: list[str], number: int) -> float:
    began = time.perf_counter()
    references = [*names[:10], *(f"{name}@0.0.0" for name in names[10:REFERENCES])]
    answer = client.post("/api/v1/resolve", json={"references": references})
    assert all("digest" in item for item in answer.json()["items"]), answer.text[:200]
    return (time.perf_counter() - began) * 1000


def _texts(chance: random.Random) -> list[str]:
    """Common and rare words, two together, first letters, and what is not there."""
    words = vocabulary()
    makers: list[Callable[[], str]] = [
        lambda: chance.choice(words[:50]),
        lambda: chance.choice(words),
        lambda: f"{chance.choice(words[:50])} {chance.choice(words[:200])}",
        lambda: chance.choice(words)[:2],
        lambda: chance.choice(words)[:3],
        lambda: "nothinglikeit",
    ]
    return [makers[number % len(makers)]() for number in range(SEARCHES)]


def _ms(client: httpx.Client, path: str, **query: str) -> float:
    began = time.perf_counter()
    response = client.get(path, params=query)
    assert response.status_code == 200, response.text[:200]
    return (time.perf_counter() - began) * 1000


def main() -> None:
    """Print what was measured."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--environments", type=int, default=100_000)
    parser.add_argument("--versions", type=int, default=1_000_000)
    parser.add_argument("--json", action="store_true", help="end with one JSON object")
    arguments = parser.parse_args()
    result = measure(arguments.environments, arguments.versions)
    for name, value in result.items():
        print(f"{name:20} {value}")
    if arguments.json:
        print(json.dumps(result))


if __name__ == "__main__":
    main()
