"""Keep what authors report about the checks of their versions."""

import sqlalchemy as sa
from alembic import op

from strop_hub.db import UtcDateTime

revision = "0009"
down_revision = "0008"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.create_table(
        "version_checks",
        sa.Column("id", sa.Integer(), nullable=False),
        sa.Column("version_id", sa.Integer(), nullable=False),
        sa.Column("report_json", sa.Text(), nullable=False),
        sa.Column("reported_at", UtcDateTime(), nullable=False),
        sa.Column("reported_by", sa.String(100), nullable=False),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_version_checks")),
        sa.ForeignKeyConstraint(
            ["version_id"], ["versions.id"], name=op.f("fk_version_checks_version_id_versions")
        ),
    )
    op.create_index(op.f("ix_version_checks_version_id"), "version_checks", ["version_id"])


def downgrade() -> None:
    op.drop_table("version_checks")
