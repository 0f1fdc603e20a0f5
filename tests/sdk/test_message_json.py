"""Messages are written without what is empty and come back equal."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from strop.message_json import message_from_json, message_to_json
from strop.types import Message, Part, ToolCall

TEXT = st.text(st.characters(exclude_categories=()), max_size=20)
MAYBE = st.none() | TEXT
PARTS = st.builds(
    Part,
    kind=st.sampled_from(["text", "image", "audio"]),
    text=MAYBE,
    url=MAYBE,
    digest=MAYBE,
    media_type=MAYBE,
)
CALLS = st.builds(ToolCall, id=TEXT, name=TEXT, arguments=TEXT)
MESSAGES = st.builds(
    Message,
    role=st.sampled_from(["system", "user", "assistant", "tool"]),
    content=TEXT | st.lists(PARTS, max_size=3).map(tuple),
    tool_calls=st.lists(CALLS, max_size=2).map(tuple),
    tool_call_id=MAYBE,
    name=MAYBE,
    reasoning=MAYBE,
)


@given(MESSAGES)
def test_any_message_comes_back_equal(message: Message) -> None:
    assert message_from_json(json.loads(json.dumps(message_to_json(message)))) == message


def test_a_plain_message_is_written_short() -> None:
    assert message_to_json(Message("user", "hi")) == {"role": "user", "content": "hi"}


def test_every_field_is_written_where_it_is_set() -> None:
    message = Message(
        "assistant", "x", (ToolCall("1", "f", "{}"),), tool_call_id="2", name="n", reasoning="r"
    )

    assert message_to_json(message) == {
        "role": "assistant",
        "content": "x",
        "tool_calls": [{"id": "1", "name": "f", "arguments": "{}"}],
        "tool_call_id": "2",
        "name": "n",
        "reasoning": "r",
    }


def test_an_empty_name_is_not_a_missing_one() -> None:
    assert message_to_json(Message("tool", "", name="", tool_call_id=""))["name"] == ""


@pytest.mark.parametrize(
    ("content", "text"),
    [
        ("plain", "plain"),
        ((), ""),
        ((Part("text", text="a"), Part("image", url="x"), Part("text", text="b")), "ab"),
        ((Part("text"),), ""),
    ],
)
def test_the_text_of_a_message_is_its_text_parts(
    content: str | tuple[Part, ...], text: str
) -> None:
    assert Message("user", content).text == text


def test_a_readers_newer_fields_are_passed_over() -> None:
    written = {**message_to_json(Message("user", "hi")), "later": 1}

    assert message_from_json(written) == Message("user", "hi")
