"""Ranges and conditions against a reader of RFC 9110 that shares nothing with the hub's."""

from hypothesis import given, settings
from hypothesis import strategies as st

from strop_hub.content import Content, plan_answer

SHA = "ab" * 32
ETAG = f'"{SHA}"'
_SPACE = st.sampled_from(["", " ", "\t", "  "])
_NUMBER = st.one_of(st.just(""), st.integers(0, 60).map(str), st.integers(0, 10**17).map(str))
_RANGE = st.builds(lambda *parts: "".join(parts), _NUMBER, _SPACE, st.just("-"), _SPACE, _NUMBER)
_TAG = st.sampled_from([ETAG, f"W/{ETAG}", '"other"', 'W/"other"', "*", "", SHA, ETAG.upper()])


def content_of(size_bytes: int) -> Content:
    return Content(SHA, size_bytes, "application/octet-stream", True, "a.whl")


def wanted_bytes(text: str, content: bytes) -> tuple[int, bytes]:
    """Status and body for a range, by counting single bytes."""
    first, _, last = (part.strip() for part in text.partition("-"))
    if not first and not last:
        return 200, content
    if not first:
        body = content[max(0, len(content) - int(last)) :] if int(last) else b""
        return (206, body) if body else (416, b"")
    if last and int(last) < int(first):
        return 200, content
    end = int(last) if last else len(content)
    body = bytes(byte for place, byte in enumerate(content) if int(first) <= place <= end)
    return (206, body) if body else (416, b"")


@settings(max_examples=400, deadline=None)
@given(st.binary(max_size=40), _RANGE)
def test_a_range_gives_the_bytes_that_counting_gives(content: bytes, text: str) -> None:
    answer = plan_answer(content_of(len(content)), {"range": f"bytes={text}"})

    body = content[answer.start : answer.start + answer.length]
    assert (answer.status, body) == wanted_bytes(text, content)
    assert answer.headers["content-length"] == str(len(body))
    if answer.status == 206:
        shown = f"bytes {answer.start}-{answer.start + len(body) - 1}/{len(content)}"
        assert answer.headers["content-range"] == shown
    elif answer.status == 416:
        assert answer.headers["content-range"] == f"bytes */{len(content)}"
    else:
        assert "content-range" not in answer.headers


@settings(max_examples=200, deadline=None)
@given(st.integers(1, 40), _RANGE, _TAG)
def test_a_range_counts_only_with_the_very_tag_of_the_bytes(
    size_bytes: int, text: str, if_range: str
) -> None:
    content = content_of(size_bytes)
    with_tag = plan_answer(content, {"range": f"bytes={text}", "if-range": if_range})

    expected = {"range": f"bytes={text}"} if if_range == ETAG else {}
    assert with_tag == plan_answer(content, expected)


@settings(max_examples=200, deadline=None)
@given(st.lists(_TAG, min_size=1, max_size=4), _RANGE)
def test_a_caller_with_one_of_the_tags_gets_no_bytes_whatever_range_it_asks_for(
    tags: list[str], text: str
) -> None:
    headers = {"if-none-match": ", ".join(tags), "range": f"bytes={text}"}

    answer = plan_answer(content_of(40), headers)

    has_it = bool({ETAG, f"W/{ETAG}", "*"} & set(tags))
    assert (answer.status == 304) == has_it
    assert answer.headers["etag"] == ETAG
    if has_it:
        assert answer.length == 0
        assert not {"content-length", "content-range", "content-type"} & set(answer.headers)


@settings(max_examples=300, deadline=None)
@given(st.text(max_size=40), st.integers(0, 50))
def test_whatever_stands_in_the_header_the_answer_is_one_of_three(
    text: str, size_bytes: int
) -> None:
    for header in (text, f"bytes={text}", f"bytes={text},{text}"):
        answer = plan_answer(content_of(size_bytes), {"range": header})

        assert answer.status in (200, 206, 416)
        assert 0 <= answer.start <= answer.start + answer.length <= size_bytes


@settings(max_examples=300, deadline=None)
@given(st.text(max_size=60))
def test_no_name_of_a_file_leaves_its_header(name: str) -> None:
    odd = Content(SHA, 1, "text/plain", True, name.encode(errors="replace").decode())

    header = odd.headers()["content-disposition"]

    assert header.isascii()
    assert header.isprintable()
    assert header.startswith('attachment; filename="')
    assert header.count('"') == 2
