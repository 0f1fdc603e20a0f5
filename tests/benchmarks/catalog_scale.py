"""Search, pages, resolution and start of a hub with many environments.

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
from pathlib import Path

import httpx

from strop_hub import admin
from strop_hub.db import Database
from strop_hub.settings import Settings
from tests.benchmarks.hub_catalog import fill, vocabulary
from tests.hub_server.running_hub import RunningHub, run_hub

SEARCHES = 300


def measure(environment_count: int, version_count: int) -> dict[str, float]:
    """Milliseconds of wall time as a client sees them, and seconds until the hub answers."""
    with tempfile.TemporaryDirectory(prefix="strop-catalog-") as folder:
        data = Path(folder) / "hub"
        settings = Settings.read({}, data=data)
        admin.init(settings, "root", with_sdk=False)
        database = Database.open(settings.database)
        fill(database, environment_count, version_count)
        database.close()
        began = time.monotonic()
        with run_hub(data) as hub:
            start_s = time.monotonic() - began
            return {"start_s": round(start_s, 2)} | _reads(hub, environment_count)


def _reads(hub: RunningHub, environment_count: int) -> dict[str, float]:
    chance = random.Random(3)
    texts = _texts(chance)
    owner = 7
    listing = hub.get(f"/api/v1/environments?owner=owner-{owner}&limit=20").json()["items"]
    names = [item["name"] for item in listing]
    with hub.client() as client:
        searches = [_ms(client, "/api/v1/environments", q=text) for text in texts]
        pages = [_ms(client, f"/owner-{owner}/{name}") for name in names]
        first, index = _ms(client, "/"), _ms(client, "/simple/")
    return {
        "environments": environment_count,
        "search_p50_ms": round(statistics.median(searches), 2),
        "search_p95_ms": round(statistics.quantiles(searches, n=20)[-1], 2),
        "project_page_ms": round(statistics.median(pages), 2),
        "first_page_ms": round(first, 2),
        "simple_ms": round(index, 1),
    }


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
