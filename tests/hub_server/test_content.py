"""Conditions and ranges on bytes that never change."""

import pytest

from strop_hub.content import Content, plan_answer

SHA = "c" * 64
CONTENT = Content(SHA, 100, "application/octet-stream", True, "maze_env-1.0-py3-none-any.whl")


@pytest.mark.parametrize(
    ("asked", "start", "length"),
    [
        ("bytes=0-9", 0, 10),
        ("bytes=90-", 90, 10),
        ("bytes=-5", 95, 5),
        ("bytes=-500", 0, 100),
        ("bytes=50-5000", 50, 50),
        ("bytes=99-99", 99, 1),
        ("BYTES = 3 - 4", 3, 2),
    ],
)
def test_a_range_gives_those_bytes(asked: str, start: int, length: int) -> None:
    answer = plan_answer(CONTENT, {"range": asked})

    assert (answer.status, answer.start, answer.length) == (206, start, length)
    assert answer.headers["content-range"] == f"bytes {start}-{start + length - 1}/100"
    assert answer.headers["content-length"] == str(length)


@pytest.mark.parametrize("asked", ["bytes=100-", "bytes=100-200", "bytes=-0"])
def test_a_range_beyond_the_end_cannot_be_satisfied(asked: str) -> None:
    answer = plan_answer(CONTENT, {"range": asked})

    assert (answer.status, answer.length) == (416, 0)
    assert answer.headers["content-range"] == "bytes */100"


@pytest.mark.parametrize(
    "asked",
    [
        "",
        "bytes=",
        "bytes=-",
        "bytes=5-1",
        "bytes=0-1,5-6",
        "lines=1-2",
        "bytes=a-b",
        "bytes=1",
        f"bytes={'9' * 400}-",
    ],
)
def test_a_range_that_means_nothing_is_ignored(asked: str) -> None:
    answer = plan_answer(CONTENT, {"range": asked})

    assert (answer.status, answer.length) == (200, 100)


@pytest.mark.parametrize(
    ("if_range", "status"),
    [
        (f'"{SHA}"', 206),
        (f'W/"{SHA}"', 200),
        ('"another"', 200),
        ("Wed, 04 Mar 2026 05:06:07 GMT", 200),
    ],
)
def test_a_resumed_download_gets_the_rest_only_of_the_same_bytes(
    if_range: str, status: int
) -> None:
    answer = plan_answer(CONTENT, {"range": "bytes=50-", "if-range": if_range})

    assert answer.status == status


@pytest.mark.parametrize(
    "condition", [f'"{SHA}"', f'W/"{SHA}"', "*", f'"x", "{SHA}"', f' "{SHA}" ']
)
def test_a_caller_that_has_the_bytes_gets_none(condition: str) -> None:
    answer = plan_answer(CONTENT, {"if-none-match": condition, "range": "bytes=0-9"})

    assert (answer.status, answer.length) == (304, 0)
    assert answer.headers["etag"] == f'"{SHA}"'
    assert "content-length" not in answer.headers


def test_other_bytes_are_sent_whole() -> None:
    assert plan_answer(CONTENT, {"if-none-match": '"other"'}).status == 200


def test_public_bytes_may_be_kept_by_all_and_private_ones_by_their_caller_alone() -> None:
    private = Content(SHA, 100, "application/octet-stream", False, "a.whl")

    assert CONTENT.headers()["cache-control"] == "public, max-age=31536000, immutable"
    assert private.headers()["cache-control"] == "private, max-age=31536000, immutable"
    assert private.headers()["vary"] == "Authorization"


def test_a_file_name_cannot_break_out_of_its_header() -> None:
    odd = Content(SHA, 1, "application/octet-stream", True, 'a"\r\nset-cookie: x;é.whl')

    disposition = odd.headers()["content-disposition"]

    assert disposition.startswith('attachment; filename="a___set-cookie__x__.whl"')
    assert disposition.isascii()
    assert disposition.isprintable()


def test_no_range_of_an_empty_file_can_be_satisfied() -> None:
    empty = Content(SHA, 0, "text/plain", True)

    assert plan_answer(empty, {"range": "bytes=0-"}).status == 416
    assert plan_answer(empty, {}).status == 200
