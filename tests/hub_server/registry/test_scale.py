"""Searching costs little however many environments there are."""

import statistics
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from strop_hub import migration
from strop_hub.auth import Caller
from strop_hub.db import Database, sqlite_url
from strop_hub.registry.queries import EnvironmentFilter, list_environments
from tests.benchmarks.hub_catalog import fill, vocabulary
from tests.hub_server import backends

ENVIRONMENTS = 4_000
VERSIONS = 20_000
LIMIT_MS = 50


@pytest.fixture(params=["sqlite", "postgres"], scope="module")
def catalog(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Database]:
    path: Path = tmp_path_factory.mktemp("scale")
    url = (
        sqlite_url(path / "hub.sqlite3")
        if request.param == "sqlite"
        else backends.postgres().new_database()
    )
    database = Database.open(url)
    migration.migrate(database)
    fill(database, ENVIRONMENTS, VERSIONS)
    yield database
    database.close()


def test_any_search_costs_little(catalog: Database) -> None:
    words = vocabulary()
    texts = ["", *words[:20], *(word[:2] for word in words[:20]), *(word[:3] for word in words[:9])]
    texts += [f"{first} {second}" for first, second in zip(words[:20], words[20:40], strict=True)]
    costs_ms = []
    for text in [*texts, "nothinglikeit"]:
        began = time.process_time()
        with catalog.read() as session:
            list_environments(session, Caller.anonymous(), EnvironmentFilter(text), None, 20)
        costs_ms.append((time.process_time() - began) * 1000)

    assert statistics.quantiles(costs_ms, n=20)[-1] <= LIMIT_MS


def test_first_letters_and_words_find_among_many(catalog: Database) -> None:
    with catalog.read() as session:
        wanted = EnvironmentFilter(owner="owner-7")
        (one, *_), _ = list_environments(session, Caller.anonymous(), wanted, None, 1)
        name = one.environment.name
        for text in (name, name.split("-")[0], name[:2]):
            found, _ = list_environments(
                session, Caller.anonymous(), EnvironmentFilter(text, owner="owner-7"), None, 50
            )
            assert name in [item.environment.name for item in found], text
