"""How often environments are downloaded: counted in memory, written in batches."""

import threading
from collections import Counter

from sqlalchemy import bindparam, update
from sqlalchemy.orm import Session

from strop_hub.db import Database
from strop_hub.models import Environment, EnvironmentTerm
from strop_hub.search import weight_of

_PIECE = 500
"""Environments a transaction, so that nobody who publishes waits for long."""

_COUNT = (
    update(Environment)
    .where(Environment.id == bindparam("counted_id"))
    .values(download_count=Environment.download_count + bindparam("more"))
    .returning(Environment.download_count)
)
_WEIGH = (
    update(EnvironmentTerm)
    .where(EnvironmentTerm.environment_id == bindparam("counted_id"))
    .values(weight=bindparam("new_weight"))
)


class Downloads:
    """Downloads since the last flush; a crash loses at most those of one interval."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._lock = threading.Lock()
        self._counts: Counter[int] = Counter()

    def note(self, environment_id: int | None) -> None:
        """A file of the environment is sent now."""
        if environment_id is not None:
            with self._lock:
                self._counts[environment_id] += 1

    def flush(self) -> None:
        """Write what was noted."""
        with self._lock:
            counts, self._counts = self._counts, Counter()
        noted = sorted(counts.items())
        for start in range(0, len(noted), _PIECE):
            self._write(noted[start : start + _PIECE])

    def _write(self, counts: list[tuple[int, int]]) -> None:
        def write(session: Session) -> None:
            for environment_id, more in counts:
                _add(session, environment_id, more)

        self._database.write(write)


def _add(session: Session, environment_id: int, more: int) -> None:
    connection = session.connection()
    count = connection.scalar(_COUNT, {"counted_id": environment_id, "more": more})
    if count is None:
        return  # deleted since
    weight = weight_of(count)
    if weight != weight_of(count - more):
        connection.execute(_WEIGH, {"counted_id": environment_id, "new_weight": weight})
