"""Write the audit trail: acts with what they did, refusals on their own."""

from dataclasses import dataclass
from typing import Any

from sqlalchemy import insert
from sqlalchemy.orm import Session

from strop_hub.auth import Caller
from strop_hub.db import Database
from strop_hub.errors import HubError
from strop_hub.models import AuditLine

OK = "ok"
_TARGET_CHARACTERS = 512
_DETAIL_CHARACTERS = 2000
_APPEND = insert(AuditLine)


@dataclass(frozen=True, slots=True)
class Act:
    """What somebody does, and from where."""

    action: str
    """Such as ``publish``."""
    target: str
    """Such as ``ada/maze@1.0``."""
    address: str | None = None
    request_id: str | None = None


def note(session: Session, caller: Caller, act: Act, *, detail: str = "") -> None:
    """Note an act in the transaction that carries it out, so that neither is without the other."""
    session.connection().execute(_APPEND, _line(caller, act, OK, detail))


def note_refusal(database: Database, caller: Caller, act: Act, error: HubError) -> None:
    """Note a refusal in a transaction of its own: that of the act itself was rolled back."""
    line = _line(caller, act, error.code, error.detail)
    database.write(lambda session: session.connection().execute(_APPEND, line))


def _line(caller: Caller, act: Act, code: str, detail: str) -> dict[str, Any]:
    return {
        "user_name": caller.name,
        "token_prefix": caller.token_prefix,
        "address": act.address,
        "action": act.action,
        "target": _printable(act.target, _TARGET_CHARACTERS),
        "code": code,
        "detail": _printable(detail, _DETAIL_CHARACTERS),
        "request_id": act.request_id,
    }


def _printable(text: str, limit: int) -> str:
    return text.encode("utf-8", "replace").decode().replace("\x00", "\ufffd")[:limit]
