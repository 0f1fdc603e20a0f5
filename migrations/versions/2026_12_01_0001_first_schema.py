"""Create owners, environments, versions, the feed and the audit trail."""

from typing import Any

import sqlalchemy as sa
from alembic import op

from strop_hub.db import UtcDateTime

revision = "0001"
down_revision = None
branch_labels = None
depends_on = None

_BYTEWISE = sa.String(512).with_variant(sa.String(512, collation="C"), "postgresql")


def _enum(*values: str, name: str) -> Any:
    return sa.Enum(*values, name=name, native_enum=False, length=32)


def upgrade() -> None:
    _create_audit_lines()
    _create_counters()
    _create_owners()
    _create_environments()
    _create_tombstones()
    _create_users()
    _create_claims()
    _create_environment_tags()
    _create_events()
    _create_memberships()
    _create_tokens()
    _create_versions()
    _create_files()


def downgrade() -> None:
    for table in (
        "files",
        "versions",
        "tokens",
        "memberships",
        "events",
        "environment_tags",
        "claims",
        "users",
        "tombstones",
        "environments",
        "owners",
        "counters",
        "audit_lines",
    ):
        op.drop_table(table)


def _create_audit_lines() -> None:
    op.create_table(
        "audit_lines",
        sa.Column("id", sa.Integer(), nullable=False),
        sa.Column("happened_at", UtcDateTime(), nullable=False),
        sa.Column("user_name", sa.String(100), nullable=True),
        sa.Column("token_prefix", sa.String(32), nullable=True),
        sa.Column("address", sa.String(64), nullable=True),
        sa.Column("action", sa.String(64), nullable=False),
        sa.Column("target", sa.String(512), nullable=False),
        sa.Column("code", sa.String(64), nullable=False),
        sa.Column("detail", sa.Text(), nullable=False),
        sa.Column("request_id", sa.String(64), nullable=True),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_audit_lines")),
    )
    op.create_index(op.f("ix_audit_lines_action"), "audit_lines", ["action"])
    op.create_index(op.f("ix_audit_lines_happened_at"), "audit_lines", ["happened_at"])


def _create_counters() -> None:
    op.create_table(
        "counters",
        sa.Column("name", sa.String(64), nullable=False),
        sa.Column("value", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("name", name=op.f("pk_counters")),
    )


def _create_owners() -> None:
    op.create_table(
        "owners",
        sa.Column("id", sa.Integer(), nullable=False),
        sa.Column("name", sa.String(100), nullable=False),
        sa.Column("kind", _enum("person", "organisation", name="ownerkind"), nullable=False),
        sa.Column("stored_bytes", sa.BigInteger(), nullable=False),
        sa.Column("quota_bytes", sa.BigInteger(), nullable=True),
        sa.Column("created_at", UtcDateTime(), nullable=False),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_owners")),
        sa.UniqueConstraint("name", name=op.f("uq_owners_name")),
    )


def _create_environments() -> None:
    op.create_table(
        "environments",
        sa.Column("id", sa.Integer(), nullable=False),
        sa.Column("owner_id", sa.Integer(), nullable=False),
        sa.Column("name", sa.String(100), nullable=False),
        sa.Column("visibility", _enum("public", "private", name="visibility"), nullable=False),
        sa.Column("summary", sa.Text(), nullable=False),
        sa.Column("category", sa.String(64), nullable=False),
        sa.Column("tags", sa.JSON(), nullable=False),
        sa.Column("search_text", sa.Text(), nullable=False),
        sa.Column("latest_version_id", sa.Integer(), nullable=True),
        sa.Column("created_at", UtcDateTime(), nullable=False),
        sa.Column("updated_at", UtcDateTime(), nullable=False),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_environments")),
        sa.ForeignKeyConstraint(
            ["owner_id"], ["owners.id"], name=op.f("fk_environments_owner_id_owners")
        ),
        sa.UniqueConstraint("owner_id", "name", name=op.f("uq_environments_owner_id_name")),
    )
    op.create_index(op.f("ix_environments_category"), "environments", ["category"])
    op.create_index(op.f("ix_environments_name"), "environments", ["name"])
    op.create_index(op.f("ix_environments_updated_at"), "environments", ["updated_at"])


def _create_tombstones() -> None:
    op.create_table(
        "tombstones",
        sa.Column("id", sa.Integer(), nullable=False),
        sa.Column("owner_id", sa.Integer(), nullable=False),
        sa.Column("name", sa.String(100), nullable=False),
        sa.Column("canonical_version", sa.String(200), nullable=False),
        sa.Column("deleted_at", UtcDateTime(), nullable=False),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_tombstones")),
        sa.ForeignKeyConstraint(
            ["owner_id"], ["owners.id"], name=op.f("fk_tombstones_owner_id_owners")
        ),
        sa.UniqueConstraint(
            "owner_id",
            "name",
            "canonical_version",
            name=op.f("uq_tombstones_owner_id_name_canonical_version"),
        ),
    )


def _create_users() -> None:
    op.create_table(
        "users",
        sa.Column("id", sa.Integer(), nullable=False),
        sa.Column("owner_id", sa.Integer(), nullable=False),
        sa.Column("is_admin", sa.Boolean(), nullable=False),
        sa.Column("is_disabled", sa.Boolean(), nullable=False),
        sa.Column("created_at", UtcDateTime(), nullable=False),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_users")),
        sa.ForeignKeyConstraint(["owner_id"], ["owners.id"], name=op.f("fk_users_owner_id_owners")),
        sa.UniqueConstraint("owner_id", name=op.f("uq_users_owner_id")),
    )


def _create_claims() -> None:
    op.create_table(
        "claims",
        sa.Column("name", sa.String(100), nullable=False),
        sa.Column("environment_id", sa.Integer(), nullable=False),
        sa.Column("claimed_at", UtcDateTime(), nullable=False),
        sa.PrimaryKeyConstraint("name", name=op.f("pk_claims")),
        sa.ForeignKeyConstraint(
            ["environment_id"],
            ["environments.id"],
            name=op.f("fk_claims_environment_id_environments"),
        ),
        sa.UniqueConstraint("environment_id", name=op.f("uq_claims_environment_id")),
    )


def _create_environment_tags() -> None:
    op.create_table(
        "environment_tags",
        sa.Column("environment_id", sa.Integer(), nullable=False),
        sa.Column("tag", sa.String(64), nullable=False),
        sa.PrimaryKeyConstraint("environment_id", "tag", name=op.f("pk_environment_tags")),
        sa.ForeignKeyConstraint(
            ["environment_id"],
            ["environments.id"],
            name=op.f("fk_environment_tags_environment_id_environments"),
        ),
    )
    op.create_index(op.f("ix_environment_tags_tag"), "environment_tags", ["tag"])


def _create_events() -> None:
    op.create_table(
        "events",
        sa.Column("id", sa.Integer(), nullable=False),
        sa.Column("serial", sa.BigInteger(), nullable=False),
        sa.Column("public_serial", sa.BigInteger(), nullable=True),
        sa.Column("action", sa.String(32), nullable=False),
        sa.Column("environment_id", sa.Integer(), nullable=False),
        sa.Column("version", sa.String(200), nullable=True),
        sa.Column("details", sa.JSON(), nullable=False),
        sa.Column("happened_at", UtcDateTime(), nullable=False),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_events")),
        sa.ForeignKeyConstraint(
            ["environment_id"],
            ["environments.id"],
            name=op.f("fk_events_environment_id_environments"),
        ),
        sa.UniqueConstraint("public_serial", name=op.f("uq_events_public_serial")),
        sa.UniqueConstraint("serial", name=op.f("uq_events_serial")),
    )
    op.create_index(op.f("ix_events_environment_id"), "events", ["environment_id"])


def _create_memberships() -> None:
    op.create_table(
        "memberships",
        sa.Column("owner_id", sa.Integer(), nullable=False),
        sa.Column("user_id", sa.Integer(), nullable=False),
        sa.Column("role", _enum("owner", "publisher", "reader", name="role"), nullable=False),
        sa.PrimaryKeyConstraint("owner_id", "user_id", name=op.f("pk_memberships")),
        sa.ForeignKeyConstraint(
            ["owner_id"], ["owners.id"], name=op.f("fk_memberships_owner_id_owners")
        ),
        sa.ForeignKeyConstraint(
            ["user_id"], ["users.id"], name=op.f("fk_memberships_user_id_users")
        ),
    )
    op.create_index(op.f("ix_memberships_user_id"), "memberships", ["user_id"])


def _create_tokens() -> None:
    op.create_table(
        "tokens",
        sa.Column("id", sa.Integer(), nullable=False),
        sa.Column("user_id", sa.Integer(), nullable=False),
        sa.Column("label", sa.String(200), nullable=False),
        sa.Column("prefix", sa.String(32), nullable=False),
        sa.Column("digest", sa.String(64), nullable=False),
        sa.Column("scopes", sa.JSON(), nullable=False),
        sa.Column("limited_to", sa.String(201), nullable=True),
        sa.Column("created_at", UtcDateTime(), nullable=False),
        sa.Column("expires_at", UtcDateTime(), nullable=True),
        sa.Column("last_used_at", UtcDateTime(), nullable=True),
        sa.Column("revoked_at", UtcDateTime(), nullable=True),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_tokens")),
        sa.ForeignKeyConstraint(["user_id"], ["users.id"], name=op.f("fk_tokens_user_id_users")),
        sa.UniqueConstraint("digest", name=op.f("uq_tokens_digest")),
    )
    op.create_index(op.f("ix_tokens_user_id"), "tokens", ["user_id"])


def _create_versions() -> None:
    op.create_table(
        "versions",
        sa.Column("id", sa.Integer(), nullable=False),
        sa.Column("environment_id", sa.Integer(), nullable=False),
        sa.Column("version", sa.String(200), nullable=False),
        sa.Column("canonical_version", sa.String(200), nullable=False),
        sa.Column("sort_key", _BYTEWISE, nullable=False),
        sa.Column("is_prerelease", sa.Boolean(), nullable=False),
        sa.Column("status", _enum("incomplete", "visible", name="versionstatus"), nullable=False),
        sa.Column("kind", _enum("strop", "foreign", name="versionkind"), nullable=False),
        sa.Column("digest", sa.String(64), nullable=True),
        sa.Column("tree_digest", sa.String(64), nullable=True),
        sa.Column("size_bytes", sa.BigInteger(), nullable=False),
        sa.Column("manifest_json", sa.Text(), nullable=False),
        sa.Column("settings_schema_json", sa.Text(), nullable=True),
        sa.Column("readme_sha256", sa.String(64), nullable=True),
        sa.Column("requires_python", sa.String(200), nullable=True),
        sa.Column("published_at", UtcDateTime(), nullable=False),
        sa.Column("published_by", sa.String(100), nullable=False),
        sa.Column("yanked_at", UtcDateTime(), nullable=True),
        sa.Column("yank_reason", sa.Text(), nullable=True),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_versions")),
        sa.ForeignKeyConstraint(
            ["environment_id"],
            ["environments.id"],
            name=op.f("fk_versions_environment_id_environments"),
        ),
        sa.UniqueConstraint(
            "environment_id",
            "canonical_version",
            name=op.f("uq_versions_environment_id_canonical_version"),
        ),
    )
    op.create_index(op.f("ix_versions_digest"), "versions", ["digest"])
    op.create_index(
        op.f("ix_versions_environment_id_sort_key"), "versions", ["environment_id", "sort_key"]
    )


def _create_files() -> None:
    op.create_table(
        "files",
        sa.Column("id", sa.Integer(), nullable=False),
        sa.Column("version_id", sa.Integer(), nullable=False),
        sa.Column("environment_id", sa.Integer(), nullable=False),
        sa.Column("filename", sa.String(300), nullable=False),
        sa.Column("kind", _enum("wheel", "source", "sdist", name="filekind"), nullable=False),
        sa.Column("sha256", sa.String(64), nullable=False),
        sa.Column("size_bytes", sa.BigInteger(), nullable=False),
        sa.Column("metadata_sha256", sa.String(64), nullable=True),
        sa.Column("requires_python", sa.String(200), nullable=True),
        sa.Column("uploaded_at", UtcDateTime(), nullable=False),
        sa.Column("uploaded_by", sa.String(100), nullable=False),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_files")),
        sa.ForeignKeyConstraint(
            ["environment_id"],
            ["environments.id"],
            name=op.f("fk_files_environment_id_environments"),
        ),
        sa.ForeignKeyConstraint(
            ["version_id"], ["versions.id"], name=op.f("fk_files_version_id_versions")
        ),
        sa.UniqueConstraint(
            "environment_id", "filename", name=op.f("uq_files_environment_id_filename")
        ),
    )
    op.create_index(op.f("ix_files_sha256"), "files", ["sha256"])
    op.create_index(op.f("ix_files_version_id"), "files", ["version_id"])
