"""Which blobs the rows of a database name, and which rows name a blob."""

from collections.abc import Iterator

from sqlalchemy import Column, select
from sqlalchemy.orm import Session

from strop_hub.db import Base

_SUFFIX = "sha256"
_PIECE = 1000


def reference_columns() -> list[Column[str]]:
    """Every column that holds the key of a blob: those whose names end in ``sha256``."""
    return [
        column
        for table in Base.metadata.sorted_tables
        for column in table.columns
        if column.name.endswith(_SUFFIX)
    ]


def named_blobs(session: Session) -> Iterator[str]:
    """The key of every blob that a row names; some more than once."""
    for column in reference_columns():
        statement = select(column).where(column.is_not(None)).distinct()
        yield from session.scalars(statement.execution_options(yield_per=_PIECE))


def named_among(session: Session, keys: list[str]) -> set[str]:
    """Those of some blobs that a row names."""
    found: set[str] = set()
    for column in reference_columns():
        found.update(session.scalars(select(column).where(column.in_(keys))))
    return found
