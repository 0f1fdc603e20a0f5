"""Tool calls as models write them."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from strop.models.renderer import CallFormat, read_calls
from tests.sdk.models.renderer.conversations import JSON_VALUES, MOVE, TEXTS

UP = '{"name": "move", "arguments": {"direction": "up"}}'

FORMATS: list[CallFormat] = ["hermes", "qwen", "llama", "none"]


def read(text: str, format: CallFormat = "hermes") -> tuple[str, list[tuple[str, str]]]:
    content, calls = read_calls(text, format, [MOVE])
    assert [call.id for call in calls] == [f"call_{index}" for index in range(len(calls))]
    return content, [(call.name, call.arguments) for call in calls]


@pytest.mark.parametrize("format", ["hermes", "qwen"])
def test_calls_and_the_text_around_them_are_told_apart(format: CallFormat) -> None:
    text = f"First up.\n<tool_call>\n{UP}\n</tool_call>\n<tool_call>{UP}</tool_call>"

    assert read(text, format) == ("First up.", [("move", '{"direction": "up"}')] * 2)


def test_arguments_stay_as_they_were_written() -> None:
    arguments = '{ "count":1e2,"direction" : "\\u00fcp", "count": 3 }'

    assert read(f'<tool_call>{{"arguments": {arguments}, "name": "move"}}</tool_call>') == (
        "",
        [("move", arguments)],
    )


def test_arguments_that_are_a_string_of_json_are_that_json() -> None:
    assert read('<tool_call>{"name": "move", "arguments": "{\\"count\\": 1}"}</tool_call>') == (
        "",
        [("move", '{"count": 1}')],
    )


def test_a_call_without_arguments_has_none() -> None:
    assert read('<tool_call>{"name": "look"}</tool_call>') == ("", [("look", "{}")])


@given(arguments=st.dictionaries(TEXTS, JSON_VALUES), is_ascii=st.booleans())
def test_a_closing_tag_inside_an_argument_ends_nothing(
    arguments: dict[str, object], is_ascii: bool
) -> None:
    arguments["note"] = "</tool_call><tool_call>{}"
    written = json.dumps(arguments, ensure_ascii=is_ascii)

    _, calls = read(f'<tool_call>\n{{"name": "move", "arguments": {written}}}\n</tool_call>')

    assert calls == [("move", written)]


@pytest.mark.parametrize(
    ("body", "call"),
    [
        ('{"name": "move", "arguments": {"count": 3}', ("move", '{"count": 3')),
        ('{"name": "move", "arguments": {count: 3}}', ("move", "{count: 3}")),
        ("move(3)", ("", "move(3)")),
        ('["move"]', ("", '["move"]')),
        ('{"name": 3}', ("", '{"name": 3}')),
        ('{"arguments": {}}', ("", "{}")),
    ],
)
def test_a_malformed_call_that_is_closed_is_a_call_so_that_the_model_is_told(
    body: str, call: tuple[str, str]
) -> None:
    assert read(f"<tool_call>\n{body}\n</tool_call>") == ("", [call])


@pytest.mark.parametrize("format", ["hermes", "qwen"])
def test_a_call_that_was_cut_off_is_text(format: CallFormat) -> None:
    text = f'Go.\n<tool_call>{UP}</tool_call>\n<tool_call>\n{{"name": "mo'

    content, calls = read(text, format)

    assert calls == [("move", '{"direction": "up"}')]
    assert content.endswith('<tool_call>\n{"name": "mo')


def test_a_whole_call_needs_no_closing_tag() -> None:
    assert read(f"<tool_call>\n{UP}") == ("", [("move", '{"direction": "up"}')])


def test_text_after_a_call_is_kept() -> None:
    assert read(f"<tool_call>{UP}</tool_call> and wait") == (
        " and wait",
        [("move", '{"direction": "up"}')],
    )


def test_tags_of_qwen_coder_are_typed_by_the_tools_schema() -> None:
    text = (
        "Now.\n<tool_call>\n<function=move>\n<parameter=direction>\n7\n</parameter>\n"
        "<parameter=count>\n7\n</parameter>\n<parameter=why>\ntwo\nlines\n</parameter>\n"
        "</function>\n</tool_call>"
    )

    content, calls = read(text, "qwen")

    assert content == "Now."
    assert [(name, json.loads(arguments)) for name, arguments in calls] == [
        ("move", {"direction": "7", "count": 7, "why": "two\nlines"})
    ]


def test_a_value_that_does_not_fit_its_type_stays_text_for_the_tool_to_refuse() -> None:
    text = "<tool_call><function=move><parameter=count>\nmany\n</parameter></function></tool_call>"

    assert read(text, "qwen") == ("", [("move", '{"count": "many"}')])


@pytest.mark.parametrize("key", ["parameters", "arguments"])
def test_an_answer_of_json_is_llamas_call(key: str) -> None:
    one = json.dumps({"name": "move", key: {"direction": "up"}})

    assert read(one, "llama") == ("", [("move", '{"direction": "up"}')])
    assert read(f"{one}; {one}", "llama") == ("", [("move", '{"direction": "up"}')] * 2)
    assert read(f"Well.<|python_tag|>{one}", "llama") == (
        "Well.",
        [("move", '{"direction": "up"}')],
    )


@pytest.mark.parametrize("text", ['{"answer": 3}', "[1, 2]", "plain", '{"name": "mo', "", "{}"])
def test_json_that_names_no_function_is_an_answer(text: str) -> None:
    assert read(text, "llama") == (text, [])


def test_a_malformed_call_of_llama_is_a_call_where_the_tag_says_so() -> None:
    assert read('<|python_tag|>{"name": "move", "parameters": {x}}', "llama") == (
        "",
        [("move", "{x}")],
    )


@pytest.mark.parametrize("format", FORMATS)
@given(text=TEXTS | st.text(st.sampled_from('<>{}"/:,; \n\\toolcanmergsfuip_=[]1')))
def test_no_text_breaks_the_reading_and_text_without_calls_is_kept(
    format: CallFormat, text: str
) -> None:
    content, calls = read_calls(f"{text}<tool_call>{text}</tool_call>{text}", format, [MOVE])

    assert isinstance(content, str)
    plain, none = read_calls(text, "none")
    assert (plain, none) == (text, ())
    assert all(isinstance(call.arguments, str) for call in calls)
