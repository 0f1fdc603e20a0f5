"""Cursors go out and come back; anything else is refused."""

import base64

import pytest

from strop_hub.pagination import InvalidCursorError, read_cursor, write_cursor


def encoded(text: str) -> str:
    return base64.urlsafe_b64encode(text.encode()).rstrip(b"=").decode()


def test_a_cursor_comes_back_as_the_position_that_it_stands_for() -> None:
    assert read_cursor(write_cursor(2, "2026-01-01", "ada"), int, str, str) == (
        2,
        "2026-01-01",
        "ada",
    )


@pytest.mark.parametrize(
    "cursor",
    [
        "",
        "?",
        "é",
        "AAAA",
        encoded("{}"),
        encoded("[]"),
        encoded('["a", "b"]'),
        encoded("[1]"),
        encoded("[true]"),
        encoded('["\\u0000"]'),
        encoded('["\\ud800"]'),
        encoded("[" * 500),
    ],
)
def test_what_is_no_cursor_of_the_list_is_refused(cursor: str) -> None:
    with pytest.raises(InvalidCursorError, match="no cursor of this list"):
        read_cursor(cursor, str)


def test_a_number_that_no_database_takes_is_refused() -> None:
    with pytest.raises(InvalidCursorError):
        read_cursor(encoded(f"[{10**30}]"), int)
