"""Client of OpenAI-compatible chat completions, which vLLM, SGLang and llama.cpp serve too."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any, Literal, Self, TypeAlias, Unpack

from strop.errors import ConfigError, ModelReplyError
from strop.models.endpoint import Connecting, Endpoint
from strop.models.llama import complete_with_prompt_ids
from strop.models.part import encode_chat_part
from strop.models.reply.chat import read_chat
from strop.models.reply.stream import ChatFold
from strop.types import JSON, Completion, Message, Sampling, ToolSpec

Engine: TypeAlias = Literal["vllm", "sglang", "llama.cpp"]

_TOKEN_FIELDS: dict[Engine, dict[str, JSON]] = {
    "vllm": {"logprobs": True, "return_token_ids": True},
    "sglang": {"logprobs": True, "return_prompt_token_ids": True, "return_meta_info": True},
    "llama.cpp": {"logprobs": True, "top_logprobs": 1, "return_tokens": True, "verbose": True},
}

_MAX_SEED = 2**63 - 1


class OpenAIModel:
    """A model behind ``POST {base_url}/chat/completions``.

    Args:
        name: As the server calls the model.
        base_url: Mostly ends in ``/v1``, which is added to an address without a path.
        engine: Ask for token ids and logprobs in this engine's way; None asks for nothing that
            is not OpenAI's. SGLang gives none in a stream, and llama.cpp leaves the last one out.
        logprobs: Ask for the log-probability of every sampled token.
        is_streaming: Receive the reply in pieces, so that `Limits.read_s` bounds the time
            between two tokens rather than that of the whole completion.
        body: Further fields of every request, such as a cache salt; `Sampling.extra` wins.
        max_tokens_field: OpenAI's reasoning models want ``max_completion_tokens``.
        reasoning_field: Send earlier reasoning back under this name; None leaves it out.
        **connecting: See `Connecting`.

    Example:
        >>> model = OpenAIModel("smollm2", "http://127.0.0.1:8000/v1", engine="llama.cpp")
        >>> completion = await model.complete([Message("user", "Hello")], (), Sampling())
    """

    def __init__(
        self,
        name: str,
        base_url: str,
        *,
        engine: Engine | None = None,
        logprobs: bool = False,
        is_streaming: bool = False,
        body: Mapping[str, JSON] | None = None,
        max_tokens_field: str = "max_tokens",
        reasoning_field: str | None = None,
        **connecting: Unpack[Connecting],
    ) -> None:
        if engine in ("sglang", "llama.cpp") and is_streaming:
            raise ConfigError(f"{engine} streams no exact token ids: set is_streaming=False")
        self._name = name
        self._engine = engine
        self._base_url = root_of(base_url, "/chat/completions")
        self._endpoint = bearer_endpoint(f"{self._base_url}/chat/completions", connecting)
        self._is_streaming = is_streaming
        self._max_tokens_field = max_tokens_field
        self._reasoning_field = reasoning_field
        self._fixed: dict[str, JSON] = {"model": name}
        if engine is not None:
            self._fixed |= _TOKEN_FIELDS[engine]
        elif logprobs:
            self._fixed["logprobs"] = True
        if is_streaming:
            self._fixed |= {"stream": True, "stream_options": {"include_usage": True}}
        self._fixed |= body or {}

    @classmethod
    async def discover(cls, base_url: str, **connecting: Unpack[Connecting]) -> Self:
        """A client for the first model that the server lists under ``/models``.

        Raises:
            ModelReplyError: It lists none.
        """
        model = cls("", base_url, **connecting)
        try:
            listing = (await model._endpoint.ask(f"{model._base_url}/models")).get("data")
            name = listing[0]["id"] if isinstance(listing, list) and listing else None
            if not isinstance(name, str):
                raise ModelReplyError(f"{base_url} lists no models: name one")
        except BaseException:
            await model.close()
            raise
        model._name = model._fixed["model"] = name
        return model

    @property
    def name(self) -> str:
        """As the server calls the model."""
        return self._name

    def with_options(
        self,
        *,
        headers: Mapping[str, str] | None = None,
        body: Mapping[str, JSON] | None = None,
    ) -> Self:
        """The same model over the same connections, with further headers and fields.

        For what belongs to one rollout, such as an affinity header. The copy needs no closing.
        """
        copy = object.__new__(type(self))
        copy.__dict__.update(self.__dict__)
        copy._endpoint = self._endpoint.with_headers(headers or {})
        copy._fixed = {**self._fixed, **(body or {})}
        return copy

    async def complete(
        self, messages: Sequence[Message], tools: Sequence[ToolSpec], sampling: Sampling
    ) -> Completion:
        """Sample one completion.

        Raises:
            ModelError: As `strop.errors` says, after the retries that the policy allows.
        """
        body = self._encode(messages, tools, sampling)
        if self._engine == "llama.cpp":
            return await complete_with_prompt_ids(
                self._endpoint, self._base_url, body, sampling.seed
            )
        fold = ChatFold if self._is_streaming else None
        return await self._endpoint.call(body, read_chat, fold, seed=sampling.seed)

    async def close(self) -> None:
        """Close the connections, unless their pool came from outside."""
        await self._endpoint.close()

    def _encode(
        self, messages: Sequence[Message], tools: Sequence[ToolSpec], sampling: Sampling
    ) -> dict[str, JSON]:
        body = dict(self._fixed)
        body["messages"] = [encode_message(each, self._reasoning_field) for each in messages]
        if tools:
            body["tools"] = [encode_tool(tool) for tool in tools]
        body |= encode_sampling(sampling, self._max_tokens_field)
        return body


def root_of(base_url: str, path: str) -> str:
    """A base URL without trailing slash or `path`; one without any path gets ``/v1``."""
    base_url = base_url.rstrip("/").removesuffix(path)
    return base_url if re.search(r"://[^/]+/", base_url) else f"{base_url}/v1"


def bearer_endpoint(url: str, connecting: Connecting) -> Endpoint:
    """The endpoint at `url`, the API key in its ``authorization`` header."""
    options: dict[str, Any] = dict(connecting)
    key = options.pop("api_key", None)
    headers = {"authorization": f"Bearer {key}"} if key else {}
    options["headers"] = {**headers, **(options.get("headers") or {})}
    return Endpoint(url, **options)


def encode_sampling(sampling: Sampling, max_tokens_field: str) -> dict[str, JSON]:
    """The fields of a request that say how to sample."""
    body: dict[str, JSON] = {}
    if sampling.temperature is not None:
        body["temperature"] = sampling.temperature
    if sampling.top_p is not None:
        body["top_p"] = sampling.top_p
    if sampling.max_tokens is not None:
        body[max_tokens_field] = sampling.max_tokens
    if sampling.stop:
        body["stop"] = list(sampling.stop)
    if sampling.seed is not None:
        body["seed"] = _engine_seed(sampling.seed)
    body |= sampling.extra
    return body


def _engine_seed(seed: int) -> int:
    """A seed as engines take it: one beyond a signed 64-bit integer keeps its low 63 bits.

    vLLM, SGLang and OpenAI refuse larger ones; llama.cpp takes the low 32 bits of what it is sent.
    """
    return seed if seed <= _MAX_SEED else seed & _MAX_SEED


def encode_tool(tool: ToolSpec) -> dict[str, JSON]:
    """A tool as chat completions have it."""
    return {
        "type": "function",
        "function": {
            "name": tool.name,
            "description": tool.description,
            "parameters": tool.parameters,
        },
    }


def encode_message(message: Message, reasoning_field: str | None = None) -> dict[str, JSON]:
    """A message as chat completions have it."""
    content: JSON = message.content if isinstance(message.content, str) else None
    if not isinstance(message.content, str):
        content = [encode_chat_part(part) for part in message.content]
    encoded: dict[str, JSON] = {"role": message.role, "content": content}
    if message.role == "tool":
        encoded["tool_call_id"] = message.tool_call_id
    elif message.name is not None:
        encoded["name"] = message.name
    if message.tool_calls:
        encoded["content"] = content or None
        encoded["tool_calls"] = [
            {
                "id": call.id,
                "type": "function",
                "function": {"name": call.name, "arguments": call.arguments},
            }
            for call in message.tool_calls
        ]
    if reasoning_field is not None and message.reasoning is not None:
        encoded[reasoning_field] = message.reasoning
    return encoded
