"""What OpenAI's Responses want, and what they tell."""

from __future__ import annotations

from typing import Any

import pytest

from strop.errors import ModelReplyError, ModelRequestError, ModelUnavailableError
from strop.models.endpoint import Reply
from strop.models.outcome import outcome_of
from strop.models.responses import read_reply
from strop.models.retry import NO_RETRIES
from strop.types import Message, Part, Sampling, ToolCall, ToolSpec, Usage
from tests.model_server import Fault, ModelServer
from tests.sdk.models.conftest import Connect, ask

TEXT = {"type": "message", "content": [{"type": "output_text", "text": "hi"}]}


def read(**document: Any) -> Any:
    whole = {"output": [TEXT], "status": "completed", **document}
    return read_reply(Reply(whole, 0.1, "POST http://model.test/v1/responses"))


async def test_a_conversation_is_sent_as_items(server: ModelServer, connect: Connect) -> None:
    history = [
        Message("system", "Be brief."),
        Message("user", (Part("text", text="look"), Part("image", url="https://there.test/a"))),
        Message("assistant", "Going.", tool_calls=(ToolCall("a", "move", "{}"),)),
        Message("tool", "a wall", tool_call_id="a"),
    ]
    tool = ToolSpec("move", "Move.", {"type": "object"})

    await connect("responses").complete(history, [tool], Sampling(0.5, 0.9, 100, seed=7))

    assert server.calls[0].document == {
        "model": "tiny",
        "store": False,
        "input": [
            {"role": "system", "content": "Be brief."},
            {
                "role": "user",
                "content": [
                    {"type": "input_text", "text": "look"},
                    {"type": "input_image", "image_url": "https://there.test/a"},
                ],
            },
            {
                "type": "message",
                "role": "assistant",
                "content": [{"type": "output_text", "text": "Going."}],
            },
            {"type": "function_call", "call_id": "a", "name": "move", "arguments": "{}"},
            {"type": "function_call_output", "call_id": "a", "output": "a wall"},
        ],
        "tools": [
            {
                "type": "function",
                "name": "move",
                "description": "Move.",
                "parameters": {"type": "object"},
                "strict": False,
            }
        ],
        "temperature": 0.5,
        "top_p": 0.9,
        "max_output_tokens": 100,
    }


async def test_stop_sequences_are_refused_and_not_forgotten(connect: Connect) -> None:
    messages, tools, _ = ask()

    with pytest.raises(ModelRequestError, match="stop"):
        await connect("responses").complete(messages, tools, Sampling(stop=("END",)))


async def test_sound_is_refused(connect: Connect) -> None:
    sound = Message("user", (Part("audio", url="data:audio/wav;base64,AAAA"),))

    with pytest.raises(ModelRequestError, match="audio"):
        await connect("responses").complete([sound], (), Sampling())


@pytest.mark.parametrize(
    ("document", "outcome"),
    [
        ({}, "answer"),
        ({"incomplete_details": {"reason": "max_output_tokens"}}, "truncated"),
        ({"incomplete_details": {"reason": "content_filter"}}, "filtered"),
        ({"status": "brand new"}, "answer"),
        ({"output": [TEXT, {"type": "function_call", "call_id": "a", "name": "f"}]}, "tool_calls"),
        ({"output": [{"type": "reasoning", "summary": [{"text": "hmm"}]}]}, "reasoning_only"),
        ({"output": [], "usage": {"output_tokens": 1}}, "empty"),
    ],
)  # fmt: skip
def test_every_status_has_an_outcome(document: dict[str, Any], outcome: str) -> None:
    completion = read(**document)

    assert outcome_of(completion) == outcome
    is_unknown = document.get("status") == "brand new"
    assert completion.raw.get("status") == ("brand new" if is_unknown else None)


@pytest.mark.parametrize(
    ("told", "count", "limit", "outcome"),
    [
        ({}, 8, 8, "truncated"),
        ({}, 7, 8, "answer"),
        ({}, 8, None, "answer"),
        ({"incomplete_details": None}, 8, 8, "answer"),
    ],
)
def test_a_server_that_tells_of_no_cut_is_held_to_its_count(
    told: dict[str, Any], count: int, limit: int | None, outcome: str
) -> None:
    usage = {"input_tokens": 3, "output_tokens": count}
    document = {"output": [TEXT], "status": "completed", "usage": usage, **told}

    completion = read_reply(Reply(document, 0.1, "POST http://model.test/v1/responses"), limit)

    assert outcome_of(completion) == outcome


def test_reasoning_and_refusals_are_read() -> None:
    refusal = {"type": "message", "content": [{"type": "refusal", "refusal": "I will not."}]}
    thought = {"type": "reasoning", "content": [{"text": "hmm"}], "summary": [{"text": "short"}]}

    completion = read(output=[thought, refusal], usage={"input_tokens": 3, "output_tokens": 4})

    assert completion.text == "I will not."
    assert completion.message.reasoning == "hmm\n\nshort"
    assert completion.usage == Usage(3, 4)


@pytest.mark.parametrize("output", [None, "text", [], [{"type": "unknown"}]])
def test_a_reply_without_anything_is_no_completion(output: Any) -> None:
    with pytest.raises(ModelReplyError):
        read(output=output)


@pytest.mark.parametrize(
    "event",
    [
        b'{"type": "error", "code": "server_error", "message": "broke"}',
        b'{"type": "response.failed", "response": {"error": {"message": "broke"}}}',
    ],
)
async def test_a_stream_that_fails_is_an_error(
    server: ModelServer, connect: Connect, event: bytes
) -> None:
    stream = b"data: " + event + b"\n\n"
    server.faults.append(Fault(headers={"content-type": "text/event-stream"}, body=stream))

    with pytest.raises(ModelUnavailableError, match="broke"):
        await connect("responses", is_streaming=True, retry=NO_RETRIES).complete(*ask())
