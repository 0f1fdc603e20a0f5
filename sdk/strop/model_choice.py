"""Which model a run asks, and how: checked without network, secrets or files."""

from __future__ import annotations

import re
from typing import Any, Literal, Self, TypeAlias
from urllib.parse import urlsplit

from pydantic import BaseModel, ConfigDict, Field, field_validator, model_validator
from pydantic_core import PydanticCustomError

from strop.errors import ConfigError
from strop.models.http import Url
from strop.types import Usage

Api: TypeAlias = Literal["chat", "completions", "messages", "responses"]
"""Chat completions, text completions, Anthropic's Messages, OpenAI's Responses."""

KEY_VARIABLES: dict[Api, str] = {"messages": "ANTHROPIC_API_KEY"}
"""The variables that hold keys where none is named; of the others it is `OTHER_KEY_VARIABLE`."""

OTHER_KEY_VARIABLE = "OPENAI_API_KEY"

_VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_HEADER_NAME = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+")
_HEADER_VALUE = re.compile(r"[\x21-\x7e]+(?:[ \t]+[\x21-\x7e]+)*")
_SECRET_HEADERS = frozenset({"authorization", "cookie", "proxy-authorization", "x-api-key"})

_OWN_FIELDS: dict[str, Api] = {
    "engine": "chat",
    "logprobs": "chat",
    "max_tokens_field": "chat",
    "reasoning_field": "chat",
    "tokenizer": "completions",
    "calls": "completions",
    "template_variables": "completions",
}
"""Fields that only one API has a use for."""


class Strict(BaseModel):
    """What a file holds: unknown fields and other types are refused."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True, allow_inf_nan=False)


class RetryChoice(Strict):
    """When to ask again; what is missing is `RetryPolicy`'s."""

    try_count: int | None = Field(default=None, ge=1)
    """With the first one; 1 turns retries off."""
    base_s: float | None = Field(default=None, ge=0)
    longest_s: float | None = Field(default=None, ge=0)
    total_s: float | None = Field(default=None, ge=0)


class LimitsChoice(Strict):
    """How long and how many; what is missing is that of the client's `Limits`."""

    connect_s: float | None = Field(default=None, gt=0)
    read_s: float | None = Field(default=None, gt=0)
    """Between two arrivals of bytes: two tokens of a stream, or the whole of another reply."""
    total_s: float | None = Field(default=None, gt=0)
    connection_count: int | None = Field(default=None, ge=1)


class Prices(Strict):
    """What a model's tokens cost, for the progress and the report; in any currency."""

    prompt_price: float | None = Field(default=None, ge=0)
    """Money for a million prompt tokens."""
    completion_price: float | None = Field(default=None, ge=0)
    """Money for a million sampled tokens."""

    def cost(self, usage: Usage) -> float | None:
        """What these tokens cost; None where no price is known."""
        if self.prompt_price is None and self.completion_price is None:
            return None
        prompt = usage.prompt_tokens * (self.prompt_price or 0.0)
        return (prompt + usage.completion_tokens * (self.completion_price or 0.0)) / 1e6


class ModelChoice(Prices):
    """The model, or one seat's."""

    name: str = "scripted:oracle"
    """As the endpoint calls it, or ``scripted:POLICY``, which has no use for most of the rest."""
    base_url: str | None = None
    """Of the endpoint; mostly ends in ``/v1``."""
    api: Api = "chat"
    """What the endpoint is spoken to in."""
    api_key_env: str | None = None
    """Name of the variable that holds the key; the key itself never stands in a file. None:
    ``OPENAI_API_KEY``, or ``ANTHROPIC_API_KEY`` for ``messages``."""
    engine: Literal["vllm", "sglang", "llama.cpp"] | None = None
    """Of ``chat``: ask for token ids in its way."""
    logprobs: bool = False
    """Of ``chat``: ask for log-probabilities, without an engine's token ids."""
    stream: bool = False
    """Receive replies in pieces."""
    tokenizer: str | None = None
    """Of ``completions``, which needs it: a model's folder, or a GGUF file."""
    calls: Literal["hermes", "qwen", "llama", "none"] | None = None
    """Of ``completions``: how the model writes tool calls; None: as its template tells."""
    template_variables: dict[str, Any] = Field(default_factory=dict)
    """Of ``completions``: further variables of the chat template, such as ``enable_thinking``."""
    max_tokens_field: str = "max_tokens"
    """Of ``chat``: OpenAI's reasoning models want ``max_completion_tokens``."""
    reasoning_field: str | None = None
    """Of ``chat``: send earlier reasoning back under this name."""
    body: dict[str, Any] = Field(default_factory=dict)
    """Further fields of every request, such as ``cache_salt``; those of the sampling win."""
    headers: dict[str, str] = Field(default_factory=dict)
    """Of every request."""
    headers_env: dict[str, str] = Field(default_factory=dict)
    """Headers whose values are secrets: by name, the variables that hold them."""
    affinity_header: str | None = None
    """A header that is the same for all calls of an attempt, for routers in front of replicas."""
    proxy: str | None = None
    """``http://host:port``; None: as ``HTTP_PROXY``, ``HTTPS_PROXY``, ``NO_PROXY`` say."""
    ca_file: str | None = None
    """Certificates of authorities (PEM) that are trusted besides the machine's."""
    cert_file: str | None = None
    """This client's certificate and its chain (PEM), for endpoints that want one."""
    key_file: str | None = None
    """The key of `cert_file` (PEM, without a passphrase), where it does not stand there, too."""
    retry: RetryChoice = RetryChoice()
    limits: LimitsChoice = LimitsChoice()
    requests_per_s: float | None = Field(default=None, gt=0)
    tokens_per_s: float | None = Field(default=None, gt=0)
    """Of prompts and completions together, on average."""

    @property
    def key_variable(self) -> str:
        """The variable with the key."""
        return self.api_key_env or KEY_VARIABLES.get(self.api, OTHER_KEY_VARIABLE)

    @field_validator("base_url")
    @classmethod
    def _check_base_url(cls, value: str | None) -> str | None:
        return _check_address(value, "name the variable with the key in api_key_env")

    @field_validator("proxy")
    @classmethod
    def _check_proxy(cls, value: str | None) -> str | None:
        return _check_address(value, "leave proxy out, and write it into HTTP_PROXY or HTTPS_PROXY")

    @field_validator("api_key_env")
    @classmethod
    def _check_variable(cls, value: str | None) -> str | None:
        if value is not None and not _VARIABLE.fullmatch(value):
            raise _wrong("this is the name of a variable, and never a key itself")
        return value

    @field_validator("headers")
    @classmethod
    def _check_headers(cls, headers: dict[str, str]) -> dict[str, str]:
        for name, value in headers.items():
            if name.lower() in _SECRET_HEADERS:
                raise _wrong(
                    f"{name!r} holds a secret: name the variable that has it, in api_key_env or"
                    " headers_env",
                )
            if not _HEADER_NAME.fullmatch(name) or not _HEADER_VALUE.fullmatch(value):
                raise _wrong(f"{name!r} is no header of printable ASCII")
        return headers

    @field_validator("headers_env")
    @classmethod
    def _check_headers_env(cls, headers: dict[str, str]) -> dict[str, str]:
        for name, variable in headers.items():
            if not _HEADER_NAME.fullmatch(name):
                raise _wrong(f"{name!r} is no name of a header")
            cls._check_variable(variable)
        return headers

    @field_validator("affinity_header")
    @classmethod
    def _check_affinity(cls, value: str | None) -> str | None:
        if value is not None and not _HEADER_NAME.fullmatch(value):
            raise _wrong(f"{value!r} is no name of a header")
        return value

    @model_validator(mode="after")
    def _check_api(self) -> Self:
        problems = [
            f"{name} is for api = {api!r}, and this one is {self.api!r}"
            for name, api in _OWN_FIELDS.items()
            if api != self.api and getattr(self, name) != _default_of(name)
        ]
        if self.api == "completions" and self.tokenizer is None:
            problems.append("completions needs tokenizer: a model's folder, or a GGUF file")
        if self.key_file is not None and self.cert_file is None:
            problems.append("key_file is the key of cert_file: name the certificate, too")
        if self.stream and self.engine in ("sglang", "llama.cpp"):
            problems.append(f"{self.engine} streams no exact token ids: leave stream or engine out")
        if problems:
            raise _wrong("; ".join(problems))
        return self


def _default_of(name: str) -> Any:
    return ModelChoice.model_fields[name].get_default(call_default_factory=True)


def _check_address(value: str | None, remedy: str) -> str | None:
    if value is None:
        return None
    if "@" in urlsplit(value).netloc:
        raise _wrong(f"this address holds a user or a password: {remedy}")
    try:
        Url.parse(value)
    except ConfigError as error:
        raise _wrong(str(error)) from error
    return value


def _wrong(message: str) -> PydanticCustomError:
    # As a field and not as the template: it may hold braces.
    return PydanticCustomError("strop_model", "{message}", {"message": message})
