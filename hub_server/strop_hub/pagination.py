"""Opaque cursors: a page continues after the last row shown, whatever has been added since."""

import base64
import binascii
import json
from typing import Any

from strop_hub.errors import InvalidRequestError


class InvalidCursorError(InvalidRequestError):
    """A cursor that this list never gave out."""

    code = "invalid_cursor"
    title = "The cursor is not valid"


def write_cursor(*position: str | int) -> str:
    """Text that stands for a position in an order; nothing in it is secret or trusted."""
    content = json.dumps(position, separators=(",", ":")).encode()
    return base64.urlsafe_b64encode(content).rstrip(b"=").decode()


def read_cursor(cursor: str, *kinds: type) -> tuple[Any, ...]:
    """The position behind a cursor, whose parts have the types `kinds`.

    Raises:
        InvalidCursorError: The hub never gave this cursor out, or did so for another list.
    """
    try:
        padded = cursor.encode("ascii") + b"=" * (-len(cursor) % 4)
        position = json.loads(base64.b64decode(padded, altchars=b"-_", validate=True))
    except (ValueError, binascii.Error, RecursionError):
        raise invalid_cursor(cursor) from None
    if not isinstance(position, list) or [type(part) for part in position] != list(kinds):
        raise invalid_cursor(cursor)
    if not all(_is_storable(part) for part in position):
        raise invalid_cursor(cursor)
    return tuple(position)


def invalid_cursor(cursor: str) -> InvalidCursorError:
    """The error for a cursor that means nothing here."""
    return InvalidCursorError(
        f"{cursor[:40]!a} is no cursor of this list. "
        "Give `next_cursor` back as it came, or leave it out for the first page."
    )


def _is_storable(part: str | int) -> bool:
    """Whether a database takes the value as a parameter."""
    if isinstance(part, int):
        return abs(part) < 2**63
    return "\0" not in part and not any("\ud800" <= letter <= "\udfff" for letter in part)
