"""Let owners stage files and publish them in one step."""

from typing import Any

import sqlalchemy as sa
from alembic import op

from strop_hub.db import UtcDateTime

revision = "0006"
down_revision = "0005"
branch_labels = None
depends_on = None


def _enum(*values: str, name: str) -> Any:
    return sa.Enum(*values, name=name, native_enum=False, length=32)


def upgrade() -> None:
    op.create_table(
        "staged_releases",
        sa.Column("id", sa.Integer(), nullable=False),
        sa.Column("key", sa.String(64), nullable=False),
        sa.Column("owner_id", sa.Integer(), nullable=False),
        sa.Column(
            "state", _enum("open", "published", "abandoned", name="releasestate"), nullable=False
        ),
        sa.Column("visibility", _enum("public", "private", name="visibility"), nullable=True),
        sa.Column("opened_at", UtcDateTime(), nullable=False),
        sa.Column("opened_by", sa.String(100), nullable=False),
        sa.Column("expires_at", UtcDateTime(), nullable=False),
        sa.Column("published", sa.JSON(), nullable=False),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_staged_releases")),
        sa.ForeignKeyConstraint(
            ["owner_id"], ["owners.id"], name=op.f("fk_staged_releases_owner_id_owners")
        ),
        sa.UniqueConstraint("key", name=op.f("uq_staged_releases_key")),
    )
    op.create_index(op.f("ix_staged_releases_owner_id"), "staged_releases", ["owner_id"])
    op.create_index(op.f("ix_staged_releases_expires_at"), "staged_releases", ["expires_at"])
    op.create_table(
        "staged_files",
        sa.Column("release_id", sa.Integer(), nullable=False),
        sa.Column("filename", sa.String(300), nullable=False),
        sa.Column("kind", _enum("wheel", "source", "sdist", name="filekind"), nullable=False),
        sa.Column("sha256", sa.String(64), nullable=False),
        sa.Column("size_bytes", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("release_id", "filename", name=op.f("pk_staged_files")),
        sa.ForeignKeyConstraint(
            ["release_id"],
            ["staged_releases.id"],
            name=op.f("fk_staged_files_release_id_staged_releases"),
        ),
    )


def downgrade() -> None:
    op.drop_table("staged_files")
    op.drop_table("staged_releases")
