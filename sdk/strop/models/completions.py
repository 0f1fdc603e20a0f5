"""Client of text completions: token ids in, token ids out, nothing tokenised by the server."""

from __future__ import annotations

from array import array
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Unpack

from strop.errors import ModelReplyError, ModelRequestError
from strop.models.endpoint import Connecting, Reply
from strop.models.openai import bearer_endpoint, encode_sampling, root_of
from strop.models.renderer.memory import TokenMemory
from strop.models.renderer.protocol import Renderer
from strop.models.reply.chat import complete, first_choice
from strop.models.reply.stream import ChatFold
from strop.types import JSON, Completion, Message, Sampling, ToolSpec


class CompletionsModel:
    """A model behind ``POST {base_url}/completions`` that is given token ids.

    Asks for ids and log-probabilities as vLLM and SGLang name them; llama.cpp knows the same.
    A conversation that goes on from what was sampled here is extended, never tokenised again.

    Args:
        name: As the server calls the model.
        base_url: ``/v1`` is added to an address without a path.
        renderer: Makes the prompt and reads what was sampled.
        body: Further fields of every request; `Sampling.extra` wins.
        **connecting: See `Connecting`.
    """

    def __init__(
        self,
        name: str,
        base_url: str,
        renderer: Renderer,
        *,
        body: Mapping[str, JSON] | None = None,
        is_streaming: bool = False,
        **connecting: Unpack[Connecting],
    ) -> None:
        self._name = name
        url = f"{root_of(base_url, '/completions')}/completions"
        self._endpoint = bearer_endpoint(url, connecting)
        self._renderer = renderer
        self._memory = TokenMemory()
        self._is_streaming = is_streaming
        self._fixed: dict[str, JSON] = {"model": name, "logprobs": 1, "return_token_ids": True}
        if is_streaming:
            self._fixed |= {"stream": True, "stream_options": {"include_usage": True}}
        self._fixed |= body or {}

    @property
    def name(self) -> str:
        """As the server calls the model."""
        return self._name

    async def complete(
        self, messages: Sequence[Message], tools: Sequence[ToolSpec], sampling: Sampling
    ) -> Completion:
        """Sample one completion of a rendered conversation.

        Raises:
            ModelError: As `strop.errors` says, after the retries that the policy allows.
        """
        completion = await self._sample(self._prompt(messages, tools), sampling, tools)
        if completion.prompt_token_ids is not None and completion.token_ids is not None:
            ids = completion.prompt_token_ids + completion.token_ids
            self._memory.add([*messages, completion.message], tools, ids)
        return completion

    async def sample(self, prompt_ids: Sequence[int], sampling: Sampling) -> Completion:
        """Sample what follows `prompt_ids`.

        Raises:
            ModelError: As `complete`; `ModelReplyError` also when the server hides its ids.
        """
        return await self._sample(prompt_ids, sampling, ())

    async def close(self) -> None:
        """Close the connections, unless their pool came from outside."""
        await self._endpoint.close()

    def _prompt(self, messages: Sequence[Message], tools: Sequence[ToolSpec]) -> Sequence[int]:
        known = self._memory.find(messages, tools)
        if known is None:
            return self._renderer.render(messages, tools)
        return self._renderer.extend(known.ids, messages[len(known.messages) :])

    async def _sample(
        self, prompt_ids: Sequence[int], sampling: Sampling, tools: Sequence[ToolSpec]
    ) -> Completion:
        sent = array("i", prompt_ids)
        body = self._fixed | {"prompt": list(sent)} | encode_sampling(sampling, "max_tokens")

        def read(reply: Reply) -> Completion:
            return self._read(reply, sent, tools)

        fold = ChatFold if self._is_streaming else None
        return await self._endpoint.call(body, read, fold, seed=sampling.seed)

    def _read(self, reply: Reply, sent: array[int], tools: Sequence[ToolSpec]) -> Completion:
        choice = first_choice(reply)
        text = choice.get("text")
        found = complete(reply, choice, Message("assistant", text if isinstance(text, str) else ""))
        if found.token_ids is None:
            raise ModelReplyError(
                f"{reply.where} gives no token ids: use a server that knows return_token_ids"
            )
        counted = None if found.usage is None else found.usage.prompt_tokens
        if found.prompt_token_ids is None and counted not in (None, len(sent)):
            raise ModelRequestError(
                f"{reply.where} was sent {len(sent)} ids and counted {counted}: it adds or drops"
                " some, so what it saw is unknown. Switch that off, or use a chat client"
            )
        message = self._renderer.parse(found.token_ids, tools)
        is_call = found.finish_reason == "stop" and bool(message.tool_calls)
        return replace(
            found,
            message=message,
            finish_reason="tool_calls" if is_call else found.finish_reason,
            prompt_token_ids=sent if found.prompt_token_ids is None else found.prompt_token_ids,
        )
