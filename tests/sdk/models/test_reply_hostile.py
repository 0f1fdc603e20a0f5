"""Whatever an endpoint sends becomes a completion or a model's error, and takes linear time."""

from __future__ import annotations

import contextlib
import json
import time
import zlib
from collections.abc import Mapping
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from strop.errors import ConfigError, ModelError, ModelReplyError
from strop.models import anthropic, responses
from strop.models.endpoint import Reply
from strop.models.fault import embedded_refusal, read_document, read_retry_after, refusal
from strop.models.http import Url
from strop.models.http.decoding import Decoder
from strop.models.http.events import EventReader
from strop.models.reply.chat import read_chat
from strop.models.reply.stream import ChatFold
from strop.models.reply.tokens import count_of, read_tokens, read_usage
from strop.models.retry import RetryPolicy

JSON = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(10**400), 10**400)
    | st.floats()
    | st.text(max_size=5),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3)
    ),
    max_leaves=5,
)
ODD_SHAPES = (ArithmeticError, AttributeError, KeyError, IndexError, TypeError, ValueError)
"""What an endpoint turns into `ModelReplyError`; anything else would end a run."""

CHAT: dict[str, Any] = {
    "choices": [
        {
            "index": 0,
            "message": {"content": "hi", "tool_calls": [{"id": "1", "function": {"name": "f"}}]},
            "finish_reason": "stop",
            "token_ids": [1, 2],
            "logprobs": {"content": [{"token": "a", "logprob": -1.0, "id": 1}]},
        }
    ],
    "prompt_token_ids": [5, 6],
    "usage": {"prompt_tokens": 2, "completion_tokens": 2},
    "model": "tiny",
}
MESSAGES: dict[str, Any] = {
    "content": [{"type": "text", "text": "hi"}, {"type": "tool_use", "id": "1", "name": "f"}],
    "stop_reason": "end_turn",
    "usage": {"input_tokens": 2, "output_tokens": 2},
}
RESPONSE: dict[str, Any] = {
    "output": [
        {"type": "message", "content": [{"type": "output_text", "text": "hi"}]},
        {"type": "function_call", "call_id": "1", "name": "f", "arguments": "{}"},
    ],
    "status": "completed",
    "usage": {"input_tokens": 2, "output_tokens": 2},
}
READERS = {
    "chat": (CHAT, read_chat),
    "anthropic": (MESSAGES, anthropic.read_reply),
    "responses": (RESPONSE, responses.read_reply),
}


def damaged(value: Any, other: Any) -> list[Any]:
    """`value` with `other` in the place of each of its parts, one at a time."""
    found = [other]
    if isinstance(value, dict):
        found += [{**value, key: each} for key in value for each in damaged(value[key], other)]
        found += [{k: v for k, v in value.items() if k != key} for key in value]
    elif isinstance(value, list):
        for index, part in enumerate(value):
            found += [[*value[:index], each, *value[index + 1 :]] for each in damaged(part, other)]
    return found


ODD: list[Any] = [None, 0, -1, 1.5, 10**400, True, "", "x", "é", [], [[]], [None], {}, {"a": 1}]


@pytest.mark.parametrize("other", ODD, ids=range(len(ODD)))
@pytest.mark.parametrize("dialect", READERS)
def test_a_reply_with_another_value_anywhere_is_read_or_of_an_odd_shape(
    dialect: str, other: Any
) -> None:
    document, read = READERS[dialect]
    for each in damaged(document, other):
        if not isinstance(each, dict):
            continue
        try:
            completion = read(Reply(each, 0.0, "POST x"))
        except (ModelError, *ODD_SHAPES):
            continue
        assert completion.message.role == "assistant"
        assert isinstance(completion.text, str)
        assert all(isinstance(call.arguments, str) for call in completion.message.tool_calls)
        usage = completion.usage
        assert usage is None or 0 <= usage.completion_tokens <= 2**53


@pytest.mark.parametrize(
    ("value", "count"),
    [
        (0, 0),
        (7, 7),
        (7.0, 7),
        (7.9, 7),
        (True, 1),
        (-1, 0),
        (2**53, 2**53),
        (2**53 + 1, 0),
        (10**400, 0),
        (float("inf"), 0),
        (float("-inf"), 0),
        (float("nan"), 0),
        ("7", 0),
        (None, 0),
        ([7], 0),
        ({}, 0),
    ],
)
def test_a_count_is_a_count_or_zero(value: Any, count: int) -> None:
    assert count_of(value) == count


@given(JSON, JSON, JSON)
def test_no_usage_makes_a_negative_or_endless_count(prompt: Any, sampled: Any, cached: Any) -> None:
    counts = {
        "prompt_tokens": prompt,
        "completion_tokens": sampled,
        "prompt_tokens_details": {"cached_tokens": cached},
    }

    usage = read_usage(counts)

    assert usage is not None
    assert 0 <= usage.cached_tokens <= usage.prompt_tokens <= 2**53
    assert 0 <= usage.completion_tokens <= 2**53


@pytest.mark.parametrize("logprobs", [[10**400], [float("nan")], ["x"], [None], [[1]], [True]])
def test_logprobs_that_are_no_numbers_are_left_out_and_the_ids_stay(logprobs: list[Any]) -> None:
    entries = [{"token": "a", "logprob": each, "id": 3} for each in logprobs]

    tokens = read_tokens({}, {"logprobs": {"content": entries}}, "POST x")

    assert tokens.ids is not None
    assert list(tokens.ids) == [3]
    assert tokens.logprobs is None or list(tokens.logprobs) == [1.0]


@pytest.mark.parametrize("ids", [["1"], [2**31], [-(2**31) - 1], [1.5], [None], 5, {"a": 1}])
def test_token_ids_that_are_none_are_a_fault_of_the_reply(ids: Any) -> None:
    with pytest.raises(ModelReplyError, match="no integers"):
        read_tokens({}, {"token_ids": ids}, "POST x")


@pytest.mark.parametrize(
    ("headers", "wait_s"),
    [
        ({}, None),
        ({"retry-after": "3"}, 3.0),
        ({"retry-after": "0.5"}, 0.5),
        ({"retry-after-ms": "250"}, 0.25),
        ({"retry-after-ms": "250", "retry-after": "9"}, 0.25),
        ({"retry-after-ms": "soon", "retry-after": "9"}, 9.0),
        ({"retry-after": "-5"}, 0.0),
        ({"retry-after": "nan"}, 0.0),
        ({"retry-after": ""}, None),
        ({"retry-after": "²"}, None),
        ({"retry-after": "Wed, 21 Oct 2015 07:28:00 GMT"}, 0.0),
        ({"retry-after": "Wed, 21 Oct 2015 07:28:00"}, 0.0),
        ({"retry-after": "Mon, 01 Jan 2024 00:00:00 +99999999999999"}, None),
        ({"retry-after": "Mon, 01 Jan 99999999999 00:00:00 GMT"}, None),
        ({"retry-after": "Mon, 99 Jan 2024 99:00:00 GMT"}, None),
        ({"retry-after": "\x00"}, None),
    ],
)
def test_a_wish_to_wait_is_read_or_is_none(
    headers: Mapping[str, str], wait_s: float | None
) -> None:
    assert read_retry_after(headers) == wait_s


@given(st.text(max_size=30))
def test_no_wish_to_wait_makes_reading_raise(text: str) -> None:
    for name in ("retry-after", "retry-after-ms"):
        wait_s = read_retry_after({name: text})
        assert wait_s is None or wait_s >= 0


@given(st.integers(300, 599), st.binary(max_size=60) | JSON.map(lambda v: json.dumps(v).encode()))
def test_any_refusal_is_a_models_error_with_its_status(status: int, body: bytes) -> None:
    error = refusal(status, {}, body, "POST x")

    assert str(status) in str(error)
    assert len(str(error)) < 3000
    assert error.is_retryable == (
        status in (408, 425, 429) or (status >= 500 and "Overflow" not in type(error).__name__)
    )


@given(JSON)
def test_any_embedded_error_is_a_models_error(problem: Any) -> None:
    assert str(embedded_refusal(problem, "POST x")).startswith("POST x")


@given(st.binary(max_size=80))
def test_any_body_is_a_document_or_a_fault_of_the_reply(body: bytes) -> None:
    with contextlib.suppress(ModelReplyError):
        assert isinstance(read_document(body, {}, "POST x"), dict)


@pytest.mark.parametrize("body", [b"[" * 100_000, b"9" * 5000, b"<html>" + b"x" * 10_000, b"\xff"])
def test_a_hostile_body_is_shown_shortly(body: bytes) -> None:
    with pytest.raises(ModelReplyError) as caught:
        read_document(body, {}, "POST x")
    assert len(str(caught.value)) < 1500


@given(st.lists(JSON | st.dictionaries(st.sampled_from(["choices", "delta", "[DONE]"]), JSON)))
def test_any_events_are_folded_or_of_an_odd_shape(events: list[Any]) -> None:
    fold = ChatFold()
    try:
        for event in events:
            if isinstance(event, dict):
                fold.take(event)
        document = fold.finish()
    except ODD_SHAPES:
        return
    assert document is None or isinstance(document["choices"], list)


def test_a_line_that_comes_in_many_pieces_takes_linear_time() -> None:
    reader = EventReader()
    started_at = time.process_time()

    pieces = [b"data: ", *[b"x" * 4096] * 5000, b"\n", b"\n"]
    events = [event for piece in pieces for event in reader.feed(piece)]

    assert events == [b"x" * 4096 * 5000]
    assert time.process_time() - started_at < 4


def test_a_mark_of_byte_order_at_the_very_beginning_does_not_cost_the_first_event() -> None:
    mark = "\ufeff".encode()
    whole, cut = EventReader(), EventReader()

    assert list(whole.feed(mark + b"data: a\n\ndata: b\n\n")) == [b"a", b"b"]
    pieces = [mark[:1], mark[1:], b"data: a\n\n", mark + b"data: b\n\n"]
    # Only at the beginning is it a mark; later it is the name of an unknown field.
    assert [event for piece in pieces for event in cut.feed(piece)] == [b"a"]


@given(st.binary(max_size=60), st.integers(1, 7))
def test_events_do_not_depend_on_how_a_stream_was_cut(stream: bytes, size: int) -> None:
    # The last byte tells a lone carriage return from half a CRLF.
    stream += b"\n\n:"
    whole, cut = EventReader(), EventReader()

    pieces = [stream[at : at + size] for at in range(0, len(stream), size)]

    assert [e for piece in pieces for e in cut.feed(piece)] == list(whole.feed(stream))


@given(st.binary(max_size=2000), st.sampled_from(["gzip", "deflate", "raw"]), st.integers(1, 50))
def test_a_packed_body_comes_out_however_it_was_cut(body: bytes, coding: str, size: int) -> None:
    packer = zlib.compressobj(wbits={"gzip": 31, "deflate": 15, "raw": -15}[coding])
    packed = packer.compress(body) + packer.flush()
    decoder = Decoder(coding.replace("raw", "deflate"), len(body), "x")
    if coding == "raw":
        size = max(size, 2)

    found = b"".join(decoder.feed(packed[at : at + size]) for at in range(0, len(packed), size))
    decoder.finish()

    assert found == body


@given(st.binary(max_size=100), st.sampled_from(["gzip", "deflate", "br", "", "GZIP "]))
def test_any_packed_bytes_are_unpacked_or_refused(body: bytes, coding: str) -> None:
    with contextlib.suppress(ModelReplyError):
        decoder = Decoder(coding, 1000, "POST x")
        assert len(decoder.feed(body)) <= 1000
        decoder.finish()


def test_a_bomb_is_refused_at_its_limit() -> None:
    decoder = Decoder("gzip", 1000, "POST x")
    packer = zlib.compressobj(wbits=31)

    with pytest.raises(ModelReplyError, match="more than the limit"):
        decoder.feed(packer.compress(bytes(10_000_000)) + packer.flush())


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("http://h", "http://h/"),
        ("HTTP://H:80/v1", "http://h/v1"),
        ("https://h:443/", "https://h/"),
        ("https://h:80", "https://h:80/"),
        ("http://[::1]:9/x?y=1", "http://[::1]:9/x?y=1"),
        ("http://ünï.example/", "http://xn--n-nga1b.example/"),
        ("http://h/a#fragment", "http://h/a"),
    ],
)
def test_an_address_is_taken_apart_and_put_together(text: str, shown: str) -> None:
    assert str(Url.parse(text)) == shown


@pytest.mark.parametrize(
    "text",
    [
        "",
        "h",
        "ftp://h/",
        "http://",
        "http:///v1",
        "http://[::1",
        "http://h:99999/",
        "http://h:0/",
        "http://h:x/",
        "http://two words/",
        "http://ü..example/",
        "http://" + "ü" * 100 + "/",
        "http://ada:pw@h/",
        "http://ada@h/",
    ],
)
def test_what_is_no_address_is_refused_without_its_password(text: str) -> None:
    with pytest.raises(ConfigError) as caught:
        Url.parse(text)
    assert "pw" not in str(caught.value)


@given(
    st.integers(1, 10**6),
    st.floats(0, 10),
    st.floats(0, 100),
    st.none() | st.floats(0, 1000),
)
def test_a_wait_is_never_shorter_than_asked_nor_longer_than_the_ceiling(
    tried_count: int, base_s: float, longest_s: float, retry_after_s: float | None
) -> None:
    policy = RetryPolicy(base_s=base_s, longest_s=longest_s)

    wait_s = policy.wait_s(tried_count, retry_after_s)

    asked_s = retry_after_s or 0.0
    assert asked_s <= wait_s <= asked_s + longest_s + 1e-6
