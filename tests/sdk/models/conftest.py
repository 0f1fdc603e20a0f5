"""A model server on loopback, and the clients of every dialect that talk to it."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack
from typing import Any

import pytest

from strop.models.anthropic import AnthropicModel
from strop.models.completions import CompletionsModel
from strop.models.openai import OpenAIModel
from strop.models.responses import ResponsesModel
from strop.models.retry import RetryPolicy
from strop.types import Message, Model, Sampling
from tests.model_server import ModelServer
from tests.model_server.tokens import decode, render

FAST = RetryPolicy(try_count=3, base_s=0.001)
"""Retries that do not slow the tests down."""

Connect = Callable[..., Any]
"""``connect(dialect, **options)``: a client of the test's server, closed after the test."""


class ByteRenderer:
    """The server's own rendering, in a client."""

    def render(self, messages: Any, tools: Any) -> list[int]:
        return render([{"role": each.role, "content": each.text} for each in messages], tools)

    def parse(self, ids: Any, tools: Any = ()) -> Message:
        return Message("assistant", decode(ids))

    def extend(self, ids: Any, observation: Any) -> list[int]:
        return [*ids, *self.render(observation, ())]


DIALECTS: dict[str, Callable[..., Model]] = {
    "chat": lambda url, **options: OpenAIModel("tiny", url, **options),
    "anthropic": lambda url, **options: AnthropicModel("tiny", url, **options),
    "responses": lambda url, **options: ResponsesModel("tiny", url, **options),
    "completions": lambda url, **options: CompletionsModel("tiny", url, ByteRenderer(), **options),
}


@pytest.fixture
async def server() -> AsyncIterator[ModelServer]:
    async with ModelServer() as running:
        yield running


@pytest.fixture
async def connect(server: ModelServer) -> AsyncIterator[Connect]:
    async with AsyncExitStack() as stack:

        def make(dialect: str = "chat", **options: Any) -> Model:
            model = DIALECTS[dialect](server.url, **{"retry": FAST, **options})
            stack.push_async_callback(model.close)
            return model

        yield make


def ask(text: str = "hello") -> tuple[list[Message], tuple[()], Sampling]:
    """The arguments of `complete` for one question."""
    return [Message("system", "Reverse it."), Message("user", text)], (), Sampling()


async def until(is_so: Callable[[], bool]) -> None:
    """Wait until something outside has happened."""
    async with asyncio.timeout(60):
        while not is_so():  # noqa: ASYNC110 - what is waited for signals nobody
            await asyncio.sleep(0.001)
