"""Let environments be deprecated, archived or quarantined, and versions be closed."""

from typing import Any

import sqlalchemy as sa
from alembic import op

from strop_hub.db import UtcDateTime

revision = "0002"
down_revision = "0001"
branch_labels = None
depends_on = None

_STATUS = sa.Enum(
    "active",
    "deprecated",
    "archived",
    "quarantined",
    name="environmentstatus",
    native_enum=False,
    length=32,
)


def _added() -> tuple[tuple[str, sa.Column[Any]], ...]:
    return (
        ("environments", sa.Column("status", _STATUS, nullable=False, server_default="active")),
        ("environments", sa.Column("status_reason", sa.Text(), nullable=True)),
        ("versions", sa.Column("closed_at", UtcDateTime(), nullable=True)),
        ("versions", sa.Column("quarantine_reason", sa.Text(), nullable=True)),
        ("files", sa.Column("provenance_sha256", sa.String(64), nullable=True)),
    )


def upgrade() -> None:
    for table, column in _added():
        op.add_column(table, column)


def downgrade() -> None:
    for table, column in reversed(_added()):
        op.drop_column(table, column.name)
