"""Migrations make exactly the tables that the models describe, and can be undone."""

import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
from alembic.autogenerate import compare_metadata
from alembic.migration import MigrationContext
from sqlalchemy import inspect

from strop_hub import migration
from strop_hub.db import Base, Database, sqlite_url


@pytest.fixture
def database(tmp_path: Path) -> Iterator[Database]:
    database = Database.open(sqlite_url(tmp_path / "hub.sqlite3"))
    yield database
    database.close()


def tables(database: Database) -> set[str]:
    return set(inspect(database.engine).get_table_names()) - {"alembic_version"}


def test_migrations_go_up_down_and_up_again(database: Database) -> None:
    migration.migrate(database)
    assert tables(database) == set(Base.metadata.tables)

    migration.downgrade(database, "base")
    assert tables(database) == set()

    migration.migrate(database)
    assert tables(database) == set(Base.metadata.tables)
    assert migration.current_revision(database) == migration.latest_revision()


def test_the_models_equal_the_migrated_schema(database: Database) -> None:
    migration.migrate(database)

    with database.engine.connect() as connection:
        context = MigrationContext.configure(connection, opts={"compare_type": True})
        assert compare_metadata(context, Base.metadata) == []


def test_migrating_again_changes_nothing(database: Database) -> None:
    migration.migrate(database)
    migration.migrate(database)

    assert migration.current_revision(database) == migration.latest_revision()


def test_several_starts_at_once_migrate_once(tmp_path: Path) -> None:
    databases = [Database.open(sqlite_url(tmp_path / "hub.sqlite3")) for _ in range(4)]
    threads = [threading.Thread(target=migration.migrate, args=(each,)) for each in databases]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert {migration.current_revision(each) for each in databases} == {migration.latest_revision()}
    for each in databases:
        each.close()


def test_foreign_keys_are_enforced_after_a_migration(database: Database) -> None:
    migration.migrate(database)

    with database.writing_engine.connect() as connection:
        assert connection.exec_driver_sql("PRAGMA foreign_keys").scalar() == 1
