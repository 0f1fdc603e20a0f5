"""The audit trail: who did what, or was refused it."""

from datetime import datetime

from sqlalchemy import String, Text
from sqlalchemy.orm import Mapped, mapped_column

from strop_hub.db import Base, now


class AuditLine(Base):
    """One act or refusal; names are copied, since what they name may go away."""

    __tablename__ = "audit_lines"

    id: Mapped[int] = mapped_column(primary_key=True)
    happened_at: Mapped[datetime] = mapped_column(default=now, index=True)
    user_name: Mapped[str | None] = mapped_column(String(100))
    """None: nobody was recognised."""
    token_prefix: Mapped[str | None] = mapped_column(String(32))
    address: Mapped[str | None] = mapped_column(String(64))
    action: Mapped[str] = mapped_column(String(64), index=True)
    target: Mapped[str] = mapped_column(String(512))
    code: Mapped[str] = mapped_column(String(64))
    """``ok``, or the stable code of the refusal."""
    detail: Mapped[str] = mapped_column(Text, default="")
    request_id: Mapped[str | None] = mapped_column(String(64))
