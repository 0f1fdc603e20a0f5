"""The change feed: what happened, in an order without gaps."""

from datetime import datetime

from sqlalchemy import JSON, BigInteger, ForeignKey, String, UniqueConstraint
from sqlalchemy.orm import Mapped, mapped_column

from strop_hub.db import Base, now


class Counter(Base):
    """A number that is raised inside a writing transaction, so that it never leaves a gap."""

    __tablename__ = "counters"

    name: Mapped[str] = mapped_column(String(64), primary_key=True)
    value: Mapped[int] = mapped_column(BigInteger, default=0)


class Event(Base):
    """One change that followers of the feed must hear of."""

    __tablename__ = "events"
    __table_args__ = (UniqueConstraint("serial"), UniqueConstraint("public_serial"))

    id: Mapped[int] = mapped_column(primary_key=True)
    serial: Mapped[int] = mapped_column(BigInteger)
    """Counts every event; private, since its gaps would tell of what is hidden."""
    public_serial: Mapped[int | None] = mapped_column(BigInteger)
    """Counts the events of public environments; None for others."""
    action: Mapped[str] = mapped_column(String(32))
    """Such as ``publish`` or ``yank``."""
    environment_id: Mapped[int] = mapped_column(ForeignKey("environments.id"), index=True)
    version: Mapped[str | None] = mapped_column(String(200))
    details: Mapped[dict[str, str]] = mapped_column(JSON, default=dict)
    happened_at: Mapped[datetime] = mapped_column(default=now)
