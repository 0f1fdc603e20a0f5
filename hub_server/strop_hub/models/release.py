"""Tags that owners set, and what was purged."""

from datetime import datetime

from sqlalchemy import JSON, ForeignKey, String, Text
from sqlalchemy.orm import Mapped, mapped_column

from strop_hub.db import Base, now


class VersionTag(Base):
    """A pointer with a name, such as ``stable``; ``latest`` is computed and never here."""

    __tablename__ = "version_tags"

    environment_id: Mapped[int] = mapped_column(ForeignKey("environments.id"), primary_key=True)
    tag: Mapped[str] = mapped_column(String(64), primary_key=True)
    version_id: Mapped[int] = mapped_column(ForeignKey("versions.id"), index=True)


class TagMove(Base):
    """One step in the history of a tag; versions are named, since they may be deleted."""

    __tablename__ = "tag_moves"

    id: Mapped[int] = mapped_column(primary_key=True)
    environment_id: Mapped[int] = mapped_column(ForeignKey("environments.id"), index=True)
    tag: Mapped[str] = mapped_column(String(64))
    version: Mapped[str | None] = mapped_column(String(200))
    """None: the tag was taken away."""
    moved_at: Mapped[datetime] = mapped_column(default=now)
    moved_by: Mapped[str] = mapped_column(String(100))


class Purge(Base):
    """Versions whose bytes were erased; whoever restores an older state erases them again."""

    __tablename__ = "purges"

    id: Mapped[int] = mapped_column(primary_key=True)
    owner: Mapped[str] = mapped_column(String(100))
    name: Mapped[str] = mapped_column(String(100))
    version: Mapped[str] = mapped_column(String(200))
    sha256s: Mapped[list[str]] = mapped_column(JSON)
    """Of every blob that the version named."""
    reason: Mapped[str] = mapped_column(Text)
    purged_at: Mapped[datetime] = mapped_column(default=now)
    purged_by: Mapped[str] = mapped_column(String(100))
    erased_at: Mapped[datetime | None]
    """None: nobody has finished it, so that its bytes may still be there."""
