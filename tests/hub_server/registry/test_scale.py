"""Searching costs little however many environments there are."""

import statistics
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from sqlalchemy import select, update

from strop.hub.refs import EnvRef
from strop_hub import migration
from strop_hub.auth import Caller
from strop_hub.db import Database, sqlite_url
from strop_hub.downloads import Downloads
from strop_hub.models import Environment, Owner, Visibility
from strop_hub.registry.candidates import load_shelves
from strop_hub.registry.queries import (
    MAX_COUNTED_MATCHES,
    EnvironmentFilter,
    count_environments,
    find_environment,
    find_version,
    list_environments,
    list_versions,
)
from strop_hub.search import MAX_CANDIDATES, Narrowing, candidates
from tests.benchmarks.hub_catalog import CATEGORIES, OWNERS, fill, vocabulary
from tests.hub_server import backends

ENVIRONMENTS = 4_000
VERSIONS = 20_000

# One worker fills both catalogs, and not each of them.
pytestmark = pytest.mark.xdist_group("scale")


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


@pytest.mark.parametrize("limit_ms", [500, pytest.param(50, marks=pytest.mark.slow)])
def test_any_search_costs_little(catalog: Database, limit_ms: int) -> None:
    words = vocabulary()
    texts = ["", *words[:20], *(word[:2] for word in words[:20]), *(word[:3] for word in words[:9])]
    texts += [f"{first} {second}" for first, second in zip(words[:20], words[20:40], strict=True)]
    costs_ms = []
    for text in [*texts, "nothinglikeit"]:
        began = time.process_time()
        with catalog.read() as session:
            list_environments(session, Caller.anonymous(), EnvironmentFilter(text), None, 20)
        costs_ms.append((time.process_time() - began) * 1000)

    assert statistics.quantiles(costs_ms, n=20)[-1] <= limit_ms


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


def test_among_too_many_the_most_downloaded_are_looked_at(catalog: Database) -> None:
    oldest = 1000
    with catalog.read() as session:
        # Every environment of the catalog has this word.
        before = set(session.scalars(candidates(["owner"], Narrowing())))
    downloads = Downloads(catalog)
    for _ in range(5):
        downloads.note(oldest)
    downloads.note(ENVIRONMENTS + 5000)
    downloads.flush()
    with catalog.read() as session:
        after = set(session.scalars(candidates(["owner"], Narrowing())))
        counted = session.get_one(Environment, oldest).download_count

    assert len(before) == len(after) == MAX_CANDIDATES < ENVIRONMENTS
    assert (oldest in before, oldest in after) == (False, True)
    assert counted == 5


@pytest.mark.parametrize(
    ("wanted", "count"),
    [
        (EnvironmentFilter("owner", owner="owner-7"), ENVIRONMENTS // OWNERS),
        (EnvironmentFilter("owner", category="science"), ENVIRONMENTS // len(CATEGORIES) + 1),
    ],
)
def test_what_a_filter_leaves_out_takes_no_place_among_the_candidates(
    catalog: Database, wanted: EnvironmentFilter, count: int
) -> None:
    with catalog.read() as session:
        found = count_environments(session, Caller.anonymous(), wanted)

    # Half of these are beyond what a search of all owners looks at.
    assert found == (count, False)


def test_what_is_hidden_takes_no_place_among_the_candidates(catalog: Database) -> None:
    def show(visibility: Visibility) -> None:
        # The first that a search of all looks at.
        newest = update(Environment).where(Environment.id >= 1000 + ENVIRONMENTS - MAX_CANDIDATES)
        catalog.write(lambda session: session.execute(newest.values(visibility=visibility)))

    show(Visibility.PRIVATE)
    try:
        with catalog.read() as session:
            found, _ = list_environments(
                session, Caller.anonymous(), EnvironmentFilter("owner"), None, 50
            )
    finally:
        show(Visibility.PUBLIC)

    assert len(found) == 50


def test_counting_ends_where_it_would_cost_or_mislead(catalog: Database) -> None:
    with catalog.read() as session:
        everybody = Caller.anonymous()
        all_of_them = count_environments(session, everybody, EnvironmentFilter())
        of_an_owner = count_environments(session, everybody, EnvironmentFilter(owner="owner-7"))
        found = count_environments(session, everybody, EnvironmentFilter("owner"))

    assert all_of_them == (ENVIRONMENTS, False)
    assert of_an_owner == (ENVIRONMENTS // OWNERS, False)
    assert found == (MAX_COUNTED_MATCHES, True)


def test_pages_and_references_cost_what_they_cost_among_few(
    catalog: Database, tmp_path: Path
) -> None:
    few = Database.open(sqlite_url(tmp_path / "few.sqlite3"))
    if catalog.engine.dialect.name != "sqlite":
        few = Database.open(backends.postgres().new_database())
    migration.migrate(few)
    fill(few, 500, 2500)
    pairs = {"few": few, "many": catalog}
    for ask in (_show, _list_versions, _resolve):
        least = dict.fromkeys(pairs, float("inf"))
        for number in range(60):
            for name, database in pairs.items():
                began = time.process_time()
                ask(database, number)
                least[name] = min(least[name], time.process_time() - began)
        assert least["many"] <= 1.5 * least["few"], ask.__name__
    few.close()


def _show(database: Database, number: int) -> None:
    with database.read() as session:
        wanted = EnvironmentFilter(owner=f"owner-{number}")
        (one, *_), _ = list_environments(session, Caller.anonymous(), wanted, None, 1)
        found = find_environment(session, Caller.anonymous(), one.owner, one.environment.name)
        assert found is not None


def _list_versions(database: Database, number: int) -> None:
    with database.read() as session:
        rows, _ = list_versions(session, 1000 + number, None, 20)
        assert find_version(session, 1000 + number, rows[0].canonical_version) is not None


def _resolve(database: Database, number: int) -> None:
    with database.read() as session:
        owners = [f"owner-{(number * 20 + index) % OWNERS}" for index in range(20)]
        named = session.execute(
            select(Owner.name, Environment.name)
            .join(Environment.owner)
            .where(Owner.name.in_(owners), Environment.id < 1500)
        )
        texts = [f"{owner}/{name}" for owner, name in named]
        exact = [EnvRef.parse(f"{text}@0.1.0") for text in texts[:10]]
        latest = [EnvRef.parse(text) for text in texts[10:]]
        found = load_shelves(session, Caller.anonymous(), [*exact, *latest])
        assert all(len(shelf.candidates) == 1 for shelf in found.values())
        assert len(found) == len(owners)
