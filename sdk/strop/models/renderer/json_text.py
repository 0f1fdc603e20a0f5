"""JSON inside of text: where a value ends, and its members as they were written."""

from __future__ import annotations

import json

_DECODER = json.JSONDecoder(strict=False)
_BLANK = " \t\r\n"


def skip_blank(text: str, at: int) -> int:
    """The place of the first character from `at` on that is no blank."""
    while at < len(text) and text[at] in _BLANK:
        at += 1
    return at


def end_of(text: str, at: int) -> int | None:
    """Where the JSON object that begins at `at` ends; None where none does."""
    if not text.startswith("{", at):
        return None
    try:
        return _DECODER.raw_decode(text, at)[1]
    except (ValueError, RecursionError):
        return None


def members_of(text: str) -> dict[str, str] | None:
    """The members of the JSON object that `text` is, each value as it was written.

    Of two with one name the later counts, as with `json`. None where it is no object.
    """
    if end_of(text, 0) is None:
        return None
    members: dict[str, str] = {}
    at = skip_blank(text, 1)
    while text[at] != "}":
        name, at = _DECODER.raw_decode(text, at)
        begin = skip_blank(text, skip_blank(text, at) + 1)
        _, end = _DECODER.raw_decode(text, begin)
        members[name] = text[begin:end]
        at = skip_blank(text, end)
        if text[at] == ",":
            at = skip_blank(text, at + 1)
    return members
