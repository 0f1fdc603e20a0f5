"""Find environments by an index of words; compare names byte by byte on every database."""

import sqlalchemy as sa
from alembic import op

from strop_hub.search import terms_of

revision = "0005"
down_revision = "0004"
branch_labels = None
depends_on = None

_TERM = sa.String(32).with_variant(sa.String(32, collation="C"), "postgresql")
_NAMES = (("owners", "name"), ("environments", "name"), ("claims", "name"))
_PIECE = 1000


def upgrade() -> None:
    op.create_table(
        "environment_terms",
        sa.Column("term", _TERM, nullable=False),
        sa.Column("environment_id", sa.Integer(), nullable=False),
        sa.ForeignKeyConstraint(
            ["environment_id"],
            ["environments.id"],
            name=op.f("fk_environment_terms_environment_id_environments"),
            ondelete="CASCADE",
        ),
        sa.PrimaryKeyConstraint("term", "environment_id", name=op.f("pk_environment_terms")),
    )
    op.create_index(
        op.f("ix_environment_terms_environment_id"), "environment_terms", ["environment_id"]
    )
    _collate("C")
    _fill()


def downgrade() -> None:
    op.drop_table("environment_terms")
    _collate("default")


def _collate(collation: str) -> None:
    if op.get_bind().dialect.name == "postgresql":
        for table, column in _NAMES:
            op.execute(
                f'ALTER TABLE {table} ALTER COLUMN {column} TYPE VARCHAR(100) COLLATE "{collation}"'
            )


def _fill() -> None:
    terms = sa.table("environment_terms", sa.column("term"), sa.column("environment_id"))
    found = op.get_bind().execute(
        sa.text(
            "SELECT environments.id, owners.name, environments.name, search_text "
            "FROM environments JOIN owners ON owners.id = environments.owner_id"
        )
    )
    rows = [
        {"term": term, "environment_id": environment_id}
        for environment_id, owner, name, text in found.all()
        for term in terms_of((owner, name), text)
    ]
    for start in range(0, len(rows), _PIECE):
        op.get_bind().execute(terms.insert(), rows[start : start + _PIECE])
