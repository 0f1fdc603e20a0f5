"""Server-sent events survive every way of cutting them into pieces."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from strop.models.http.events import EventReader

LINE_ENDS = st.sampled_from([b"\n", b"\r\n", b"\r"])
LINES = st.binary(max_size=8).map(lambda line: line.replace(b"\r", b"").replace(b"\n", b""))


@given(
    contents=st.lists(st.lists(LINES, min_size=1, max_size=3), max_size=4),
    end=LINE_ENDS,
    cut=st.integers(1, 9),
)
def test_events_come_out_as_they_went_in(contents: list[list[bytes]], end: bytes, cut: int) -> None:
    stream = b"".join(
        b": comment"
        + end
        + b"".join(b"data: " + line + end for line in lines)
        + b"id: 1"
        + end
        + end
        for lines in contents
    )
    # Any byte after the last line end tells a lone carriage return from half a CRLF.
    stream += b":"
    reader = EventReader()

    events = [
        event for at in range(0, len(stream), cut) for event in reader.feed(stream[at : at + cut])
    ]

    assert events == [b"\n".join(lines) for lines in contents]


def test_an_event_that_is_not_whole_is_kept_back() -> None:
    reader = EventReader()

    assert list(reader.feed(b'data: {"a"')) == []
    assert list(reader.feed(b": 1}\n")) == []
    assert list(reader.feed(b"\ndata:")) == [b'{"a": 1}']


def test_a_field_without_a_space_or_without_a_value_is_read() -> None:
    assert list(EventReader().feed(b"data:x\ndata\n\n")) == [b"x\n"]
