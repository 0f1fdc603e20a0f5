"""Every API of a real engine through its client, whole and streamed."""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

import pytest

from strop import (
    Environment,
    Message,
    Model,
    OpenAIModel,
    Sampling,
    ScriptedModel,
    Task,
    Trajectory,
    reward,
)
from strop.errors import ContextOverflowError
from strop.models.anthropic import AnthropicModel
from strop.models.completions import CompletionsModel
from strop.models.local import LocalServer
from strop.models.outcome import outcome_of
from strop.models.renderer import TemplateRenderer
from strop.models.responses import ResponsesModel
from strop.models.retry import NO_RETRIES
from strop.rewards import judge
from tests.sdk.models.http.peers import Reader, Writer, listening
from tests.sdk.models.local.recording import Recording
from tests.sdk.models.local.test_calls import MOVE, PROMPT, calls_of

pytestmark = pytest.mark.xdist_group("local-model")

APIS = ("chat", "completions", "messages", "responses")

every_api = pytest.mark.parametrize("api", APIS)
every_way = pytest.mark.parametrize(
    "streams",
    [pytest.param(False, id="whole", marks=pytest.mark.slow), pytest.param(True, id="streamed")],
)

TALK = [
    Message("system", "Be brief."),
    Message("user", "Say one word."),
    Message("assistant", "Hello, and welcome to all of you."),
    Message("user", "Say two words."),
]

Connect = Callable[..., Any]
"""``connect(api, base_url, **options)``: a client, closed after the test."""


@pytest.fixture(scope="module")
def renderer(weights: Path) -> TemplateRenderer:
    return TemplateRenderer.read(weights)


@pytest.fixture
async def connect(renderer: TemplateRenderer) -> AsyncIterator[Connect]:
    async with AsyncExitStack() as stack:

        def make(api: str, base_url: str, **options: Any) -> Model:
            options = {"retry": NO_RETRIES, **options}
            model: Model
            if api == "completions":
                model = CompletionsModel("smollm2", base_url, renderer, **options)
            else:
                kinds: dict[str, Any] = {
                    "chat": OpenAIModel,
                    "messages": AnthropicModel,
                    "responses": ResponsesModel,
                }
                model = kinds[api]("smollm2", base_url, **options)
            stack.push_async_callback(model.close)
            return model

        yield make


@every_api
@every_way
async def test_an_answer_is_cut_and_counted_and_its_conversation_is_read_whole(
    engine: LocalServer, connect: Connect, renderer: TemplateRenderer, api: str, streams: bool
) -> None:
    model = connect(api, engine.base_url, is_streaming=streams)

    completion = await model.complete(TALK, (), Sampling(temperature=0, max_tokens=3))

    assert outcome_of(completion) == "truncated"
    assert completion.text
    assert completion.model == "smollm2"
    assert completion.usage is not None
    assert completion.usage.completion_tokens == 3
    # Every id of every message, as the template writes them.
    assert completion.usage.prompt_tokens == len(renderer.render(TALK, ()))


@every_way
@pytest.mark.parametrize("api", ["chat", "messages", "responses"])
async def test_the_engine_finds_the_same_conversation_in_its_cache_whatever_the_api(
    calling: LocalServer, connect: Connect, api: str, streams: bool
) -> None:
    """Calls and answers, too: what it knows of the one prompt is what it finds of the other."""
    first = connect("chat", calling.base_url)
    sampling = Sampling(temperature=0, max_tokens=1)
    await first.complete(PROMPT, [MOVE], sampling)

    again = await connect(api, calling.base_url, is_streaming=streams).complete(
        PROMPT, [MOVE], sampling
    )

    assert again.usage is not None
    # The last one of a prompt is always read anew.
    assert again.usage.cached_tokens == again.usage.prompt_tokens - 1


@every_way
@pytest.mark.parametrize("api", ["chat", "messages", "responses"])
async def test_a_call_of_a_tool_is_read(
    calling: LocalServer, connect: Connect, api: str, streams: bool
) -> None:
    model = connect(api, calling.base_url, is_streaming=streams)

    completion = await model.complete(PROMPT, [MOVE], Sampling(temperature=0, max_tokens=48))

    assert outcome_of(completion) == "tool_calls"
    ((name, arguments),) = calls_of(completion.message)
    assert name == "move"
    assert arguments.keys() == {"direction", "count"}
    (call,) = completion.message.tool_calls
    assert call.id


@every_way
async def test_ids_in_give_ids_out_that_are_those_which_the_engine_told(
    recording: Recording, connect: Connect, renderer: TemplateRenderer, streams: bool
) -> None:
    model = connect("completions", recording.base_url, is_streaming=streams)

    completion = await model.complete(TALK, (), Sampling(temperature=0, max_tokens=4))

    (exchange,) = recording.exchanges
    chunks = exchange.events if streams else [exchange.reply]
    told = [
        entry
        for chunk in chunks
        for choice in chunk["choices"]
        for entry in (choice.get("logprobs") or {}).get("content") or ()
    ]
    assert [entry["id"] for entry in told] == list(completion.token_ids)
    assert completion.logprobs.tolist() == pytest.approx([entry["logprob"] for entry in told])
    assert exchange.request["prompt"] == renderer.render(TALK, ())
    assert list(completion.prompt_token_ids) == exchange.request["prompt"]


@every_way
async def test_chat_tells_logprobs_and_in_a_stream_all_but_that_of_the_end(
    engine: LocalServer, connect: Connect, streams: bool
) -> None:
    model = connect("chat", engine.base_url, is_streaming=streams, logprobs=True)
    word: dict[str, Any] = {"grammar": 'root ::= "yes"'}

    cut = await model.complete(TALK, (), Sampling(temperature=0, max_tokens=2))
    whole = await model.complete(TALK, (), Sampling(temperature=0, max_tokens=9, extra=word))

    assert len(cut.token_ids) == len(cut.logprobs) == 2
    assert (whole.text, whole.finish_reason) == ("yes", "stop")
    if streams:
        # The engine leaves the last one out: then there are none, rather than too few.
        assert (whole.token_ids, whole.logprobs) == (None, None)
    else:
        assert len(whole.token_ids) == len(whole.logprobs) == whole.usage.completion_tokens


LONG = "word " * 2100
"""More than the engine's 2,048 tokens."""


@every_api
@every_way
async def test_a_prompt_longer_than_the_context_is_an_overflow(
    engine: LocalServer, connect: Connect, api: str, streams: bool
) -> None:
    model = connect(api, engine.base_url, is_streaming=streams)

    with pytest.raises(ContextOverflowError, match="2048"):
        await model.complete([Message("user", LONG)], (), Sampling(max_tokens=2))


@reward(range=(0, 1), inline=True)
def spoke(trajectory: Trajectory) -> float:
    return float(bool(trajectory.text))


@every_api
async def test_a_rollout_of_too_long_a_prompt_is_truncated_and_no_failure(
    engine: LocalServer, connect: Connect, api: str
) -> None:
    environment = Environment(tasks=[Task("1", LONG)], rewards=[spoke])

    trajectory = await environment.rollout(
        environment.tasks["train"][0], connect(api, engine.base_url)
    )

    assert trajectory.failure is None
    assert trajectory.is_truncated
    assert trajectory.stop_reason == "context_overflow"


class Watched:
    """Passes bytes between client and engine, and sees whether an answer came to its end."""

    def __init__(self, base_url: str) -> None:
        self._port = int(base_url.removesuffix("/v1").rpartition(":")[2])
        self.answered = b""

    async def talk(self, reader: Reader, writer: Writer) -> None:
        inner_reader, inner_writer = await asyncio.open_connection("127.0.0.1", self._port)
        there = asyncio.ensure_future(self._pass(reader, inner_writer))
        back = asyncio.ensure_future(self._pass(inner_reader, writer, is_answer=True))
        try:
            await asyncio.wait([there, back], return_when=asyncio.FIRST_COMPLETED)
        finally:
            there.cancel()
            back.cancel()
            await asyncio.gather(there, back, return_exceptions=True)
            inner_writer.close()

    async def _pass(self, reader: Reader, writer: Writer, *, is_answer: bool = False) -> None:
        while piece := await reader.read(65536):
            if is_answer:
                self.answered += piece
            writer.write(piece)
            await writer.drain()


def cpu_s_of(server: LocalServer) -> float:
    """Processor time that the engine has used, in seconds."""
    fields = Path(f"/proc/{server._process.pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


@every_way
async def test_a_call_that_is_cancelled_half_way_is_given_up_by_the_engine(
    calling: LocalServer, connect: Connect, streams: bool
) -> None:
    watched = Watched(calling.base_url)
    async with listening(watched.talk) as port:
        model = connect("chat", f"http://127.0.0.1:{port}/v1", is_streaming=streams)
        begun_s = cpu_s_of(calling)
        until_the_context_is_full = Sampling(extra={"ignore_eos": True})
        call = asyncio.create_task(
            model.complete([Message("user", "Go on.")], (), until_the_context_is_full)
        )
        while cpu_s_of(calling) < begun_s + 0.3:  # noqa: ASYNC110 - it signals nobody
            await asyncio.sleep(0.05)
        call.cancel()
        with pytest.raises(asyncio.CancelledError):
            await call
        used_s = -1.0
        while used_s < (now_s := cpu_s_of(calling)):
            used_s = now_s
            await asyncio.sleep(1)
    last = await connect("chat", calling.base_url).complete(TALK, (), Sampling(max_tokens=1))

    # It stopped, and not because it was done.
    assert b'"finish_reason":"length"' not in watched.answered
    assert last.usage is not None
    assert last.usage.completion_tokens == 1


VERDICTS = {"yes": 1.0, "no": 0.0}


async def judged(model: Model, max_tokens: int) -> Trajectory:
    verdict = judge(
        model,
        "Is it polite?",
        VERDICTS,
        prompt="{question} {answer}\nVERDICT: <{verdicts}>",
        sampling=Sampling(temperature=0, max_tokens=max_tokens),
    )
    environment = Environment(tasks=[Task("1", "Say hello.")], rewards=[verdict])
    task = environment.tasks["train"][0]
    return await environment.rollout(task, ScriptedModel.constant("Good day!"))


async def test_a_judge_on_a_real_engine_gives_a_typed_verdict(
    engine: LocalServer, connect: Connect
) -> None:
    form = {"grammar": 'root ::= "VERDICT: " ("yes" | "no")'}
    trajectory = await judged(connect("chat", engine.base_url, body=form), max_tokens=16)

    assert trajectory.failure is None
    (reply,) = trajectory.replies
    assert reply.reply in ("VERDICT: yes", "VERDICT: no")
    assert trajectory.reward == VERDICTS[str(reply.reply).removeprefix("VERDICT: ")]
    assert trajectory.outside_usage.completion_tokens > 0
    assert trajectory.usage.completion_tokens == 0


@pytest.mark.parametrize("api", ["chat", "messages", "responses"])
async def test_a_judge_whose_reply_is_cut_before_a_verdict_is_a_typed_failure(
    engine: LocalServer, connect: Connect, api: str
) -> None:
    trajectory = await judged(connect(api, engine.base_url), max_tokens=2)

    assert trajectory.reward is None
    assert trajectory.failure is not None
    assert trajectory.failure.type == "RewardError"
    assert "gave no verdict of yes, no" in trajectory.failure.message
    (reply,) = trajectory.replies
    assert reply.usage is not None
    assert reply.usage.completion_tokens == 2
