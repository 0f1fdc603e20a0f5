"""Count what is kept beside files; of those that are here already nobody knows it."""

import sqlalchemy as sa
from alembic import op

revision = "0010"
down_revision = "0009"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.add_column("files", sa.Column("sidecar_bytes", sa.BigInteger(), nullable=True))


def downgrade() -> None:
    # Quotas counted the files alone.
    op.execute(
        "UPDATE owners SET stored_bytes = (SELECT coalesce(sum(files.size_bytes), 0) FROM files "
        "JOIN environments ON environments.id = files.environment_id "
        "WHERE environments.owner_id = owners.id)"
    )
    op.drop_column("files", "sidecar_bytes")
