"""When tokens were last used: collected in memory, written in batches, never once a request."""

import threading
from datetime import datetime

from sqlalchemy import bindparam, update
from sqlalchemy.orm import Session

from strop_hub.db import Database, now
from strop_hub.models import Token

FLUSH_INTERVAL_S = 60.0


class TokenUses:
    """Times since the last flush; a crash loses at most those of one interval."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._lock = threading.Lock()
        self._times: dict[int, datetime] = {}

    def note(self, token_id: int | None) -> None:
        """The token is used now."""
        if token_id is not None:
            with self._lock:
                self._times[token_id] = now()

    def flush(self) -> None:
        """Write what was noted."""
        with self._lock:
            times, self._times = self._times, {}
        if times:
            rows = [{"used_id": token_id, "used_at": at} for token_id, at in times.items()]
            self._database.write(lambda session: _write(session, rows))


def _write(session: Session, rows: list[dict[str, object]]) -> None:
    table = Token.__table__
    statement = (
        update(Token)
        .where(table.c.id == bindparam("used_id"))
        .values(last_used_at=bindparam("used_at"))
    )
    session.connection().execute(statement, rows)
