"""One spelling for each JSON value, so that equal values have equal digests."""

import hashlib
import json
import sys
from collections.abc import Iterator
from contextlib import contextmanager

from strop.errors import UnwritableError
from strop.types import JSON

_encode = json.JSONEncoder(
    ensure_ascii=True, sort_keys=True, separators=(",", ":"), check_circular=False
).encode


def canonical_json(value: JSON) -> bytes:
    """Sorted keys, no spaces, ASCII escapes.

    Raises:
        TypeError: A part of `value` is no JSON.
        UnwritableError: A part of `value` is nothing that JSON readers read.
    """
    with telling_what_is_unwritable():
        return _encode(value).encode("ascii")


@contextmanager
def telling_what_is_unwritable() -> Iterator[None]:
    """Around an encoder, so that its errors say what to do.

    Raises:
        UnwritableError: A number has too many digits, or containers stand in each other too deep.
    """
    try:
        yield
    except RecursionError as error:
        raise UnwritableError(
            "A value is nested too deep for JSON readers. Keep it flatter, or as a text."
        ) from error
    except ValueError as error:
        if "integer string conversion" not in str(error):
            raise
        raise UnwritableError(
            f"An integer has more than {sys.get_int_max_str_digits()} digits, which JSON readers "
            "refuse. Keep it as a text, such as hex(number)."
        ) from error


def json_digest(value: JSON) -> str:
    """sha256 of the canonical JSON, hex."""
    return hashlib.sha256(canonical_json(value)).hexdigest()
