"""Let owners set tags with a history; remember what was purged."""

import sqlalchemy as sa
from alembic import op

from strop_hub.db import UtcDateTime

revision = "0003"
down_revision = "0002"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.create_table(
        "version_tags",
        sa.Column("environment_id", sa.Integer(), nullable=False),
        sa.Column("tag", sa.String(64), nullable=False),
        sa.Column("version_id", sa.Integer(), nullable=False),
        sa.PrimaryKeyConstraint("environment_id", "tag", name=op.f("pk_version_tags")),
        sa.ForeignKeyConstraint(
            ["environment_id"],
            ["environments.id"],
            name=op.f("fk_version_tags_environment_id_environments"),
        ),
        sa.ForeignKeyConstraint(
            ["version_id"], ["versions.id"], name=op.f("fk_version_tags_version_id_versions")
        ),
    )
    op.create_index(op.f("ix_version_tags_version_id"), "version_tags", ["version_id"])
    op.create_table(
        "tag_moves",
        sa.Column("id", sa.Integer(), nullable=False),
        sa.Column("environment_id", sa.Integer(), nullable=False),
        sa.Column("tag", sa.String(64), nullable=False),
        sa.Column("version", sa.String(200), nullable=True),
        sa.Column("moved_at", UtcDateTime(), nullable=False),
        sa.Column("moved_by", sa.String(100), nullable=False),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_tag_moves")),
        sa.ForeignKeyConstraint(
            ["environment_id"],
            ["environments.id"],
            name=op.f("fk_tag_moves_environment_id_environments"),
        ),
    )
    op.create_index(op.f("ix_tag_moves_environment_id"), "tag_moves", ["environment_id"])
    op.create_table(
        "purges",
        sa.Column("id", sa.Integer(), nullable=False),
        sa.Column("owner", sa.String(100), nullable=False),
        sa.Column("name", sa.String(100), nullable=False),
        sa.Column("version", sa.String(200), nullable=False),
        sa.Column("sha256s", sa.JSON(), nullable=False),
        sa.Column("reason", sa.Text(), nullable=False),
        sa.Column("purged_at", UtcDateTime(), nullable=False),
        sa.Column("purged_by", sa.String(100), nullable=False),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_purges")),
    )


def downgrade() -> None:
    for table in ("purges", "tag_moves", "version_tags"):
        op.drop_table(table)
