"""Values that pass between model, environment and trajectory; no step of the journey lives here."""

from __future__ import annotations

from array import array
from collections.abc import Callable, Coroutine, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal, Protocol, TypeAlias, runtime_checkable

JSON: TypeAlias = "bool | int | float | str | list[JSON] | dict[str, JSON] | None"
"""Anything that the standard library's `json` writes and reads back equal."""

Role: TypeAlias = Literal["system", "user", "assistant", "tool"]

POLICY = "policy"
"""The seat of an environment that names none."""


@dataclass(frozen=True, slots=True)
class Part:
    """A piece of a message that is more than plain text."""

    kind: Literal["text", "image", "audio"]
    text: str | None = None
    """Of a text part."""
    url: str | None = None
    """Where the image or audio is; a ``data:`` URL carries it."""
    digest: str | None = None
    """sha256 (hex) of a blob that holds it, where its bytes were left beside the file."""
    media_type: str | None = None
    """Such as ``image/png``."""


Content: TypeAlias = str | tuple[Part, ...]
"""What a message says: plain text, or parts."""


@dataclass(frozen=True, slots=True)
class ToolCall:
    """A model's wish to call a tool, as it wrote it."""

    id: str
    name: str
    arguments: str
    """JSON as the model wrote it; possibly malformed."""


@dataclass(frozen=True, slots=True)
class Message:
    """One message of a conversation."""

    role: Role
    content: Content = ""
    tool_calls: tuple[ToolCall, ...] = ()
    """Of an assistant."""
    tool_call_id: str | None = None
    """Of a tool's answer: which call it answers."""
    name: str | None = None
    """Of a tool's answer: the tool. Otherwise the speaker, where a conversation has several."""
    reasoning: str | None = None
    """What the model thought before it answered, where the engine tells."""

    @property
    def text(self) -> str:
        """The content's text; parts that are no text are passed over."""
        if isinstance(self.content, str):
            return self.content
        return "".join(part.text or "" for part in self.content)


def is_message(value: object) -> bool:
    """Whether a value is a message whose content is text or parts, as a record can hold it."""
    if not isinstance(value, Message):
        return False
    content: object = value.content
    return isinstance(content, str) or (
        isinstance(content, Sequence) and all(isinstance(part, Part) for part in content)
    )


@dataclass(frozen=True, slots=True)
class ToolSpec:
    """A tool as a model sees it."""

    name: str
    description: str
    parameters: dict[str, JSON]
    """JSON schema of the arguments, an object."""


@dataclass(frozen=True, slots=True)
class Sampling:
    """How a model samples; None leaves the engine's default."""

    temperature: float | None = None
    top_p: float | None = None
    max_tokens: int | None = None
    """Of one completion."""
    stop: tuple[str, ...] = ()
    seed: int | None = None
    """Replaced by the attempt's sampling seed where a runner drives; of a longer one the low
    63 bits are sent."""
    extra: dict[str, JSON] = field(default_factory=dict)
    """Further fields of the request's body, as the engine names them."""

    def narrowed(self, wish: Sampling) -> Sampling:
        """A copy that also heeds what one completion asks for.

        The smaller `max_tokens` holds and the stops of both; the wish's seed replaces this one's,
        and its `extra` counts where this one is silent. Temperature and top_p stay.
        """
        limits = [each for each in (self.max_tokens, wish.max_tokens) if each is not None]
        return replace(
            self,
            max_tokens=min(limits, default=None),
            stop=(*self.stop, *(each for each in wish.stop if each not in self.stop)),
            seed=self.seed if wish.seed is None else wish.seed,
            extra={**wish.extra, **self.extra},
        )


@dataclass(frozen=True, slots=True)
class Usage:
    """Tokens that were counted, each ≥ 0."""

    prompt_tokens: int = 0
    completion_tokens: int = 0
    cached_tokens: int = 0
    """Of the prompt tokens, those that came from the engine's cache."""

    def __add__(self, other: Usage) -> Usage:
        return Usage(
            self.prompt_tokens + other.prompt_tokens,
            self.completion_tokens + other.completion_tokens,
            self.cached_tokens + other.cached_tokens,
        )


FinishReason: TypeAlias = Literal["stop", "length", "tool_calls", "content_filter", "other"]


@dataclass(frozen=True, slots=True)
class Completion:
    """What a model sampled in one turn."""

    message: Message
    """Its role is ``assistant``."""
    finish_reason: FinishReason = "stop"
    usage: Usage | None = None
    """None when the engine did not count."""
    prompt_token_ids: array[int] | None = None
    """The whole prompt as the engine saw it, ``[prompt_tokens]``, typecode ``i``."""
    token_ids: array[int] | None = None
    """What was sampled, ``[completion_tokens]``, typecode ``i``; None when the engine hides it."""
    logprobs: array[float] | None = None
    """Natural logarithms, ``[completion_tokens]``, typecode ``f``."""
    model: str = ""
    """The name that the engine gave."""
    latency_s: float = 0.0
    policy_version: int | None = None
    """Of the weights that sampled it, where an engine tells."""
    sampling: Sampling | None = None
    """What it was drawn with; None where whoever sampled it does not tell."""
    raw: dict[str, JSON] = field(default_factory=dict)
    """Fields of the reply that this class has no place for."""

    @property
    def text(self) -> str:
        """The answer's text, without the reasoning."""
        return self.message.text


@dataclass(frozen=True, slots=True)
class End:
    """Ends an episode: returned by ``respond`` or by a tool."""

    message: str | None = None
    """A last observation; recorded, and never answered."""
    reason: str = "ended by the environment"


@dataclass(frozen=True, slots=True)
class EnvironmentIdentity:
    """Which environment exactly; stamped into every trajectory."""

    name: str
    owner: str | None = None
    """None when it did not come from a hub."""
    version: str | None = None
    digest: str | None = None
    """sha256 of the wheel, hex; None for an editable or unrecorded installation."""
    state: Literal["matches", "differs", "editable", "unknown owner", "local"] = "local"
    """How what is installed compares with what a hub published."""

    @property
    def full_name(self) -> str:
        """``owner/name``, or the bare name where there is no owner."""
        return self.name if self.owner is None else f"{self.owner}/{self.name}"


@runtime_checkable
class Model(Protocol):
    """Anything that completes a conversation.

    Implementations raise `strop.errors.ModelError`s, are safe to call concurrently, and leave
    nothing running when a call is cancelled.
    """

    @property
    def name(self) -> str:
        """For records and reports."""
        ...

    async def complete(
        self, messages: Sequence[Message], tools: Sequence[ToolSpec], sampling: Sampling
    ) -> Completion:
        """Sample one completion."""
        ...

    async def close(self) -> None:
        """Free sockets and processes; further calls fail."""
        ...


class EpisodeLike(Protocol):
    """The part of an episode that drives its loop over turns."""

    @property
    def is_ended(self) -> bool:
        """Whether no further completion is due."""
        ...

    due_seat: str
    """Whose completion is due."""

    @property
    def messages(self) -> Sequence[Message]:
        """The whole context that the due seat samples from."""
        ...

    @property
    def tools(self) -> Sequence[ToolSpec]:
        """What the due seat may call."""
        ...

    @property
    def due_sampling(self) -> Sampling | None:
        """What the due completion asks of its sampling besides the driver's."""
        ...

    async def step(self, completion: Completion) -> None:
        """Take the due completion, run its tools, observe."""
        ...


Seats: TypeAlias = "Model | Mapping[str, Model]"
"""One model for every seat, or one for each by name."""

Sampler: TypeAlias = Callable[
    [Sequence[Message], Sequence[ToolSpec], Sampling | None], Coroutine[Any, Any, "Completion"]
]
"""``f(messages, tools, wish)``: a completion of the due seat's model."""

Settings: TypeAlias = dict[str, Any]
