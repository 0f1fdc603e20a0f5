"""What Anthropic's Messages want, and what they tell."""

from __future__ import annotations

from typing import Any

import pytest

from strop.errors import ModelReplyError, ModelRequestError, ModelUnavailableError
from strop.models.anthropic import MessagesFold, read_reply
from strop.models.endpoint import Reply
from strop.models.outcome import outcome_of
from strop.models.retry import NO_RETRIES
from strop.types import Message, Part, Sampling, ToolCall, ToolSpec, Usage
from tests.model_server import Fault, ModelServer
from tests.sdk.models.conftest import Connect, ask


def read(**document: Any) -> Any:
    whole = {"content": [{"type": "text", "text": "hi"}], "stop_reason": "end_turn", **document}
    return read_reply(Reply(whole, 0.1, "POST http://model.test/v1/messages"))


async def test_a_conversation_is_sent_in_turns(server: ModelServer, connect: Connect) -> None:
    calls = (ToolCall("a", "look", "{}"), ToolCall("b", "move", '{"to": "up"}'))
    history = [
        Message("system", "Be brief."),
        Message("system", "Be kind."),
        Message("user", "go"),
        Message("assistant", "", tool_calls=calls),
        Message("tool", "a wall", tool_call_id="a"),
        Message("tool", "moved", tool_call_id="b"),
        Message("user", "and?"),
    ]
    tool = ToolSpec("move", "Move.", {"type": "object"})
    sampling = Sampling(0.5, 0.9, 100, ("END",), 7, {"top_k": 5})

    await connect("anthropic", api_key="k").complete(history, [tool], sampling)

    def result(call_id: str, text: str) -> dict[str, Any]:
        content = [{"type": "text", "text": text}]
        return {"type": "tool_result", "tool_use_id": call_id, "content": content}

    assert server.calls[0].document == {
        "model": "tiny",
        "max_tokens": 100,
        "system": "Be brief.\n\nBe kind.",
        "messages": [
            {"role": "user", "content": [{"type": "text", "text": "go"}]},
            {
                "role": "assistant",
                "content": [
                    {"type": "tool_use", "id": "a", "name": "look", "input": {}},
                    {"type": "tool_use", "id": "b", "name": "move", "input": {"to": "up"}},
                ],
            },
            {"role": "user", "content": [result("a", "a wall"), result("b", "moved")]},
            {"role": "user", "content": [{"type": "text", "text": "and?"}]},
        ],
        "tools": [{"name": "move", "description": "Move.", "input_schema": {"type": "object"}}],
        "temperature": 0.5,
        "top_p": 0.9,
        "stop_sequences": ["END"],
        "top_k": 5,
    }
    headers = server.calls[0].headers
    assert (headers["x-api-key"], headers["anthropic-version"]) == ("k", "2023-06-01")


async def test_malformed_arguments_are_sent_back_as_their_text(
    server: ModelServer, connect: Connect
) -> None:
    message = Message("assistant", "", tool_calls=(ToolCall("a", "f", "{nonsense"),))

    await connect("anthropic").complete([Message("user", "x"), message], (), Sampling())

    block = server.calls[0].document["messages"][1]["content"][0]
    assert block["input"] == {"malformed": "{nonsense"}


@pytest.mark.parametrize(
    ("url", "source"),
    [
        ("https://there.test/a.png", {"type": "url", "url": "https://there.test/a.png"}),
        (
            "data:image/png;base64,AAAA",
            {"type": "base64", "media_type": "image/png", "data": "AAAA"},
        ),
    ],
)
async def test_images_are_sent(
    server: ModelServer, connect: Connect, url: str, source: dict[str, str]
) -> None:
    parts = (Part("text", text="look"), Part("image", url=url))

    await connect("anthropic").complete([Message("user", parts)], (), Sampling())

    assert server.calls[0].document["messages"][0]["content"] == [
        {"type": "text", "text": "look"},
        {"type": "image", "source": source},
    ]


async def test_sound_is_refused(connect: Connect) -> None:
    sound = Message("user", (Part("audio", url="data:audio/wav;base64,AAAA"),))

    with pytest.raises(ModelRequestError, match="audio"):
        await connect("anthropic").complete([sound], (), Sampling())


@pytest.mark.parametrize(
    ("counts", "usage"),
    [
        (None, None),
        ({"input_tokens": 5, "output_tokens": 2}, Usage(5, 2)),
        ({"input_tokens": 5, "cache_read_input_tokens": 7, "output_tokens": 2}, Usage(12, 2, 7)),
        ({"input_tokens": 5, "cache_creation_input_tokens": 3, "output_tokens": 2}, Usage(8, 2)),
        ({"input_tokens": -1, "cache_read_input_tokens": None}, Usage()),
    ],
)
def test_the_cache_belongs_to_the_prompt(counts: Any, usage: Usage | None) -> None:
    assert read(usage=counts).usage == usage


@pytest.mark.parametrize(
    ("reason", "outcome"),
    [
        ("end_turn", "answer"),
        ("stop_sequence", "answer"),
        ("max_tokens", "truncated"),
        ("model_context_window_exceeded", "truncated"),
        ("refusal", "filtered"),
        ("pause_turn", "answer"),
    ],
)
def test_every_stop_reason_has_an_outcome(reason: str, outcome: str) -> None:
    completion = read(stop_reason=reason, service_tier="standard")

    assert outcome_of(completion) == outcome
    assert completion.raw["service_tier"] == "standard"
    assert completion.raw.get("stop_reason") == ("pause_turn" if reason == "pause_turn" else None)


@pytest.mark.parametrize("content", [None, "text", [], [{"type": "unknown"}]])
def test_a_reply_without_anything_is_no_completion(content: Any) -> None:
    with pytest.raises(ModelReplyError):
        read(content=content)


async def test_an_overloaded_stream_is_worth_another_try(
    server: ModelServer, connect: Connect
) -> None:
    problem = b'event: error\ndata: {"type": "error", "error": {"type": "overloaded_error"}}\n\n'
    server.faults.append(Fault(headers={"content-type": "text/event-stream"}, body=problem))

    with pytest.raises(ModelUnavailableError, match="overloaded_error"):
        await connect("anthropic", is_streaming=True, retry=NO_RETRIES).complete(*ask())


def test_events_of_an_unknown_kind_are_passed_over() -> None:
    fold = MessagesFold()
    fold.take({"type": "message_start", "message": {"model": "m", "usage": {"input_tokens": 1}}})
    fold.take({"type": "brand_new"})
    fold.take({"type": "message_delta", "delta": {"stop_reason": "end_turn"}, "usage": {"a": 1}})
    assert fold.finish() is None

    fold.take({"type": "message_stop"})

    assert fold.finish() == {
        "model": "m",
        "usage": {"input_tokens": 1, "a": 1},
        "stop_reason": "end_turn",
        "content": [],
    }
