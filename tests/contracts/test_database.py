"""What the hub asks of a database, on SQLite and on PostgreSQL."""

import threading
import time
from collections.abc import Iterator
from pathlib import Path

import psycopg
import pytest
from alembic.autogenerate import compare_metadata
from alembic.migration import MigrationContext
from sqlalchemy import select, text
from sqlalchemy.orm import Session

from strop.errors import ConfigError
from strop_hub import migration
from strop_hub.audit.feed import append_event, next_values
from strop_hub.db import Base, Database, sqlite_url
from strop_hub.errors import StorageUnavailableError
from strop_hub.models import Environment, Event, Owner, OwnerKind, Visibility
from strop_hub.postgres import ChangeListener
from tests.hub_server import backends
from tests.servers.processes import free_ports


@pytest.fixture(params=["sqlite", "postgres"])
def url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    if request.param == "sqlite":
        return sqlite_url(tmp_path / "hub.sqlite3")
    return backends.postgres().new_database()


@pytest.fixture
def database(url: str) -> Iterator[Database]:
    database = Database.open(url)
    migration.migrate(database)
    yield database
    database.close()


@pytest.fixture
def other(url: str, database: Database) -> Iterator[Database]:
    other = Database.open(url)
    yield other
    other.close()


def add_owner(database: Database, name: str = "ada") -> None:
    database.write(lambda session: session.add(Owner(name=name, kind=OwnerKind.PERSON)))


def in_threads(*acts: object) -> None:
    threads = [threading.Thread(target=act) for act in acts]  # type: ignore[arg-type]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


def test_the_schema_equals_the_models_and_can_be_undone(database: Database) -> None:
    with database.engine.connect() as connection:
        context = MigrationContext.configure(connection, opts={"compare_type": True})
        assert compare_metadata(context, Base.metadata) == []

    migration.downgrade(database, "base")
    assert migration.current_revision(database) is None
    migration.migrate(database)
    assert migration.current_revision(database) == migration.latest_revision()


def test_starts_at_once_migrate_once(url: str) -> None:
    databases = [Database.open(url) for _ in range(3)]

    in_threads(*(lambda each=each: migration.migrate(each) for each in databases))

    assert {migration.current_revision(each) for each in databases} == {migration.latest_revision()}
    for each in databases:
        each.close()


def test_numbers_of_many_writers_have_no_gaps(database: Database, other: Database) -> None:
    values: list[int] = []

    def write_often(target: Database) -> None:
        for _ in range(20):
            values.append(target.write(lambda session: next_values(session, ["serial"])["serial"]))

    in_threads(*(lambda each=each: write_often(each) for each in (database, other) * 2))

    assert sorted(values) == list(range(1, 81))


def test_a_follower_never_sees_a_serial_before_a_smaller_one(
    database: Database, other: Database
) -> None:
    add_owner(database)

    def make(session: Session) -> int:
        environment = Environment(owner_id=1, name="maze", visibility=Visibility.PUBLIC)
        session.add(environment)
        session.flush()
        return environment.id

    environment_id = database.write(make)
    seen: list[int] = []
    is_over = threading.Event()

    def follow() -> None:
        while not is_over.is_set() or len(seen) < 60:
            with other.read() as session:
                statement = select(Event.serial).where(Event.serial > (seen[-1] if seen else 0))
                seen.extend(session.scalars(statement.order_by(Event.serial)))

    def publish(target: Database) -> None:
        def write(session: Session) -> None:
            append_event(session, session.get_one(Environment, environment_id), "publish", "1.0")
            session.flush()
            time.sleep(0.002)

        for _ in range(15):
            target.write(write)

    follower = threading.Thread(target=follow)
    follower.start()
    in_threads(*(lambda each=each: publish(each) for each in (database, other) * 2))
    is_over.set()
    follower.join(120)

    assert seen == list(range(1, 61))


def test_writers_that_read_first_never_overwrite_each_other(
    database: Database, other: Database
) -> None:
    add_owner(database)

    def raise_it(session: Session) -> None:
        owner = session.scalars(select(Owner)).one()
        time.sleep(0.002)
        owner.stored_bytes += 1

    def write_often(target: Database) -> None:
        for _ in range(10):
            target.write(raise_it)

    in_threads(*(lambda each=each: write_often(each) for each in (database, other) * 2))

    with database.read() as session:
        assert session.scalars(select(Owner.stored_bytes)).one() == 40


def test_a_reader_keeps_its_snapshot(database: Database, other: Database) -> None:
    with database.read() as session:
        assert session.scalars(select(Owner)).all() == []
        add_owner(other)
        assert session.scalars(select(Owner)).all() == []

    with database.read() as session:
        assert len(session.scalars(select(Owner)).all()) == 1


def test_names_sort_byte_by_byte(database: Database) -> None:
    names = ["a-b", "ab", "a1", "a-a", "b", "a"]
    for name in names:
        add_owner(database, name)

    with database.read() as session:
        found = session.scalars(select(Owner.name).order_by(Owner.name)).all()

    assert found == sorted(names)


def test_a_connection_that_was_cut_is_made_anew_and_the_write_repeated() -> None:
    database = Database.open(backends.postgres().new_database())
    migration.migrate(database)
    tries: list[int] = []

    def write(session: Session) -> None:
        tries.append(1)
        if len(tries) == 1:
            own = session.scalar(text("SELECT pg_backend_pid()"))
            with database.engine.connect() as connection:
                connection.execute(text("SELECT pg_terminate_backend(:pid)"), {"pid": own})
        session.add(Owner(name="ada", kind=OwnerKind.PERSON))
        session.flush()

    database.write(write)

    assert len(tries) == 2
    with database.read() as session:
        assert session.scalars(select(Owner.name)).all() == ["ada"]
    database.close()


def test_a_writer_is_told_why_it_gets_no_connection_but_not_where() -> None:
    url = backends.postgres().new_database()
    name = url.rpartition("/")[2]
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute(f"CREATE ROLE {name} LOGIN CONNECTION LIMIT 1".encode())
    crowded = Database.open(url.replace("hub@", f"{name}@"))
    down = Database.open(url.replace(f":{backends.postgres().port}/", f":{free_ports(1)[0]}/"))

    with crowded.read() as session:
        session.execute(text("SELECT 1"))
        with pytest.raises(StorageUnavailableError) as refused:
            crowded.write(lambda session: session.execute(text("SELECT 1")))
    with pytest.raises(StorageUnavailableError) as unanswered:
        down.write(lambda session: session.execute(text("SELECT 1")))
    crowded.close()
    down.close()

    told = "the hub's database cannot be written: {}. Repeat the request later."
    assert str(refused.value) == told.format("it takes no more connections")
    assert str(unanswered.value) == told.format("it does not answer")


def test_other_processes_are_told_of_changes_at_once() -> None:
    url = backends.postgres().new_database()
    database, other = Database.open(url), Database.open(url)
    migration.migrate(database)
    heard = threading.Event()
    listener = ChangeListener(other.engine, heard.set)
    listener.start()
    assert heard.wait(60)
    heard.clear()

    def write(session: Session) -> None:
        owner = Owner(name="ada", kind=OwnerKind.PERSON)
        session.add(owner)
        session.flush()
        environment = Environment(owner_id=owner.id, name="maze", visibility=Visibility.PUBLIC)
        session.add(environment)
        session.flush()
        append_event(session, environment, "publish", "1.0")

    try:
        database.write(write)
        assert heard.wait(60)
    finally:
        listener.stop()
        database.close()
        other.close()


@pytest.mark.parametrize("url", ["mysql://hub@db/hub", "oracle://hub@db/hub"])
def test_other_databases_are_refused(url: str) -> None:
    with pytest.raises(ConfigError, match="postgresql://"):
        Database.open(url)


@pytest.mark.parametrize("url", ["hub", "://", "postgresql://hub:secret@db:port/hub"])
def test_what_is_no_address_is_refused_without_repeating_it(url: str) -> None:
    with pytest.raises(ConfigError, match="STROP_HUB_DATABASE_URL is no URL") as refused:
        Database.open(url)
    assert "secret" not in str(refused.value)
