"""Let renamed owners and transferred environments be found under their earlier names."""

import sqlalchemy as sa
from alembic import op

from strop_hub.db import UtcDateTime

revision = "0007"
down_revision = "0006"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.create_table(
        "owner_redirects",
        sa.Column("name", sa.String(100), nullable=False),
        sa.Column("owner_id", sa.Integer(), nullable=False),
        sa.Column("created_at", UtcDateTime(), nullable=False),
        sa.Column("ended_at", UtcDateTime(), nullable=True),
        sa.PrimaryKeyConstraint("name", name=op.f("pk_owner_redirects")),
        sa.ForeignKeyConstraint(
            ["owner_id"], ["owners.id"], name=op.f("fk_owner_redirects_owner_id_owners")
        ),
    )
    op.create_index(op.f("ix_owner_redirects_owner_id"), "owner_redirects", ["owner_id"])
    op.create_table(
        "environment_redirects",
        sa.Column("owner_id", sa.Integer(), nullable=False),
        sa.Column("name", sa.String(100), nullable=False),
        sa.Column("environment_id", sa.Integer(), nullable=False),
        sa.Column("created_at", UtcDateTime(), nullable=False),
        sa.Column("ended_at", UtcDateTime(), nullable=True),
        sa.PrimaryKeyConstraint("owner_id", "name", name=op.f("pk_environment_redirects")),
        sa.ForeignKeyConstraint(
            ["owner_id"], ["owners.id"], name=op.f("fk_environment_redirects_owner_id_owners")
        ),
        sa.ForeignKeyConstraint(
            ["environment_id"],
            ["environments.id"],
            name=op.f("fk_environment_redirects_environment_id_environments"),
        ),
    )
    op.create_index(
        op.f("ix_environment_redirects_environment_id"),
        "environment_redirects",
        ["environment_id"],
    )


def downgrade() -> None:
    op.drop_table("environment_redirects")
    op.drop_table("owner_redirects")
