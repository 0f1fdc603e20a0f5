"""Let uploads and backups keep the collection of orphans away."""

import sqlalchemy as sa
from alembic import op

from strop_hub.db import UtcDateTime

revision = "0004"
down_revision = "0003"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.create_table(
        "leases",
        sa.Column("id", sa.Integer(), nullable=False),
        sa.Column("key", sa.String(64), nullable=False),
        sa.Column("expires_at", UtcDateTime(), nullable=False),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_leases")),
    )
    op.create_index(op.f("ix_leases_key"), "leases", ["key"])
    op.create_index(op.f("ix_leases_expires_at"), "leases", ["expires_at"])


def downgrade() -> None:
    op.drop_table("leases")
