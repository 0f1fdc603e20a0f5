"""Earlier names of owners and environments, which lead to the present ones."""

from datetime import datetime

from sqlalchemy import ForeignKey, String
from sqlalchemy.orm import Mapped, mapped_column

from strop_hub.db import Base, now


class OwnerRedirect(Base):
    """A name that an owner had; nobody else ever gets it, whether or not it still leads on."""

    __tablename__ = "owner_redirects"

    name: Mapped[str] = mapped_column(String(100), primary_key=True)
    owner_id: Mapped[int] = mapped_column(ForeignKey("owners.id"), index=True)
    created_at: Mapped[datetime] = mapped_column(default=now)
    ended_at: Mapped[datetime | None]


class EnvironmentRedirect(Base):
    """A place where an environment was before it was transferred."""

    __tablename__ = "environment_redirects"

    owner_id: Mapped[int] = mapped_column(ForeignKey("owners.id"), primary_key=True)
    name: Mapped[str] = mapped_column(String(100), primary_key=True)
    environment_id: Mapped[int] = mapped_column(ForeignKey("environments.id"), index=True)
    created_at: Mapped[datetime] = mapped_column(default=now)
    ended_at: Mapped[datetime | None]
