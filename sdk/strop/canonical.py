"""One spelling for each JSON value, so that equal values have equal digests."""

import hashlib
import json

from strop.types import JSON

_encode = json.JSONEncoder(
    ensure_ascii=True, sort_keys=True, separators=(",", ":"), check_circular=False
).encode


def canonical_json(value: JSON) -> bytes:
    """Sorted keys, no spaces, ASCII escapes.

    Raises:
        TypeError: A part of `value` is no JSON.
    """
    return _encode(value).encode("ascii")


def json_digest(value: JSON) -> str:
    """sha256 of the canonical JSON, hex."""
    return hashlib.sha256(canonical_json(value)).hexdigest()
