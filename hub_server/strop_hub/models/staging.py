"""Releases under way: files that nobody sees until all of them are published in one step."""

from datetime import datetime
from enum import StrEnum

from sqlalchemy import JSON, BigInteger, ForeignKey, String, UniqueConstraint
from sqlalchemy.orm import Mapped, mapped_column

from strop.hub.wire import FileKind
from strop_hub.db import Base, now
from strop_hub.models.environment import Visibility


class ReleaseState(StrEnum):
    """How far a staged release has come."""

    OPEN = "open"
    PUBLISHED = "published"
    ABANDONED = "abandoned"


class StagedRelease(Base):
    """Files that an owner collects."""

    __tablename__ = "staged_releases"
    __table_args__ = (UniqueConstraint("key"),)

    id: Mapped[int] = mapped_column(primary_key=True)
    key: Mapped[str] = mapped_column(String(64))
    """By which clients name it; it opens nothing without a token."""
    owner_id: Mapped[int] = mapped_column(ForeignKey("owners.id"), index=True)
    state: Mapped[ReleaseState] = mapped_column(default=ReleaseState.OPEN)
    visibility: Mapped[Visibility | None]
    opened_at: Mapped[datetime] = mapped_column(default=now)
    opened_by: Mapped[str] = mapped_column(String(100))
    expires_at: Mapped[datetime] = mapped_column(index=True)
    published: Mapped[list[str]] = mapped_column(JSON, default=list)
    """``name@version`` of what came of it."""


class StagedFile(Base):
    """A file of a staged release; its blob is kept while the row is there."""

    __tablename__ = "staged_files"

    release_id: Mapped[int] = mapped_column(ForeignKey("staged_releases.id"), primary_key=True)
    filename: Mapped[str] = mapped_column(String(300), primary_key=True)
    kind: Mapped[FileKind]
    sha256: Mapped[str] = mapped_column(String(64))
    size_bytes: Mapped[int] = mapped_column(BigInteger)
