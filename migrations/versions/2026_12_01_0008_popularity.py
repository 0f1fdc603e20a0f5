"""Count downloads, and let searches take what is downloaded most."""

import sqlalchemy as sa
from alembic import op

revision = "0008"
down_revision = "0007"
branch_labels = None
depends_on = None

_INDEX = "ix_environment_terms_term_weight_environment_id"


def upgrade() -> None:
    count = sa.Column("download_count", sa.BigInteger(), nullable=False, server_default="0")
    weight = sa.Column("weight", sa.SmallInteger(), nullable=False, server_default="0")
    op.add_column("environments", count)
    op.add_column("environment_terms", weight)
    op.create_index(op.f(_INDEX), "environment_terms", ["term", "weight", "environment_id"])


def downgrade() -> None:
    op.drop_index(op.f(_INDEX), "environment_terms")
    op.drop_column("environment_terms", "weight")
    op.drop_column("environments", "download_count")
