"""Bring a database to the schema of this version of the hub."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from alembic import command
from alembic.config import Config
from alembic.migration import MigrationContext
from alembic.script import ScriptDirectory
from sqlalchemy import Connection, text

import strop_hub
from strop.errors import ConfigError
from strop_hub.db import Database

LATEST = "head"
_ADVISORY_LOCK = 0x5354524F50


def migrate(database: Database, revision: str = LATEST) -> None:
    """Upgrade to `revision`; without effect when the database is there already.

    Any number of processes may call it at once: one migrates, the others wait for it.
    """
    _run(database, command.upgrade, revision)


def downgrade(database: Database, revision: str) -> None:
    """Go back to `revision`; ``base`` is the empty database."""
    _run(database, command.downgrade, revision)


def current_revision(database: Database) -> str | None:
    """The revision that the database is at; None for an empty one."""
    with database.engine.connect() as connection:
        return MigrationContext.configure(connection).get_current_revision()


def latest_revision() -> str:
    """The revision that this version of the hub works with."""
    revision = ScriptDirectory.from_config(_config()).get_current_head()
    assert revision is not None
    return revision


def script_folder() -> Path:
    """Where the migrations lie: inside an installed package, at the root of a checkout."""
    package = Path(strop_hub.__file__).parent
    for folder in (package / "migrations", package.parents[1] / "migrations"):
        if (folder / "env.py").is_file():
            return folder
    raise ConfigError(f"the migrations are missing beside {package}; install strop[hub] again")


def _run(database: Database, act: Any, revision: str) -> None:
    config = _config()
    with _alone(database) as connection:
        config.attributes["connection"] = connection
        act(config, revision)


@contextmanager
def _alone(database: Database) -> Iterator[Connection]:
    with database.writing_engine.connect() as connection:
        is_sqlite = connection.dialect.name == "sqlite"
        if is_sqlite:
            # Tables are written anew, which would break references to them half-way; the switch
            # is without effect inside a transaction.
            _switch_foreign_keys(connection, "OFF")
        try:
            # BEGIN IMMEDIATE on SQLite, which keeps every other writer out.
            with connection.begin():
                if not is_sqlite:
                    connection.execute(text(f"SELECT pg_advisory_xact_lock({_ADVISORY_LOCK})"))
                yield connection
        finally:
            if is_sqlite:
                _switch_foreign_keys(connection, "ON")


def _switch_foreign_keys(connection: Connection, state: str) -> None:
    driver_connection: Any = connection.connection.driver_connection
    driver_connection.execute(f"PRAGMA foreign_keys = {state}")


def _config() -> Config:
    config = Config()
    config.set_main_option("script_location", str(script_folder()).replace("%", "%%"))
    config.set_main_option("path_separator", "os")
    return config
