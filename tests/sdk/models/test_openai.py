"""What chat completions engines send beyond the standard, and what is sent to them."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from strop.errors import (
    ModelError,
    ModelReplyError,
    ModelRequestError,
    ModelUnavailableError,
)
from strop.models.openai import OpenAIModel
from strop.models.outcome import outcome_of
from strop.models.reply.stream import ChatFold
from strop.models.retry import NO_RETRIES
from strop.types import Message, Part, Sampling, ToolCall, Usage
from tests.model_server import Fault, ModelServer, Said
from tests.sdk.models.chat_documents import counted, read, said
from tests.sdk.models.conftest import FAST, Connect, ask


@pytest.mark.parametrize(
    "document",
    [
        {},
        {"choices": None},
        {"choices": []},
        {"choices": [None]},
        {"choices": [{"finish_reason": "stop"}]},
        {"choices": [{"message": None, "finish_reason": "stop"}]},
        said(None),
        said(""),
        said([]),
        said(None, None),
        said("", usage=None),
    ],
)
def test_a_reply_without_anything_is_no_completion(document: dict[str, Any]) -> None:
    with pytest.raises(ModelReplyError):
        read(document)


@pytest.mark.parametrize("reason", ["abort", "error"])
def test_a_completion_that_the_engine_gave_up_is_worth_another_try(reason: str) -> None:
    with pytest.raises(ModelUnavailableError):
        read(said("half of it", reason))


def test_an_error_in_a_choice_is_an_error() -> None:
    document = said("half")
    document["choices"][0]["error"] = {"code": 502, "message": "upstream went away"}

    with pytest.raises(ModelUnavailableError, match="went away"):
        read(document)


@pytest.mark.parametrize(
    ("reason", "outcome"),
    [
        ("stop", "answer"),
        ("length", "truncated"),
        ("max_tokens", "truncated"),
        ("content_filter", "filtered"),
        ("SAFETY", "filtered"),
        ("something new", "answer"),
        (None, "answer"),
        (7, "answer"),
    ],
)
def test_every_finish_reason_has_an_outcome(reason: Any, outcome: str) -> None:
    assert outcome_of(read(said("text", reason))) == outcome


@pytest.mark.parametrize("reason", ["length", "content_filter"])
def test_an_empty_reply_that_was_cut_or_withheld_is_a_completion(reason: str) -> None:
    assert outcome_of(read(said(None, reason))) in ("truncated", "filtered")


@pytest.mark.parametrize(
    "message",
    [
        {"content": "42", "reasoning_content": "hmm"},
        {"content": "42", "reasoning": "hmm"},
        {"content": [{"type": "thinking", "thinking": "hmm"}, {"type": "text", "text": "42"}]},
    ],
)
def test_reasoning_is_read_under_every_name(message: dict[str, Any]) -> None:
    completion = read(said(**message))

    assert (completion.text, completion.message.reasoning) == ("42", "hmm")


def test_what_nobody_knows_is_kept() -> None:
    document = said("hi", "brand new", annotations=[1]) | {
        "service_tier": "turbo",
        "extra": {"a": 1},
    }
    document["choices"][0]["stop_reason"] = 128001
    document["usage"]["cost"] = 0.5

    raw = read(document).raw

    assert raw["service_tier"] == "turbo"
    assert raw["extra"] == {"a": 1}
    assert raw["usage"] == {"cost": 0.5}
    assert raw["choice"] == {"stop_reason": 128001, "finish_reason": "brand new"}
    assert raw["message"] == {"annotations": [1]}


@pytest.mark.parametrize(
    ("counts", "usage"),
    [
        (None, None),
        ({}, None),
        (counted(), Usage(5, 2)),
        ({"prompt_tokens": -5, "completion_tokens": None}, Usage()),
        (counted(prompt_tokens_details={"cached_tokens": 4}), Usage(5, 2, 4)),
        (counted(prompt_tokens_details={"cached_tokens": 9}), Usage(5, 2, 5)),
        (counted(prompt_tokens_details=None), Usage(5, 2)),
        (counted(prompt_cache_hit_tokens=3), Usage(5, 2, 3)),
        ({"prompt_tokens": float("nan"), "completion_tokens": "2"}, Usage()),
    ],
)
def test_usage_is_never_negative_and_may_be_missing(counts: Any, usage: Usage | None) -> None:
    assert read(said() | {"usage": counts}).usage == usage


def test_tokens_are_counted_from_their_ids_where_the_engine_does_not_count() -> None:
    document = said() | {"prompt_token_ids": [1, 2, 3], "usage": None}
    document["choices"][0]["token_ids"] = [4, 5]

    assert read(document).usage == Usage(3, 2)


@pytest.mark.parametrize(
    ("call", "expected"),
    [
        ({"id": "x", "function": {"name": "f", "arguments": "{"}}, ToolCall("x", "f", "{")),
        ({"function": {"name": "f", "arguments": {"a": 1}}}, ToolCall("call_0", "f", '{"a": 1}')),
        ({"id": 7, "function": {"name": "f", "arguments": None}}, ToolCall("7", "f", "{}")),
        ({"id": "", "function": {"name": None}}, ToolCall("call_0", "", "{}")),
    ],
)
def test_odd_tool_calls_are_taken_as_the_model_wrote_them(call: Any, expected: ToolCall) -> None:
    completion = read(said(None, "stop", tool_calls=[call]))

    assert completion.message.tool_calls == (expected,)
    assert completion.finish_reason == "tool_calls"


def test_a_legacy_function_call_is_a_tool_call() -> None:
    completion = read(said(None, "function_call", function_call={"name": "f", "arguments": "{}"}))

    assert completion.message.tool_calls == (ToolCall("call_0", "f", "{}"),)


def test_a_refusal_is_the_text() -> None:
    assert read(said(None, "stop", refusal="I will not.")).text == "I will not."


def test_streamed_calls_without_an_index_are_kept_apart() -> None:
    fold = ChatFold()
    for call in (
        {"id": "a", "function": {"name": "f", "arguments": "{"}},
        {"function": {"arguments": "}"}},
        {"id": "b", "function": {"name": "g", "arguments": "{}"}},
    ):
        fold.take({"choices": [{"delta": {"tool_calls": [call]}}]})
    fold.take({"choices": [{"delta": {}, "finish_reason": "tool_calls"}]})
    fold.take({"[DONE]": True})

    assert read(fold.finish() or {}).message.tool_calls == (
        ToolCall("a", "f", "{}"),
        ToolCall("b", "g", "{}"),
    )


async def test_both_ways_of_receiving_read_the_same(server: ModelServer, connect: Connect) -> None:
    call = {"id": "a", "name": "move", "arguments": '{"to": "up"}'}
    server.policy = lambda messages, tools: Said("<tool>x</tool>", reasoning="call()", calls=[call])

    whole = await connect(engine="vllm").complete(*ask())
    streamed = await connect(engine="vllm", is_streaming=True).complete(*ask())

    assert streamed.message == whole.message
    assert streamed.finish_reason == whole.finish_reason
    assert streamed.token_ids == whole.token_ids
    assert streamed.usage == whole.usage


async def test_an_error_in_the_middle_of_a_stream_is_tried_again(
    server: ModelServer, connect: Connect
) -> None:
    cut = (
        b'data: {"choices": [{"delta": {"content": "o"}}]}\n\n'
        b'data: {"error": {"message": "out of memory"}}\n\n'
    )
    server.faults.append(Fault(headers={"content-type": "text/event-stream"}, body=cut))

    completion = await connect(is_streaming=True).complete(*ask())

    assert completion.text == "olleh"
    assert len(server.calls) == 2


async def test_a_whole_body_in_answer_to_a_request_to_stream_is_taken(
    server: ModelServer, connect: Connect
) -> None:
    server.faults.append(Fault(body=said("not streamed")))

    assert (await connect(is_streaming=True).complete(*ask())).text == "not streamed"


async def test_settings_of_sampling_and_client_reach_the_server(
    server: ModelServer, connect: Connect
) -> None:
    model = connect(
        body={"cache_salt": "v1", "min_p": 0.1}, headers={"X-Route": "a", "User-Agent": "me"}
    )
    sampling = Sampling(0.7, 0.9, 64, ("\n\n",), 42, {"min_p": 0.2, "top_k": 5})

    await model.complete([Message("user", "hi", name="ada")], (), sampling)

    call = server.calls[0]
    assert call.document == {
        "model": "tiny",
        "messages": [{"role": "user", "content": "hi", "name": "ada"}],
        "temperature": 0.7,
        "top_p": 0.9,
        "max_tokens": 64,
        "stop": ["\n\n"],
        "seed": 42,
        "cache_salt": "v1",
        "min_p": 0.2,
        "top_k": 5,
    }
    assert (call.headers["x-route"], call.headers["user-agent"]) == ("a", "me")


async def test_options_of_one_rollout_do_not_reach_the_others(
    server: ModelServer, connect: Connect
) -> None:
    model = connect(headers={"x-session": "none"})

    await model.with_options(headers={"x-session": "7"}, body={"salt": "s"}).complete(*ask())
    await model.complete(*ask())

    assert [call.headers["x-session"] for call in server.calls] == ["7", "none"]
    assert ["salt" in call.document for call in server.calls] == [True, False]
    assert server.connection_count == 1


async def test_images_and_sounds_are_sent_in_the_engines_form(
    server: ModelServer, connect: Connect
) -> None:
    parts = (
        Part("text", text="look"),
        Part("image", url="data:image/png;base64,AAAA"),
        Part("audio", url="data:audio/mpeg;base64,BBBB"),
    )

    await connect().complete([Message("user", parts)], (), Sampling())

    assert server.calls[0].document["messages"][0]["content"] == [
        {"type": "text", "text": "look"},
        {"type": "image_url", "image_url": {"url": "data:image/png;base64,AAAA"}},
        {"type": "input_audio", "input_audio": {"data": "BBBB", "format": "mp3"}},
    ]


@pytest.mark.parametrize("dialect", ["chat", "anthropic", "responses"])
async def test_a_part_known_by_its_digest_alone_is_refused(connect: Connect, dialect: str) -> None:
    message = Message("user", (Part("image", digest="ab" * 32),))

    with pytest.raises(ModelRequestError, match="data: URL"):
        await connect(dialect).complete([message], (), Sampling())


async def test_reasoning_is_sent_back_only_when_asked(
    server: ModelServer, connect: Connect
) -> None:
    history = [Message("assistant", "42", reasoning="hmm"), Message("user", "why?")]

    await connect().complete(history, (), Sampling())
    await connect(reasoning_field="reasoning_content").complete(history, (), Sampling())

    sent = [call.document["messages"][0] for call in server.calls]
    assert "reasoning_content" not in sent[0]
    assert sent[1]["reasoning_content"] == "hmm"


async def test_odd_characters_go_and_come_unchanged(server: ModelServer, connect: Connect) -> None:
    server.policy = lambda messages, tools: messages[-1]["content"]
    text = 'lone \ud800, NUL \x00, \u2028, "quotes" \\ and 🙂'

    completion = await connect().complete([Message("user", text)], (), Sampling())

    assert completion.text == text


async def test_the_first_model_that_a_server_lists_is_found(server: ModelServer) -> None:
    for base_url in (server.url, f"{server.url}/", f"{server.base_url}/chat/completions"):
        model = await OpenAIModel.discover(base_url, retry=FAST)
        assert model.name == "tiny"
        assert (await model.complete(*ask())).text == "olleh"
        await model.close()


async def test_a_server_that_lists_nothing_is_told_so(server: ModelServer) -> None:
    server.faults.append(Fault(body={"data": []}))

    with pytest.raises(ModelReplyError, match="name one"):
        await OpenAIModel.discover(server.url, retry=NO_RETRIES)


JSON_VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(["content", "tool_calls", "function", "id", "token", "logprob", "x"]),
            inner,
            max_size=3,
        )
    ),
    max_leaves=8,
)


@settings(
    max_examples=60,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
@given(
    message=st.dictionaries(
        st.sampled_from(["content", "tool_calls", "reasoning", "refusal", "function_call"]),
        JSON_VALUES,
    ),
    rest=st.dictionaries(
        st.sampled_from(["finish_reason", "logprobs", "token_ids", "meta_info", "error"]),
        JSON_VALUES,
    ),
    top=st.dictionaries(st.sampled_from(["usage", "prompt_token_ids", "model"]), JSON_VALUES),
)
async def test_whatever_comes_is_a_completion_or_a_model_error(
    server: ModelServer, connect: Connect, message: Any, rest: Any, top: Any
) -> None:
    document = {"choices": [{"message": message, **rest}], **top}
    server.faults.append(Fault(body=json.dumps(document)))

    try:
        completion = await connect(retry=NO_RETRIES).complete(*ask())
    except ModelError:
        return
    assert isinstance(completion.text, str)
    assert json.loads(json.dumps(completion.raw)) is not None
