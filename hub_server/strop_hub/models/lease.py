"""Leases: what keeps the collection of orphans away from blobs that are in use."""

from datetime import datetime

from sqlalchemy import String
from sqlalchemy.orm import Mapped, mapped_column

from strop_hub.db import Base

ALL_BLOBS = "*"
"""The key of a lease that holds off collection as a whole, as a backup does."""


class Lease(Base):
    """A promise that a blob is not collected before a time, whether a row names it or not."""

    __tablename__ = "leases"

    id: Mapped[int] = mapped_column(primary_key=True)
    key: Mapped[str] = mapped_column(String(64), index=True)
    """A blob's sha256, or `ALL_BLOBS`."""
    expires_at: Mapped[datetime] = mapped_column(index=True)
