"""Token ids and log probabilities are those that the engine saw, or none."""

from __future__ import annotations

from array import array
from typing import Any

import pytest

from strop.errors import (
    ConfigError,
    ModelReplyError,
)
from strop.models.openai import OpenAIModel
from strop.models.retry import NO_RETRIES
from strop.types import Sampling
from tests.model_server import Fault, ModelServer
from tests.model_server.tokens import logprob
from tests.sdk.models.chat_documents import read, said, with_logprobs
from tests.sdk.models.conftest import Connect, ask


@pytest.mark.parametrize(
    ("engine", "streams"),
    [
        ("vllm", False),
        ("vllm", True),
        ("sglang", False),
        ("llama.cpp", False),
    ],
)
async def test_token_ids_and_logprobs_are_exactly_those_that_the_engine_saw(
    server: ModelServer, connect: Connect, engine: str, streams: bool
) -> None:
    model = connect(engine=engine, is_streaming=streams)

    completion = await model.complete(*ask("ünïcode"))

    seen = server.sampled[0]
    assert completion.token_ids == array("i", seen.ids)
    assert completion.logprobs == array("f", map(logprob, seen.ids))
    assert completion.prompt_token_ids == array("i", seen.prompt_ids)


async def test_sglang_names_the_version_of_its_weights(connect: Connect) -> None:
    completion = await connect(engine="sglang").complete(*ask())

    assert completion.policy_version == 7


@pytest.mark.parametrize("engine", ["sglang", "llama.cpp"])
def test_inexact_token_ids_of_a_stream_are_refused_before_the_first_call(engine: Any) -> None:
    with pytest.raises(ConfigError, match="is_streaming=False"):
        OpenAIModel("m", "http://model.test", engine=engine, is_streaming=True)


async def test_ids_that_miss_a_token_that_was_counted_are_left_out(connect: Connect) -> None:
    model = connect(body={"logprobs": True, "return_tokens": True}, is_streaming=True)

    completion = await model.complete(*ask())

    assert completion.text == "olleh"
    assert completion.token_ids is None
    assert completion.logprobs is None


async def test_prompt_ids_of_another_number_than_was_counted_are_left_out(
    server: ModelServer, connect: Connect
) -> None:
    short = Fault(body={"tokens": [1, 2, 3]})
    server.faults.extend([Fault(), short, short])

    completion = await connect(engine="llama.cpp").complete(*ask())

    assert completion.prompt_token_ids is None
    assert completion.token_ids is not None


async def test_logprobs_alone_need_no_engine(server: ModelServer, connect: Connect) -> None:
    completion = await connect(logprobs=True).complete(*ask())

    assert completion.logprobs == array("f", map(logprob, server.sampled[0].ids))
    assert completion.token_ids is None


async def test_text_completions_send_and_receive_token_ids(
    server: ModelServer, connect: Connect
) -> None:
    completion = await connect("completions").sample([104, 105], Sampling(temperature=0.5))

    assert server.calls[0].document["prompt"] == [104, 105]
    assert completion.prompt_token_ids == array("i", [104, 105])
    assert completion.token_ids == array("i", [105, 104, 257])
    assert completion.logprobs is not None
    assert completion.text == "ih"


async def test_a_server_that_hides_token_ids_is_no_use_for_text_completions(
    server: ModelServer, connect: Connect
) -> None:
    server.faults.append(Fault(body={"choices": [{"text": "hi", "finish_reason": "stop"}]}))

    with pytest.raises(ModelReplyError, match="return_token_ids"):
        await connect("completions", retry=NO_RETRIES).complete(*ask())


@pytest.mark.parametrize(
    ("document", "ids", "logprobs"),
    [
        ({"__verbose": {"tokens": [1, 2]}}, [1, 2], None),
        ({"choice": with_logprobs(token="token_id:5", logprob=-1.0)}, [5], [-1.0]),
        ({"choice": with_logprobs(token="a", logprob=-1.0)}, None, [-1.0]),
        ({"choice": with_logprobs(token="a", logprob=-1.0, ids=[1, 2])}, [1, 2], None),
        ({"choice": with_logprobs(id=4, logprob=None)}, [4], None),
        ({"choice": with_logprobs(id=4, logprob=float("nan"))}, [4], None),
        ({"choice": {"logprobs": {"content": []}, "token_ids": []}}, [], None),
        ({"choice": {"logprobs": None}}, None, None),
    ],
)
def test_tokens_are_found_where_engines_put_them(
    document: dict[str, Any], ids: list[int] | None, logprobs: list[float] | None
) -> None:
    whole = said()
    whole["choices"][0] |= document.pop("choice", {})

    completion = read(whole | document)

    assert completion.token_ids == (None if ids is None else array("i", ids))
    assert completion.logprobs == (None if logprobs is None else array("f", logprobs))


def test_token_ids_that_are_none_are_refused() -> None:
    document = said()
    document["choices"][0]["token_ids"] = ["a"]

    with pytest.raises(ModelReplyError, match="no integers"):
        read(document)
