"""Versions, their files, and the names that are spent for ever."""

from datetime import datetime
from enum import StrEnum

from sqlalchemy import (
    BigInteger,
    ColumnElement,
    ForeignKey,
    Index,
    String,
    Text,
    UniqueConstraint,
    func,
)
from sqlalchemy.ext.hybrid import hybrid_property
from sqlalchemy.orm import Mapped, mapped_column, relationship

from strop.hub.wire import FileKind, VersionKind
from strop_hub.db import Base, now
from strop_hub.models.environment import Environment
from strop_hub.models.owner import Owner

_BYTEWISE = String(512).with_variant(String(512, collation="C"), "postgresql")


class VersionStatus(StrEnum):
    """Whether a version has what it takes to be seen."""

    INCOMPLETE = "incomplete"
    """Its wheel has not come: neither listed nor resolvable."""
    VISIBLE = "visible"
    QUARANTINED = "quarantined"
    """Shown to people with the reason; never resolved, and its files are not served."""


SHOWN = (VersionStatus.VISIBLE, VersionStatus.QUARANTINED)
"""What people see; programs are only given what is visible."""


class Version(Base):
    """One push. What is published never changes; whether it is to be used may."""

    __tablename__ = "versions"
    __table_args__ = (
        UniqueConstraint("environment_id", "canonical_version"),
        Index(None, "environment_id", "sort_key"),
    )

    id: Mapped[int] = mapped_column(primary_key=True)
    environment_id: Mapped[int] = mapped_column(ForeignKey("environments.id"))
    version: Mapped[str] = mapped_column(String(200))
    """PEP 440 normal form, as it is shown."""
    canonical_version: Mapped[str] = mapped_column(String(200))
    """Without trailing zeros, so that ``1.0`` and ``1.0.0`` are one version."""
    sort_key: Mapped[str] = mapped_column(_BYTEWISE)
    """Orders versions by PEP 440 when compared byte by byte; see `strop_hub.publish.order`."""
    is_prerelease: Mapped[bool]
    status: Mapped[VersionStatus]
    kind: Mapped[VersionKind]
    digest: Mapped[str | None] = mapped_column(String(64), index=True)
    """sha256 of the wheel; None while the version is incomplete."""
    tree_digest: Mapped[str | None] = mapped_column(String(64))
    """Of the author's source, by which a repeated push is recognised."""
    size_bytes: Mapped[int] = mapped_column(BigInteger)
    """Of the wheel."""
    manifest_json: Mapped[str] = mapped_column(Text)
    """JSON with ASCII escapes, which hold NUL and lone surrogates where a database does not."""
    settings_schema_json: Mapped[str | None] = mapped_column(Text)
    readme_sha256: Mapped[str | None] = mapped_column(String(64))
    """The blob with the README's bytes; None when there is none."""
    requires_python: Mapped[str | None] = mapped_column(String(200))
    published_at: Mapped[datetime] = mapped_column(default=now)
    published_by: Mapped[str] = mapped_column(String(100))
    """The user's name."""
    yanked_at: Mapped[datetime | None]
    yank_reason: Mapped[str | None] = mapped_column(Text)
    closed_at: Mapped[datetime | None]
    """Since when it takes no further file by its owner's will; time closes it as well."""
    quarantine_reason: Mapped[str | None] = mapped_column(Text)

    environment: Mapped[Environment] = relationship(lazy="raise")
    files: Mapped[list["File"]] = relationship(back_populates="version", lazy="raise")


class File(Base):
    """One file of a version; its bytes never change."""

    __tablename__ = "files"
    __table_args__ = (UniqueConstraint("environment_id", "filename"),)

    id: Mapped[int] = mapped_column(primary_key=True)
    version_id: Mapped[int] = mapped_column(ForeignKey("versions.id"), index=True)
    environment_id: Mapped[int] = mapped_column(ForeignKey("environments.id"))
    filename: Mapped[str] = mapped_column(String(300))
    kind: Mapped[FileKind]
    sha256: Mapped[str] = mapped_column(String(64), index=True)
    """Also the key of its bytes in storage."""
    size_bytes: Mapped[int] = mapped_column(BigInteger)
    metadata_sha256: Mapped[str | None] = mapped_column(String(64))
    """A wheel's METADATA as a blob of its own. Source: PEP 658."""
    requires_python: Mapped[str | None] = mapped_column(String(200))
    provenance_sha256: Mapped[str | None] = mapped_column(String(64))
    """Its verified attestations as a blob of their own. Source: PEP 740."""
    sidecar_bytes: Mapped[int | None] = mapped_column(BigInteger)
    """Of the blobs kept beside it: METADATA, README, provenance; None where nobody counted them."""
    uploaded_at: Mapped[datetime] = mapped_column(default=now)
    uploaded_by: Mapped[str] = mapped_column(String(100))

    version: Mapped[Version] = relationship(back_populates="files", lazy="raise")

    @hybrid_property
    def stored_bytes(self) -> int:
        """What it takes of its owner's quota."""
        return self.size_bytes + (self.sidecar_bytes or 0)

    @stored_bytes.inplace.expression
    @classmethod
    def _stored_bytes(cls) -> ColumnElement[int]:
        return cls.size_bytes + func.coalesce(cls.sidecar_bytes, 0)


class VersionCheck(Base):
    """One report of `strop env check` about a version: what its author says."""

    __tablename__ = "version_checks"

    id: Mapped[int] = mapped_column(primary_key=True)
    version_id: Mapped[int] = mapped_column(ForeignKey("versions.id"), index=True)
    report_json: Mapped[str] = mapped_column(Text)
    """`strop.hub.wire.CheckReport` as JSON with ASCII escapes."""
    reported_at: Mapped[datetime] = mapped_column(default=now)
    reported_by: Mapped[str] = mapped_column(String(100))
    """The user's name."""


class Tombstone(Base):
    """A version that was deleted; its name is never used again."""

    __tablename__ = "tombstones"
    __table_args__ = (UniqueConstraint("owner_id", "name", "canonical_version"),)

    id: Mapped[int] = mapped_column(primary_key=True)
    owner_id: Mapped[int] = mapped_column(ForeignKey("owners.id"))
    name: Mapped[str] = mapped_column(String(100))
    canonical_version: Mapped[str] = mapped_column(String(200))
    deleted_at: Mapped[datetime] = mapped_column(default=now)

    owner: Mapped[Owner] = relationship(lazy="raise")
