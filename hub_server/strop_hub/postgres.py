"""What PostgreSQL needs beside SQLite: turns of writing, notices of changes, its own faults."""

import logging
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import Any

from sqlalchemy import URL, Connection, Engine, create_engine, text
from sqlalchemy.exc import DBAPIError, InterfaceError, NoSuchModuleError, OperationalError

from strop.errors import ConfigError

CHANNEL = "strop_changes"
_BACKENDS = ("postgresql", "postgres")
_DRIVER = "postgresql+psycopg"
_TURN = 0x5354524F5057
"""Key of the advisory lock of whoever writes."""

_FULL_STATES = {"53100", "54000"}
_PORT = 5432
_RETRY_S = 1.0
_LISTEN_S = 1.0

# A peer that went away is noticed within a minute; one that waits for its turn gives up before
# its client does.
_CONNECT = {
    "connect_timeout": 10,
    "keepalives_idle": 15,
    "keepalives_interval": 5,
    "keepalives_count": 3,
    "options": "-c lock_timeout=30s -c idle_in_transaction_session_timeout=120s",
}

logger = logging.getLogger(__name__)


def open_engine(url: URL) -> Engine:
    """An engine whose reading transactions see one snapshot.

    Raises:
        ConfigError: The URL is no PostgreSQL's, or the extra is not installed.
    """
    if url.get_backend_name() not in _BACKENDS:
        raise ConfigError(
            f"STROP_HUB_DATABASE_URL names {url.drivername!a}; the hub works with "
            "postgresql:// and sqlite:/// databases"
        )
    try:
        return create_engine(
            url.set(drivername=_DRIVER),
            connect_args=_CONNECT,
            isolation_level="REPEATABLE READ",
            pool_pre_ping=True,
            pool_size=16,
            max_overflow=16,
        )
    except (ModuleNotFoundError, NoSuchModuleError) as error:
        raise ConfigError(
            "PostgreSQL needs psycopg, which is not installed. Run: pip install 'strop[postgres]'"
        ) from error


@contextmanager
def named_faults(url: URL) -> Iterator[None]:
    """Let a server that does not let us in, or is lost in the block, be named with what to do.

    Raises:
        ConfigError: In place of the driver's error; without the password.
    """
    try:
        yield
    except (OperationalError, InterfaceError) as error:
        if url.get_backend_name() not in _BACKENDS or not _is_of_connection(error):
            raise
        host = url.host or url.query.get("host") or "this machine"
        raise ConfigError(
            f"the database {url.database} of the PostgreSQL at {host}:{url.port or _PORT} cannot "
            f"be used as {url.username}: {_reason(error)}. {_advice(error)}"
        ) from error


def _is_of_connection(error: DBAPIError) -> bool:
    # Nobody was let in, so that the server's error has no code; or the connection broke.
    return error.connection_invalidated or getattr(error.orig, "sqlstate", None) is None


def _reason(error: DBAPIError) -> str:
    lines = [line for line in str(error.orig).splitlines() if "failed: " in line]
    line = lines[-1].rpartition("failed: ")[2] if lines else str(error.orig).partition("\n")[0]
    return line.removeprefix("FATAL:").strip()


def _advice(error: DBAPIError) -> str:
    text = str(error.orig)
    if "authentication failed" in text or "no password supplied" in text:
        return "Give the user's password in STROP_HUB_DATABASE_URL."
    if "does not exist" in text:
        return "Create it, or name another in STROP_HUB_DATABASE_URL."
    return (
        "See that the server runs and is reached from here, or mend STROP_HUB_DATABASE_URL; "
        "then repeat the command."
    )


def writing_options(engine: Engine) -> dict[str, Any]:
    """Options of writers: who had to wait for a turn must see what was written meanwhile."""
    return {"isolation_level": "READ COMMITTED"} if is_postgres(engine) else {}


def is_postgres(bound: Engine | Connection) -> bool:
    """Whether it leads to PostgreSQL."""
    return bound.dialect.name == "postgresql"


def take_turn(connection: Connection) -> None:
    """Wait until no other transaction of any process writes; held to the commit.

    So rules that read first and write then hold as they do on SQLite, and serials of the change
    feed become visible in their order.
    """
    if is_postgres(connection):
        connection.execute(text(f"SELECT pg_advisory_xact_lock({_TURN})"))


def notify(connection: Connection) -> None:
    """Wake every process that listens, once the transaction is committed."""
    if is_postgres(connection):
        connection.execute(text(f"NOTIFY {CHANNEL}"))


def is_full(error: DBAPIError) -> bool:
    """Whether the database's disk is full."""
    return getattr(error.orig, "sqlstate", None) in _FULL_STATES


def told_of(error: DBAPIError) -> str:
    """What clients may know of a fault: the server's words, but not where it is or who asks it."""
    words: str | None = getattr(getattr(error.orig, "diag", None), "message_primary", None)
    if words:
        return words
    # Before a connection is there, the server's words come within the driver's.
    is_crowded = any(hint in str(error.orig) for hint in ("too many", "connection slots"))
    return "it takes no more connections" if is_crowded else "it does not answer"


class ChangeListener:
    """A thread that calls `heard` whenever another process has changed something."""

    def __init__(self, engine: Engine, heard: Callable[[], None]) -> None:
        self._engine = engine
        self._heard = heard
        self._is_over = threading.Event()
        self._thread = threading.Thread(target=self._run, name="changes", daemon=True)

    def start(self) -> None:
        """Listen; without effect on SQLite, whose followers look by themselves."""
        if is_postgres(self._engine):
            self._thread.start()

    def stop(self) -> None:
        """Stop listening."""
        self._is_over.set()
        if self._thread.is_alive():
            self._thread.join()

    def _run(self) -> None:
        while not self._is_over.is_set():
            try:
                self._listen()
            except Exception as error:  # noqa: BLE001 - whatever a driver raises: try again
                logger.warning("not told of changes: %s", error)
                self._is_over.wait(_RETRY_S)

    def _listen(self) -> None:
        import psycopg

        url = self._engine.url.set(drivername="postgresql")
        conninfo = url.render_as_string(hide_password=False)
        with psycopg.connect(conninfo, autocommit=True, connect_timeout=5) as connection:
            connection.execute(f"LISTEN {CHANNEL}".encode())
            # What happened before this moment was told to nobody.
            self._heard()
            while not self._is_over.is_set():
                for _ in connection.notifies(timeout=_LISTEN_S):
                    with suppress(RuntimeError):
                        self._heard()
