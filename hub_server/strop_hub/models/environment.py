"""Environments, and who has which name on the shared index."""

from datetime import datetime
from enum import StrEnum

from sqlalchemy import (
    JSON,
    BigInteger,
    ForeignKey,
    Index,
    SmallInteger,
    String,
    Text,
    UniqueConstraint,
)
from sqlalchemy.orm import Mapped, mapped_column, relationship

from strop.hub.wire import EnvironmentStatus
from strop_hub.db import Base, now
from strop_hub.models.owner import Owner

BYTEWISE_TERM = String(32).with_variant(String(32, collation="C"), "postgresql")
BYTEWISE_NAME = String(100).with_variant(String(100, collation="C"), "postgresql")
"""Compared byte by byte on every database, as cursors and searches by first letters need it."""


class Visibility(StrEnum):
    """Who can see an environment."""

    PUBLIC = "public"
    PRIVATE = "private"
    """Only the owner's members; everybody else cannot learn that it exists."""


class Environment(Base):
    """A name that somebody owns; the code lives in its versions.

    The columns below `status_reason` are extracts of the latest version's manifest, cleaned of
    what a database refuses and rewritten whenever the latest version changes.
    """

    __tablename__ = "environments"
    __table_args__ = (UniqueConstraint("owner_id", "name"),)

    id: Mapped[int] = mapped_column(primary_key=True)
    owner_id: Mapped[int] = mapped_column(ForeignKey("owners.id"))
    name: Mapped[str] = mapped_column(BYTEWISE_NAME, index=True)
    """In the normal form of PEP 503."""
    visibility: Mapped[Visibility]
    status: Mapped[EnvironmentStatus] = mapped_column(default=EnvironmentStatus.ACTIVE)
    status_reason: Mapped[str | None] = mapped_column(Text)
    summary: Mapped[str] = mapped_column(Text, default="")
    category: Mapped[str] = mapped_column(String(64), default="", index=True)
    tags: Mapped[list[str]] = mapped_column(JSON, default=list)
    search_text: Mapped[str] = mapped_column(Text, default="")
    """Owner, name, summary, category and tags in lower case, for searching."""
    latest_version_id: Mapped[int | None]
    """The newest by PEP 440 that is not yanked, pre-releases only when nothing else is left.

    No foreign key: the two tables would need each other first.
    """
    download_count: Mapped[int] = mapped_column(BigInteger, default=0)
    """Files sent, all versions together; written in batches, so a minute late."""
    created_at: Mapped[datetime] = mapped_column(default=now)
    updated_at: Mapped[datetime] = mapped_column(default=now, index=True)

    owner: Mapped[Owner] = relationship(lazy="raise")


class EnvironmentTag(Base):
    """One tag of an environment, for filters; `Environment.tags` is what is shown."""

    __tablename__ = "environment_tags"

    environment_id: Mapped[int] = mapped_column(ForeignKey("environments.id"), primary_key=True)
    tag: Mapped[str] = mapped_column(String(64), primary_key=True, index=True)


class EnvironmentTerm(Base):
    """A word by which an environment is found, or the first letters of one; see `search`."""

    __tablename__ = "environment_terms"
    __table_args__ = (Index(None, "term", "weight", "environment_id"),)

    term: Mapped[str] = mapped_column(BYTEWISE_TERM, primary_key=True)
    environment_id: Mapped[int] = mapped_column(
        ForeignKey("environments.id", ondelete="CASCADE"), primary_key=True, index=True
    )
    weight: Mapped[int] = mapped_column(SmallInteger, default=0)
    """How popular the environment is, roughly: see `search.weight_of`."""


class Claim(Base):
    """A name on the shared index ``/simple/``: one owner each, so no two owners share a page."""

    __tablename__ = "claims"
    __table_args__ = (UniqueConstraint("environment_id"),)

    name: Mapped[str] = mapped_column(BYTEWISE_NAME, primary_key=True)
    environment_id: Mapped[int] = mapped_column(ForeignKey("environments.id"))
    claimed_at: Mapped[datetime] = mapped_column(default=now)
