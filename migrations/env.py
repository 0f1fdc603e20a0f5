"""How alembic reaches the hub's database; `strop_hub.migration` hands the connection in."""

from alembic import context
from sqlalchemy import Connection

import strop_hub.models  # noqa: F401 - registers every table
from strop_hub.db import Base, Database
from strop_hub.settings import Settings


def run(connection: Connection) -> None:
    """Run the asked-for migrations in the transaction that `connection` is in."""
    context.configure(
        connection=connection,
        target_metadata=Base.metadata,
        # SQLite cannot alter most of a table: it is written anew.
        render_as_batch=connection.dialect.name == "sqlite",
        transactional_ddl=True,
    )
    with context.begin_transaction():
        context.run_migrations()


given = context.config.attributes.get("connection")
if given is not None:
    run(given)
else:
    # The bare `alembic` command, with the hub's own variables (STROP_HUB_DATA).
    with Database.open(Settings.read().database).engine.begin() as opened:
        run(opened)
