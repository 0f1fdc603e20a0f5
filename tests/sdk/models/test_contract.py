"""What every client keeps, whatever its dialect, streaming or not."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from strop.errors import (
    ContextOverflowError,
    ModelAuthError,
    ModelError,
    ModelRequestError,
    ModelUnavailableError,
)
from strop.models.endpoint import CALL_HEADER, TRY_HEADER
from strop.models.http import Limits
from strop.models.outcome import outcome_of
from strop.types import Message, Model, Sampling, ToolSpec
from tests.model_server import Fault, ModelServer, Said
from tests.sdk.models.conftest import DIALECTS, Connect, ask, until

EVERY = [(dialect, streams) for dialect in DIALECTS for streams in (False, True)]
TALKING = [(dialect, streams) for dialect, streams in EVERY if dialect != "completions"]

every_client = pytest.mark.parametrize(("dialect", "streams"), EVERY)
every_talking_client = pytest.mark.parametrize(("dialect", "streams"), TALKING)

MOVE = ToolSpec("move", "Move one square.", {"type": "object", "properties": {}})


@every_client
async def test_an_answer_comes_with_its_text_usage_and_finish_reason(
    connect: Connect, dialect: str, streams: bool
) -> None:
    model = connect(dialect, is_streaming=streams)

    completion = await model.complete(*ask("hello \u2028 wörld"))

    assert isinstance(model, Model)
    assert completion.text == "dlröw \u2028 olleh"
    assert completion.finish_reason == "stop"
    assert completion.model == "tiny"
    assert completion.latency_s > 0
    assert completion.usage is not None
    assert completion.usage.prompt_tokens > completion.usage.cached_tokens >= 0
    assert completion.usage.completion_tokens > len("dlröw \u2028 olleh")


@every_talking_client
async def test_parallel_tool_calls_keep_ids_names_and_arguments(
    server: ModelServer, connect: Connect, dialect: str, streams: bool
) -> None:
    server.policy = lambda messages, tools: Said(
        "Going.",
        calls=[
            {"id": "a", "name": tools[0].get("name", "move"), "arguments": '{"to": "up"}'},
            {"id": "b", "name": "look", "arguments": "{}"},
        ],
    )
    model = connect(dialect, is_streaming=streams)

    completion = await model.complete([Message("user", "go")], [MOVE], Sampling())

    assert [(call.id, call.name) for call in completion.message.tool_calls] == [
        ("a", "move"),
        ("b", "look"),
    ]
    assert [call.arguments for call in completion.message.tool_calls] == ['{"to": "up"}', "{}"]
    assert completion.text == "Going."
    assert completion.finish_reason == "tool_calls"
    assert outcome_of(completion) == "tool_calls"


@every_talking_client
async def test_the_answer_to_a_tool_call_is_sent_back(
    server: ModelServer, connect: Connect, dialect: str, streams: bool
) -> None:
    server.policy = lambda messages, tools: Said(
        calls=[{"id": "a", "name": "move", "arguments": '{"to": "up"}'}]
    )
    model = connect(dialect, is_streaming=streams)
    first = await model.complete([Message("user", "go")], [MOVE], Sampling())
    server.policy = lambda messages, tools: f"saw {messages[-1]['content']}"

    second = await model.complete(
        [
            Message("user", "go"),
            first.message,
            Message("tool", "a wall", tool_call_id="a", name="move"),
        ],
        [MOVE],
        Sampling(),
    )

    assert "a wall" in second.text


@every_talking_client
async def test_reasoning_stays_apart_from_the_answer(
    server: ModelServer, connect: Connect, dialect: str, streams: bool
) -> None:
    server.policy = lambda messages, tools: Said("42", reasoning="six times seven")
    model = connect(dialect, is_streaming=streams)

    completion = await model.complete(*ask())

    assert completion.text == "42"
    assert completion.message.reasoning == "six times seven"


@every_talking_client
async def test_reasoning_without_an_answer_is_named(
    server: ModelServer, connect: Connect, dialect: str, streams: bool
) -> None:
    server.policy = lambda messages, tools: Said(None, reasoning="hmm")
    model = connect(dialect, is_streaming=streams)

    completion = await model.complete(*ask())

    assert outcome_of(completion) == "reasoning_only"


@every_client
async def test_a_completion_cut_by_the_token_limit_is_truncated(
    connect: Connect, dialect: str, streams: bool
) -> None:
    model = connect(dialect, is_streaming=streams)
    messages, tools, _ = ask("hello")

    completion = await model.complete(messages, tools, Sampling(max_tokens=3))

    assert len(completion.text) == 3
    assert completion.finish_reason == "length"
    assert outcome_of(completion) == "truncated"


@every_client
async def test_a_model_that_ends_at_once_is_empty_and_not_a_fault(
    server: ModelServer, connect: Connect, dialect: str, streams: bool
) -> None:
    server.policy = lambda messages, tools: ""
    model = connect(dialect, is_streaming=streams)

    completion = await model.complete(*ask())

    assert completion.text == ""
    assert outcome_of(completion) == "empty"


def drop_everything_sampled(document: dict[str, Any]) -> dict[str, Any]:
    """The reply of an endpoint that says nothing and counts nothing."""
    nothing: dict[str, Any] = {"usage": None, "content": [], "output": []}
    for choice in document.get("choices", ()):
        for name in ("token_ids", "logprobs"):
            choice.pop(name, None)
        if "message" in choice:
            choice["message"]["content"] = None
        else:
            choice["text"] = ""
    return {**document, **{name: value for name, value in nothing.items() if name in document}}


@every_client
async def test_a_reply_of_nothing_is_tried_again(
    server: ModelServer, connect: Connect, dialect: str, streams: bool
) -> None:
    server.faults.append(Fault(edit=drop_everything_sampled))
    model = connect(dialect, is_streaming=streams)

    completion = await model.complete(*ask())

    assert completion.text
    assert len(server.calls) == 2


FLEETING = {
    "429": Fault(status=429, headers={"retry-after": "0"}, body={"error": {"message": "slow"}}),
    "500": Fault(status=500, body="oops"),
    "529": Fault(status=529, body={"error": {"type": "overloaded_error", "message": "busy"}}),
    "reset": Fault(is_reset=True),
    "closed": Fault(is_closed=True),
    "web page": Fault(headers={"content-type": "text/html"}, body="<html>Log in</html>"),
    "half JSON": Fault(body='{"choices": [{"mess'),
    "cut body": Fault(body='{"choices": [{"mess', cut_at=0.5),
    "no object": Fault(body="[1, 2]"),
    "other shapes": Fault(body={"choices": [{"message": 3}], "content": 4, "output": "x"}),
    "error with 200": Fault(body={"error": {"code": 502, "message": "upstream"}}),
}


@every_client
@pytest.mark.parametrize("fault", FLEETING.values(), ids=FLEETING.keys())
async def test_a_fleeting_fault_is_tried_again_and_counted_once(
    server: ModelServer, connect: Connect, dialect: str, streams: bool, fault: Fault
) -> None:
    server.faults.append(fault)
    model = connect(dialect, is_streaming=streams)

    completion = await model.complete(*ask())

    assert len(server.sampled) == 1
    assert completion.usage is not None
    assert completion.usage.completion_tokens == len(server.sampled[0].ids)
    keys = {call.headers[CALL_HEADER] for call in server.calls}
    assert len(keys) == 1
    assert [call.headers[TRY_HEADER] for call in server.calls] == ["0", "1"]


@pytest.mark.parametrize("dialect", DIALECTS)
@pytest.mark.parametrize("is_cleanly_ended", [False, True])
async def test_a_stream_cut_after_any_event_is_tried_again_and_never_a_completion(
    server: ModelServer, connect: Connect, dialect: str, is_cleanly_ended: bool
) -> None:
    model = connect(dialect, is_streaming=True)
    whole = await model.complete(*ask())
    event_count = {"chat": 7, "completions": 7, "anthropic": 7, "responses": 3}[dialect]
    for kept in range(event_count - 1):
        server.faults.append(Fault(event_count=kept, is_cleanly_ended=is_cleanly_ended))
        server.calls.clear()

        completion = await model.complete(*ask())

        assert completion.text == whole.text
        assert len(server.calls) == 2


@every_client
@pytest.mark.parametrize(
    ("status", "kind"),
    [
        (400, ModelRequestError),
        (401, ModelAuthError),
        (403, ModelAuthError),
        (404, ModelRequestError),
        (422, ModelRequestError),
        (307, ModelRequestError),
    ],
)
async def test_a_refusal_is_not_tried_again(
    server: ModelServer,
    connect: Connect,
    dialect: str,
    streams: bool,
    status: int,
    kind: type[ModelError],
) -> None:
    server.faults.append(Fault(status=status, body={"error": {"message": "no, because"}}))
    model = connect(dialect, is_streaming=streams)

    with pytest.raises(kind) as caught:
        await model.complete(*ask())

    assert str(status) in str(caught.value)
    assert len(server.calls) == 1


@every_client
async def test_a_prompt_that_does_not_fit_is_an_overflow(
    server: ModelServer, connect: Connect, dialect: str, streams: bool
) -> None:
    server.context_tokens = 10
    model = connect(dialect, is_streaming=streams)

    with pytest.raises(ContextOverflowError):
        await model.complete(*ask())


@every_client
async def test_faults_that_stay_are_reported_with_the_number_of_tries(
    server: ModelServer, connect: Connect, dialect: str, streams: bool
) -> None:
    server.faults.extend([Fault(status=503)] * 3)
    model = connect(dialect, is_streaming=streams)

    with pytest.raises(ModelUnavailableError) as caught:
        await model.complete(*ask())

    assert caught.value.__notes__ == ["given up after 3 tries"]


@every_client
async def test_the_same_request_again_is_sampled_afresh(
    server: ModelServer, connect: Connect, dialect: str, streams: bool
) -> None:
    model = connect(dialect, is_streaming=streams)

    await model.complete(*ask())
    await model.complete(*ask())

    assert len(server.sampled) == 2
    assert len({call.headers[CALL_HEADER] for call in server.calls}) == 2


@every_client
async def test_a_cancelled_call_leaves_no_connection(
    server: ModelServer, connect: Connect, dialect: str, streams: bool
) -> None:
    server.faults.append(Fault(delay_s=30))
    model = connect(dialect, is_streaming=streams)
    call = asyncio.create_task(model.complete(*ask()))
    await until(lambda: bool(server.calls))

    call.cancel()
    with pytest.raises(asyncio.CancelledError):
        await call

    await until(lambda: not server.peers)


@every_client
async def test_a_silent_server_is_given_up(
    server: ModelServer, connect: Connect, dialect: str, streams: bool
) -> None:
    server.faults.append(Fault(delay_s=30))
    model = connect(dialect, is_streaming=streams, limits=Limits(read_s=0.5))

    assert (await model.complete(*ask())).text
    assert len(server.calls) >= 2


@every_client
async def test_the_key_is_sent_and_never_shown(
    server: ModelServer, connect: Connect, dialect: str, streams: bool
) -> None:
    server.faults.append(Fault(status=401, body={"error": "who are you?"}))
    model = connect(dialect, is_streaming=streams, api_key="sk-secret")

    with pytest.raises(ModelAuthError) as caught:
        await model.complete(*ask())

    assert "sk-secret" in str(server.calls[0].headers)
    assert "sk-secret" not in str(caught.value)


@every_client
async def test_the_calls_of_an_attempt_share_a_header_that_no_other_attempt_has(
    server: ModelServer, connect: Connect, dialect: str, streams: bool
) -> None:
    server.faults.append(Fault(status=503))
    model = connect(dialect, is_streaming=streams, affinity_header="X-Session")
    messages, tools, _ = ask()

    for seed in (2**64 - 1, 2**64 - 1, 7, None):
        await model.complete(messages, tools, Sampling(seed=seed))

    sent = [call.headers.get("x-session") for call in server.calls]
    assert sent == ["f" * 16] * 3 + [f"{7:016x}", None]


@every_client
async def test_a_closed_model_refuses_further_calls(
    connect: Connect, dialect: str, streams: bool
) -> None:
    model = connect(dialect, is_streaming=streams)
    await model.complete(*ask())

    await model.close()

    with pytest.raises(Exception, match="closed"):
        await model.complete(*ask())
