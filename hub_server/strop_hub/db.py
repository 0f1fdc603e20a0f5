"""The database: the base of every table, reading sessions, and the one owner of writing."""

import logging
import random
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from enum import Enum
from pathlib import Path
from typing import Any, ClassVar, TypeVar

from sqlalchemy import (
    URL,
    Connection,
    DateTime,
    Dialect,
    Engine,
    MetaData,
    TypeDecorator,
    create_engine,
    event,
)
from sqlalchemy import Enum as EnumType
from sqlalchemy.engine import make_url
from sqlalchemy.exc import (
    ArgumentError,
    DBAPIError,
    IntegrityError,
    InterfaceError,
    OperationalError,
)
from sqlalchemy.orm import DeclarativeBase, Session

from strop.errors import ConfigError
from strop_hub import postgres
from strop_hub.disk import takes_no_more
from strop_hub.errors import StorageFullError, StorageUnavailableError

T = TypeVar("T")

BUSY_TIMEOUT_S = 30
WRITE_TRIES = 5
_AFTER_COMMIT = "strop_after_commit"
_IS_WRITING = "strop_is_writing"

logger = logging.getLogger(__name__)


class UtcDateTime(TypeDecorator[datetime]):
    """An aware UTC time; SQLite forgets time zones, so they are put back when read."""

    impl = DateTime(timezone=True)
    cache_ok = True

    def process_bind_param(self, value: datetime | None, dialect: Dialect) -> datetime | None:
        """Refuse naive times, store UTC."""
        if value is None:
            return None
        if value.tzinfo is None:
            raise ValueError(f"{value!r} has no time zone; every time in the database is UTC")
        return value.astimezone(UTC)

    def process_result_value(self, value: datetime | None, dialect: Dialect) -> datetime | None:
        """Give the time zone back."""
        if value is None:
            return None
        return value.replace(tzinfo=UTC) if value.tzinfo is None else value.astimezone(UTC)


def _values(enum: type[Enum]) -> list[str]:
    return [str(member.value) for member in enum]


class Base(DeclarativeBase):
    """Base of every table; the names of constraints are fixed so that migrations can drop them."""

    metadata = MetaData(
        naming_convention={
            "ix": "ix_%(table_name)s_%(column_0_N_name)s",
            "uq": "uq_%(table_name)s_%(column_0_N_name)s",
            "ck": "ck_%(table_name)s_%(constraint_name)s",
            "fk": "fk_%(table_name)s_%(column_0_name)s_%(referred_table_name)s",
            "pk": "pk_%(table_name)s",
        }
    )
    type_annotation_map: ClassVar[dict[Any, Any]] = {
        datetime: UtcDateTime(),
        Enum: EnumType(Enum, native_enum=False, length=32, values_callable=_values),
    }


def now() -> datetime:
    """The time, aware and in UTC."""
    return datetime.now(UTC)


def after_commit(session: Session, hook: Callable[[], None]) -> None:
    """Run `hook` once the writing transaction of `session` is committed; never before, nor else."""
    session.info.setdefault(_AFTER_COMMIT, []).append(hook)


class Database:
    """An engine and the rule of writing: one function owns a transaction, one writer a process."""

    def __init__(self, engine: Engine) -> None:
        self.engine = engine
        self.writing_engine = engine.execution_options(
            **{_IS_WRITING: True}, **postgres.writing_options(engine)
        )
        """Begins with BEGIN IMMEDIATE on SQLite; for `write` and for migrations, nobody else."""
        self._writer_lock = threading.Lock()
        self.listeners: list[Callable[[], None]] = []
        """Called after every commit of this process, on the thread that wrote; must be quick."""

    @classmethod
    def open(cls, url: str) -> "Database":
        """Open the database at a SQLAlchemy URL; the file's folder must be there."""
        return cls(open_engine(url))

    @contextmanager
    def read(self) -> Iterator[Session]:
        """A session over one consistent snapshot; what is changed in it is thrown away."""
        with Session(self.engine, expire_on_commit=False) as session:
            yield session

    def write(self, fn: Callable[[Session], T]) -> T:
        """Run `fn` in a writing transaction, commit, then run its after-commit hooks.

        `fn` is run again, whole, when the database was busy or when another writer took a unique
        name first: it must look again at what is there and must touch nothing but its session.

        Raises:
            Exception: Whatever `fn` raises; its transaction is then rolled back.
            StorageFullError: The database's disk is full.
            StorageUnavailableError: The database stayed busy, or does not answer.
        """
        with self._writer_lock, _named_faults(self.engine):
            result, hooks = self._attempts(fn)
        for hook in hooks:
            _run_hook(hook)
        self.tell_listeners()
        return result

    def tell_listeners(self) -> None:
        """Something may have changed: here, or in another process that says so."""
        for listener in self.listeners:
            _run_hook(listener)

    def close(self) -> None:
        """Close every connection."""
        self.engine.dispose()

    def _attempts(self, fn: Callable[[Session], T]) -> tuple[T, list[Callable[[], None]]]:
        for attempt in range(1, WRITE_TRIES + 1):
            try:
                return self._attempt(fn)
            except DBAPIError as error:
                if attempt == WRITE_TRIES or not _is_worth_another_try(error):
                    raise
                logger.warning("writing again (%d of %d): %s", attempt, WRITE_TRIES, error.orig)
                time.sleep(random.uniform(0, 0.05 * 2**attempt))  # noqa: S311 - jitter
        raise AssertionError("the last attempt returns or raises")

    def _attempt(self, fn: Callable[[Session], T]) -> tuple[T, list[Callable[[], None]]]:
        with Session(self.writing_engine, expire_on_commit=False) as session:
            with session.begin():
                postgres.take_turn(session.connection())
                result = fn(session)
            return result, session.info.pop(_AFTER_COMMIT, [])


def read_url(url: str) -> URL:
    """The parts of a database's address.

    Raises:
        ConfigError: It is no URL.
    """
    try:
        return make_url(url)
    except (ArgumentError, ValueError):
        # The text may hold a password.
        raise ConfigError(
            "STROP_HUB_DATABASE_URL is no URL. Give one such as postgresql://hub@db/hub"
        ) from None


def open_engine(url: str) -> Engine:
    """An engine with the hub's settings for its dialect.

    Raises:
        ConfigError: The URL is none, or names a database that the hub does not work with.
    """
    parsed = read_url(url)
    if parsed.get_backend_name() != "sqlite":
        return postgres.open_engine(parsed)
    engine = create_engine(
        parsed, connect_args={"timeout": BUSY_TIMEOUT_S}, pool_size=16, max_overflow=16
    )
    event.listen(engine, "connect", _configure_sqlite)
    event.listen(engine, "begin", _begin_sqlite)
    return engine


def sqlite_url(path: Path) -> str:
    """The URL of a SQLite database in a file."""
    return f"sqlite:///{path}"


def _configure_sqlite(connection: Any, _record: object) -> None:
    # The driver would begin transactions by itself, and never IMMEDIATE.
    connection.isolation_level = None
    connection.execute(f"PRAGMA busy_timeout = {BUSY_TIMEOUT_S * 1000}")
    connection.execute("PRAGMA journal_mode = WAL")
    connection.execute("PRAGMA synchronous = FULL")
    connection.execute("PRAGMA foreign_keys = ON")


def _begin_sqlite(connection: Connection) -> None:
    is_writing = connection.get_execution_options().get(_IS_WRITING, False)
    # A plain BEGIN that reads first and writes later fails with "database is locked".
    connection.exec_driver_sql("BEGIN IMMEDIATE" if is_writing else "BEGIN")


def _is_worth_another_try(error: DBAPIError) -> bool:
    if isinstance(error, IntegrityError) or error.connection_invalidated:
        return True
    text = str(error.orig).lower()
    is_contention = "locked" in text or "deadlock" in text or "serializ" in text
    return isinstance(error, OperationalError) and is_contention


@contextmanager
def _named_faults(engine: Engine) -> Iterator[None]:
    try:
        yield
    except (OperationalError, InterfaceError) as error:
        if _is_full(error, engine):
            raise StorageFullError(
                "no space is left on the disk of the hub's database; nothing was changed. "
                "Ask the hub's operator for space, then repeat the request."
            ) from error
        logger.error("the database cannot be written: %s", error.orig)
        told = postgres.told_of(error) if postgres.is_postgres(engine) else error.orig
        raise StorageUnavailableError(
            f"the hub's database cannot be written: {told}. Repeat the request later."
        ) from error


def _is_full(error: DBAPIError, engine: Engine) -> bool:
    if "disk is full" in str(error.orig) or postgres.is_full(error):
        return True
    # SQLite tells a quota and a limit of size as it tells a broken disk.
    path = engine.url.database
    is_input_output = getattr(error.orig, "sqlite_errorname", "").startswith("SQLITE_IOERR")
    return is_input_output and path is not None and takes_no_more(Path(path), Path(f"{path}-wal"))


def _run_hook(hook: Callable[[], None]) -> None:
    try:
        hook()
    except Exception:
        # What is committed stays committed, whatever a listener does.
        logger.exception("a hook after a commit failed")
