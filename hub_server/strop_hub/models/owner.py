"""Who may do what: owners, users, their memberships and their tokens."""

from datetime import datetime
from enum import StrEnum

from sqlalchemy import JSON, BigInteger, ForeignKey, String, UniqueConstraint
from sqlalchemy.orm import Mapped, mapped_column, relationship

from strop_hub.db import Base, now


class OwnerKind(StrEnum):
    """What stands behind an owner's name."""

    PERSON = "person"
    ORGANISATION = "organisation"


class Role(StrEnum):
    """What a user may do for an owner; each includes the ones below it."""

    OWNER = "owner"
    """Everything, members included."""
    PUBLISHER = "publisher"
    """Publish and yank."""
    READER = "reader"
    """See private environments."""


class Owner(Base):
    """A name under which environments are published; never used again."""

    __tablename__ = "owners"
    __table_args__ = (UniqueConstraint("name"),)

    id: Mapped[int] = mapped_column(primary_key=True)
    name: Mapped[str] = mapped_column(
        String(100).with_variant(String(100, collation="C"), "postgresql")
    )
    """In the normal form of PEP 503."""
    kind: Mapped[OwnerKind]
    stored_bytes: Mapped[int] = mapped_column(BigInteger, default=0)
    """Of all files and what is kept beside them, kept current by whoever adds or removes one."""
    quota_bytes: Mapped[int | None] = mapped_column(BigInteger)
    """None: the hub's default."""
    created_at: Mapped[datetime] = mapped_column(default=now)


class User(Base):
    """A person who can hold tokens; the user's own owner carries the name."""

    __tablename__ = "users"
    __table_args__ = (UniqueConstraint("owner_id"),)

    id: Mapped[int] = mapped_column(primary_key=True)
    owner_id: Mapped[int] = mapped_column(ForeignKey("owners.id"))
    is_admin: Mapped[bool] = mapped_column(default=False)
    is_disabled: Mapped[bool] = mapped_column(default=False)
    created_at: Mapped[datetime] = mapped_column(default=now)

    owner: Mapped[Owner] = relationship(lazy="raise")


class Membership(Base):
    """A user's role for an owner; a person is the owner of the name of his or her own."""

    __tablename__ = "memberships"

    owner_id: Mapped[int] = mapped_column(ForeignKey("owners.id"), primary_key=True)
    user_id: Mapped[int] = mapped_column(ForeignKey("users.id"), primary_key=True, index=True)
    role: Mapped[Role]


class Token(Base):
    """A secret that speaks for a user, known to the hub only by its hash."""

    __tablename__ = "tokens"
    __table_args__ = (UniqueConstraint("digest"),)

    id: Mapped[int] = mapped_column(primary_key=True)
    user_id: Mapped[int] = mapped_column(ForeignKey("users.id"), index=True)
    label: Mapped[str] = mapped_column(String(200))
    prefix: Mapped[str] = mapped_column(String(32))
    """The first characters, by which people tell their tokens apart."""
    digest: Mapped[str] = mapped_column(String(64))
    """sha256 of the whole token; 32 random bytes need no slow hash."""
    scopes: Mapped[list[str]] = mapped_column(JSON)
    limited_to: Mapped[str | None] = mapped_column(String(201))
    """An owner, or ``owner/name``, outside which the token is worth nothing."""
    created_at: Mapped[datetime] = mapped_column(default=now)
    expires_at: Mapped[datetime | None]
    last_used_at: Mapped[datetime | None]
    revoked_at: Mapped[datetime | None]

    user: Mapped[User] = relationship(lazy="raise")
