"""What a program sends is read whole, and what it gets is what the model said."""

import json
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from strop import Completion, Message, Part, ToolCall, Usage
from strop.models.anthropic import MessagesFold
from strop.models.http.events import EventReader
from strop.models.reply.stream import ChatFold
from strop.models.responses import ResponseFold
from strop.serve.intercept.call import CallError, Dialect
from strop.serve.intercept.chat import Chat
from strop.serve.intercept.messages import Messages
from strop.serve.intercept.responses import Responses

DIALECTS: dict[str, tuple[Dialect, Callable[[], Any]]] = {
    "chat": (Chat(), ChatFold),
    "messages": (Messages(), MessagesFold),
    "responses": (Responses(), ResponseFold),
}
PIXEL = "iVBORw0KGgo="


def ask(**fields: Any) -> dict[str, Any]:
    messages = [{"role": "user", "content": "hi"}]
    return {"model": "m", "messages": messages, "input": messages, **fields}


COMPLETIONS = st.builds(
    lambda text, calls, reasoning, finish_reason, usage: Completion(
        Message("assistant", text, tool_calls=tuple(calls), reasoning=reasoning),
        finish_reason=finish_reason,
        usage=usage,
    ),
    st.text(max_size=20),
    st.lists(
        st.builds(
            ToolCall,
            st.text(st.characters(codec="ascii", categories=["L"]), min_size=1),
            st.just("act"),
            st.dictionaries(st.text(max_size=5), st.integers() | st.text(max_size=5)).map(
                json.dumps
            ),
        ),
        max_size=3,
        unique_by=lambda call: call.id,
    ),
    st.none() | st.text(min_size=1, max_size=9),
    st.sampled_from(["stop", "length", "tool_calls", "content_filter", "other"]),
    st.none() | st.builds(Usage, st.integers(9, 99), st.integers(0, 99), st.integers(0, 9)),
)


@pytest.mark.parametrize("name", DIALECTS)
@given(completion=COMPLETIONS)
def test_a_stream_says_what_the_whole_reply_says_and_comes_back_as_it(
    name: str, completion: Completion
) -> None:
    dialect, make_fold = DIALECTS[name]
    thinking = {"thinking": {"type": "enabled"}} if name == "messages" else {}
    call = dialect.decode(ask(stream_options={"include_usage": True}, **thinking), ())
    reply = dialect.encode(call, completion, "1")
    fold = make_fold()
    for event in EventReader().feed(dialect.encode_stream(call, reply)):
        fold.take({"[DONE]": True} if event == b"[DONE]" else json.loads(event))
    streamed = fold.finish()
    assert streamed is not None
    assert _message_of(dialect, streamed) == _message_of(dialect, reply)
    back = dialect.read_back(reply)
    assert (back.text, back.reasoning) == (completion.text, completion.message.reasoning)
    assert [json.loads(each.arguments) for each in back.tool_calls] == [
        json.loads(each.arguments) for each in completion.message.tool_calls
    ]


def _message_of(dialect: Dialect, reply: dict[str, Any]) -> Any:
    """The message alone; a fold leaves the arguments of Messages as their text."""
    for block in reply.get("content", ()):
        if "partial_json" in block:
            block["input"] = json.loads(block.pop("partial_json"))
    return dialect.read_back(reply)


def test_chat_parts_roles_and_tools_are_read() -> None:
    image = {"type": "image_url", "image_url": {"url": f"data:image/png;base64,{PIXEL}"}}
    sound = {"type": "input_audio", "input_audio": {"data": "AAAA", "format": "wav"}}
    use = {"id": "c1", "type": "function", "function": {"name": "act", "arguments": "{half"}}
    call = Chat().decode(
        {
            "messages": [
                {"role": "developer", "content": "Be brief."},
                {"role": "user", "content": [{"type": "text", "text": "see"}, image, sound]},
                {"role": "assistant", "content": None, "tool_calls": [use]},
                {"role": "tool", "tool_call_id": "c1", "content": [{"type": "text", "text": "r"}]},
            ],
            "tools": [{"type": "function", "function": {"name": "act"}}],
            "response_format": {"type": "json_object"},
            "temperature": 2,
        },
        ("response_format",),
    )
    system, user, assistant, tool = call.messages
    assert (system.role, system.content) == ("system", "Be brief.")
    assert isinstance(user.content, tuple)
    assert [part.kind for part in user.content] == ["text", "image", "audio"]
    assert assistant.tool_calls == (ToolCall("c1", "act", "{half"),)
    assert (tool.name, tool.content) == ("act", "r")
    assert call.tools[0].parameters == {"type": "object", "properties": {}}
    assert call.wish.extra == {"response_format": {"type": "json_object"}}
    assert call.wish.temperature is None


def test_the_blocks_of_messages_are_read_and_tools_answers_stand_first() -> None:
    source = {"type": "base64", "media_type": "image/png", "data": PIXEL}
    call = Messages().decode(
        {
            "system": [{"type": "text", "text": "Be"}, {"type": "text", "text": "brief."}],
            "messages": [
                {"role": "user", "content": [{"type": "image", "source": source}]},
                {
                    "role": "assistant",
                    "content": [
                        {"type": "thinking", "thinking": "hm", "signature": "s"},
                        {"type": "tool_use", "id": "t1", "name": "act", "input": {"a": 1}},
                    ],
                },
                {
                    "role": "user",
                    "content": [
                        {"type": "tool_result", "tool_use_id": "t1", "content": "done"},
                        {"type": "text", "text": "go on"},
                    ],
                },
            ],
            "max_tokens": 5,
            "stop_sequences": ["x", "y"],
        },
        (),
    )
    assert [each.role for each in call.messages] == ["system", "user", "assistant", "tool", "user"]
    assert call.messages[0].content == "Be\n\nbrief."
    picture = Part("image", url=f"data:image/png;base64,{PIXEL}", media_type="image/png")
    assert call.messages[1].content == (picture,)
    assert call.messages[2].reasoning == "hm"
    assert call.messages[3].name == "act"
    assert (call.wish.max_tokens, call.wish.stop) == (5, ("x", "y"))


def test_the_items_of_responses_are_read_and_those_of_one_reply_are_one_message() -> None:
    picture = Part("image", url=f"data:image/png;base64,{PIXEL}")
    call = Responses().decode(
        {
            "model": "m",
            "instructions": "Be brief.",
            "input": [
                {
                    "role": "user",
                    "content": [{"type": "input_image", "image_url": picture.url}],
                },
                {
                    "type": "reasoning",
                    "id": "r",
                    "summary": [{"type": "summary_text", "text": "hm"}],
                },
                {
                    "type": "message",
                    "role": "assistant",
                    "content": [{"type": "output_text", "text": "I look."}],
                },
                {"type": "function_call", "call_id": "t1", "name": "act", "arguments": "{}"},
                {"type": "function_call", "call_id": "t2", "name": "act", "arguments": "{}"},
                {"type": "function_call_output", "call_id": "t1", "output": "one"},
                {
                    "type": "function_call_output",
                    "call_id": "t2",
                    "output": [{"type": "input_text", "text": "two"}],
                },
                {"role": "developer", "content": "Hurry."},
            ],
            "max_output_tokens": 5,
        },
        (),
    )
    roles = [message.role for message in call.messages]
    assert roles == ["system", "user", "assistant", "tool", "tool", "system"]
    said = call.messages[2]
    assert (said.text, said.reasoning) == ("I look.", "hm")
    assert [each.id for each in said.tool_calls] == ["t1", "t2"]
    assert call.messages[1].content == (picture,)
    assert [(m.text, m.name) for m in call.messages[3:5]] == [("one", "act"), ("two", "act")]
    assert call.wish.max_tokens == 5


@pytest.mark.parametrize(
    "body",
    [
        {"input": "a", "previous_response_id": "resp_unknown"},
        {"input": "a", "background": True},
        {"input": [{"type": "item_reference", "id": "x"}]},
        {"input": [{"role": "user", "content": [{"type": "input_file", "file_id": "f"}]}]},
        {"input": "a", "tools": [{"type": "web_search"}]},
    ],
    ids=str,
)
def test_what_responses_cannot_have_here_is_refused_with_its_cause(body: dict[str, Any]) -> None:
    with pytest.raises(CallError, match=r"\w+"):
        Responses().decode({"model": "m", **body}, ())


def test_malformed_arguments_reach_a_program_of_messages_as_their_text() -> None:
    said = Message("assistant", "", tool_calls=(ToolCall("t1", "act", "{half"),))
    dialect = Messages()
    reply = dialect.encode(dialect.decode(ask(), ()), Completion(said), "1")
    assert reply["content"] == [
        {"type": "tool_use", "id": "t1", "name": "act", "input": {"malformed": "{half"}}
    ]


@pytest.mark.parametrize("name", DIALECTS)
@pytest.mark.parametrize(
    "body",
    [
        {},
        {"messages": []},
        {"messages": ["text"]},
        {"messages": [{"role": "robot", "content": ""}]},
        {"messages": [{"role": "user", "content": 3}]},
        {"messages": [{"role": "user", "content": [{"type": "video"}]}]},
        ask(tools=[{"type": "web_search_20250305", "name": "web_search"}]),
        ask(max_tokens=True, max_output_tokens=True),
    ],
    ids=str,
)
def test_what_cannot_be_read_is_refused_with_its_cause(name: str, body: dict[str, Any]) -> None:
    dialect, _ = DIALECTS[name]
    body = {**body, "input": body.get("messages")}
    with pytest.raises(CallError, match=r"\w+"):
        dialect.decode(body, ())
