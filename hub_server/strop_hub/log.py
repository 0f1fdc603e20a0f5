"""The hub's log: lines for people, or one JSON object a line; each with its request's id."""

import json
import logging
from contextvars import ContextVar
from datetime import UTC, datetime

TEXT_FORMAT = "%(asctime)s %(levelname)s %(name)s: %(message)s"

request_id: ContextVar[str | None] = ContextVar("strop_request_id", default=None)
"""Of the request that is answered where the log is written; threads inherit it."""


class JsonFormatter(logging.Formatter):
    """One object a line, which holds whatever a message holds."""

    def format(self, record: logging.LogRecord) -> str:
        """The record as JSON."""
        document = {
            "at": datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds"),
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": record.getMessage(),
        }
        if (current := request_id.get()) is not None:
            document["request_id"] = current
        if record.exc_info:
            document["traceback"] = self.formatException(record.exc_info)
        return json.dumps(document)


def configure(form: str) -> None:
    """Write the log to stderr in a form: ``text`` or ``json``."""
    logging.basicConfig(level=logging.INFO, format=TEXT_FORMAT)
    if form == "json":
        for handler in logging.getLogger().handlers:
            handler.setFormatter(JsonFormatter())
