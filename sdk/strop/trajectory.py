"""What a rollout leaves behind: a graph of segments, with reward, failure and provenance.

A trajectory is immutable. Scoring and stamping give copies. `strop.trajectory_json` writes
it, `docs/reference/trajectory.md` describes the written form.
"""

from __future__ import annotations

import math
from array import array
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Literal, Self, TypeAlias

from strop.attempt import Attempt
from strop.task import Task
from strop.types import (
    JSON,
    EnvironmentIdentity,
    FinishReason,
    Message,
    Sampling,
    Usage,
)

SCHEMA = "strop.trajectory/1"

StopReason: TypeAlias = Literal[
    "ended",  # by the environment: terminated
    "max_turns",
    "max_tokens",
    "time_limit",
    "context_overflow",
    "content_filter",
    "driver",  # whoever drove the episode stopped it
    "failure",
    "cancelled",
]

TRUNCATING: frozenset[str] = frozenset(
    {"max_turns", "max_tokens", "time_limit", "context_overflow", "content_filter", "driver"}
)


@dataclass(frozen=True, slots=True)
class Segment:
    """A node of the graph: one completion, or all messages between two; never split."""

    kind: Literal["completion", "messages"]
    seat: str
    """Whose context it belongs to; a completion's is who sampled it."""
    parent: int | None
    """Index of the segment before it on its path; None at a root."""
    messages: tuple[Message, ...]
    """A completion has exactly one. None at all where an engine added only tokens."""
    token_ids: array[int] | None = None
    """What the engine saw or sampled, ``[segment_tokens]``; None where it did not tell."""
    logprobs: array[float] | None = None
    """Of a completion, natural logarithms, ``[segment_tokens]``."""
    finish_reason: FinishReason | None = None
    usage: Usage | None = None
    model: str = ""
    latency_s: float = 0.0
    policy_version: int | None = None
    sampling: Sampling | None = None
    """What a completion was drawn with: as a client of the SDK sent it, or as a trainer says."""
    raw: dict[str, JSON] = field(default_factory=dict)
    """Fields of the reply that have no place of their own."""


@dataclass(frozen=True, slots=True)
class RewardValue:
    """What one reward function gave, and how it counts."""

    value: float | None
    """None when it failed."""
    weight: float
    range: tuple[float, float] | None = None
    error: str | None = None


@dataclass(frozen=True, slots=True)
class TurnValues:
    """What one function gave for each turn, and how it counts."""

    values: tuple[float, ...] | None
    """``[turns]``; None when it failed."""
    weight: float
    range: tuple[float, float] | None = None
    error: str | None = None


@dataclass(frozen=True, slots=True)
class Seat:
    """One role's share in the result."""

    is_trainable: bool = True
    reward: float | None = None
    """The weighted sum; None when there is a failure or nothing was scored yet."""
    rewards: dict[str, RewardValue] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Failure:
    """A fault of infrastructure or author: excluded from training, never scored 0."""

    type: str
    """Name of the error's class."""
    boundary: str
    """``environment``, ``tool``, ``reward``, ``model`` or ``sandbox``."""
    message: str
    traceback: str = ""


@dataclass(frozen=True, slots=True)
class OutsideReply:
    """What a judge, a search or another service outside answered; re-scoring replays it."""

    source: str
    """Who was asked, such as ``judge:helpful``."""
    request: str
    """sha256 (hex) of the request's canonical JSON."""
    reply: JSON
    usage: Usage | None = None
    """Tokens that a judge's model took; they are in no seat's usage."""


@dataclass(frozen=True, slots=True)
class Timing:
    """Seconds spent by stage; waiting in a queue is charged to no other stage."""

    queue_s: float = 0.0
    setup_s: float = 0.0
    turns_s: float = 0.0
    tools_s: float = 0.0
    score_s: float = 0.0


@dataclass(frozen=True, slots=True)
class Trajectory:
    """The immutable record of one rollout."""

    attempt: Attempt
    task: Task
    segments: tuple[Segment, ...]
    """In the order in which they came; parents stand before children."""
    seats: dict[str, Seat]
    outcome: dict[str, JSON]
    """What the environment kept for scoring."""
    stop_reason: StopReason
    stop_detail: str = ""
    failure: Failure | None = None
    metrics: dict[str, float] = field(default_factory=dict)
    """Values of the reward functions whose weight is 0."""
    replies: tuple[OutsideReply, ...] = ()
    """Of services outside, in the order in which they were first asked."""
    turn_rewards: tuple[float, ...] | None = None
    """One for each turn, ``[turns]``: the weighted sums of `turn_values`; None where the
    environment gives none, and after a failure."""
    turn_values: dict[str, TurnValues] = field(default_factory=dict)
    """By the function's name, what `turn_rewards` are the sums of."""
    environment: EnvironmentIdentity = field(default_factory=lambda: EnvironmentIdentity("local"))
    settings: dict[str, JSON] = field(default_factory=dict)
    fork_count: int = 0
    """How often an engine saw another history than the one recorded."""
    timing: Timing = field(default_factory=Timing)
    started_at_s: float = 0.0
    """Unix time."""
    isolation: str | None = None
    """Of the sandbox that ran code, or None when none ran."""
    strop_version: str = ""
    stamps: dict[str, JSON] = field(default_factory=dict)
    """What a trainer adds before the line is written; later ones stand beside the file."""

    @property
    def main_seat(self) -> str:
        """Name of the seat whose reward is the trajectory's: the first one."""
        return next(iter(self.seats))

    @property
    def seat(self) -> Seat:
        """The main seat."""
        return self.seats[self.main_seat]

    @property
    def reward(self) -> float | None:
        """The main seat's; None when the attempt failed or is not scored."""
        return self.seat.reward

    @property
    def rewards(self) -> dict[str, RewardValue]:
        """The main seat's reward functions by name."""
        return self.seat.rewards

    @property
    def is_terminated(self) -> bool:
        """Whether the environment ended it."""
        return self.stop_reason == "ended"

    @property
    def is_truncated(self) -> bool:
        """Whether a limit ended it."""
        return self.stop_reason in TRUNCATING

    @property
    def completions(self) -> tuple[Message, ...]:
        """What was sampled, in order, by any seat."""
        return tuple(s.messages[0] for s in self.segments if s.kind == "completion")

    @property
    def turn_count(self) -> int:
        """How many completions there are."""
        return sum(segment.kind == "completion" for segment in self.segments)

    @property
    def text(self) -> str:
        """The text of the last completion of any seat, reasoning apart; empty without one."""
        return self.text_of(None)

    def text_of(self, seat: str | None) -> str:
        """The text of a seat's last completion; None takes any seat's."""
        for segment in reversed(self.segments):
            if segment.kind == "completion" and seat in (None, segment.seat):
                return segment.messages[0].text
        return ""

    @property
    def usage(self) -> Usage:
        """Summed over the completions that were counted."""
        return sum((s.usage for s in self.segments if s.usage is not None), Usage())

    @property
    def outside_usage(self) -> Usage:
        """Tokens that judges and other services outside took; in no seat's usage."""
        return sum((r.usage for r in self.replies if r.usage is not None), Usage())

    def path(self, leaf: int) -> tuple[Segment, ...]:
        """The segments from the root to `leaf`, both included."""
        return tuple(self.segments[index] for index in path_indexes(self.segments, leaf))

    def leaves(self) -> Iterator[int]:
        """Indexes of the segments that have no child, in order."""
        parents = {segment.parent for segment in self.segments}
        return (index for index in range(len(self.segments)) if index not in parents)

    def messages(self, seat: str | None = None) -> tuple[Message, ...]:
        """The conversation on the last path of a seat; None takes the main one."""
        seat = self.main_seat if seat is None else seat
        indexes = [i for i, segment in enumerate(self.segments) if segment.seat == seat]
        if not indexes:
            return ()
        return tuple(message for part in self.path(indexes[-1]) for message in part.messages)

    @property
    def policy_span(self) -> tuple[int, int] | None:
        """Oldest and newest version of the weights that sampled what is trained on.

        None where nothing of that is told, or not for every completion of a trained seat.
        """
        versions = [
            segment.policy_version
            for segment in self.segments
            if segment.kind == "completion" and self.seats[segment.seat].is_trainable
        ]
        told = [version for version in versions if version is not None]
        return (min(told), max(told)) if told and len(told) == len(versions) else None

    def is_stale(self, version: int, max_lag: int) -> bool:
        """Whether a trainer at `version` should drop it: it is older than `max_lag` versions.

        Args:
            version: Of the weights that are trained now.
            max_lag: Versions, ≥ 0, that its oldest trained completion may be behind; what is
                exactly as many behind is kept.

        Raises:
            ValueError: It tells no versions: serve the model with an engine that does.
        """
        if self.policy_span is None:
            raise ValueError(
                f"The attempt at {self.task.key!r} does not tell which weights sampled it. Give "
                "completions their `policy_version`."
            )
        return version - self.policy_span[0] > max_lag

    def stamped(self, **stamps: JSON) -> Self:
        """A copy with further stamps."""
        return replace(self, stamps={**self.stamps, **stamps})

    def to_samples(self) -> list[Sample]:
        """One flat sample for each leaf of a trainable seat.

        A sampled segment that several paths share is trainable in the first only. Paths
        of which the engine did not tell every token give no sample.
        """
        spent: set[int] = set()
        samples = (self._sample(leaf, spent) for leaf in self.leaves())
        return [sample for sample in samples if sample is not None]

    def _sample(self, leaf: int, spent: set[int]) -> Sample | None:
        path = path_indexes(self.segments, leaf)
        segments = [self.segments[index] for index in path]
        while segments and segments[-1].token_ids is None and segments[-1].kind == "messages":
            segments.pop()
            path.pop()
        has_gap = any(segment.token_ids is None for segment in segments)
        if not segments or has_gap or not self.seats[segments[-1].seat].is_trainable:
            return None
        sample = Sample(array("i"), array("b"), array("f"), array("f"), segments[-1].seat)
        rewards = self._rewards_by_segment()
        if self.turn_rewards is not None:
            sample = replace(sample, token_rewards=array("f"))
        for index, segment in zip(path, segments, strict=True):
            is_trained = segment.kind == "completion" and index not in spent
            reward = rewards.get(index, 0.0) if is_trained else 0.0
            sample.extend(segment, is_trained=is_trained, reward=reward)
            spent.add(index)
        return sample

    def _rewards_by_segment(self) -> dict[int, float]:
        if self.turn_rewards is None:
            return {}
        turns = [n for n, each in enumerate(self.segments) if each.kind == "completion"]
        return dict(zip(turns, self.turn_rewards, strict=True))


@dataclass(frozen=True, slots=True)
class Sample:
    """What a trainer's loss consumes; all arrays have one length, ``[tokens]``."""

    token_ids: array[int]
    mask: array[int]
    """1 where a token was sampled by the trained seat and is trained on here, else 0."""
    logprobs: array[float]
    """Of sampled tokens; 0 elsewhere, NaN where a sampled token's was not told."""
    temperatures: array[float]
    """Of sampled tokens what each was drawn with, NaN where that was not told; 1 elsewhere."""
    seat: str
    token_rewards: array[float] | None = None
    """Each turn's reward at its last token, where the turn is trained on here; 0 elsewhere. None
    where the trajectory has no `turn_rewards`."""

    def extend(self, segment: Segment, *, is_trained: bool, reward: float = 0.0) -> None:
        """Append a segment's tokens; `reward` is its turn's."""
        token_ids = segment.token_ids or array("i")
        count = len(token_ids)
        self.token_ids.extend(token_ids)
        self.mask.extend(array("b", [is_trained]) * count)
        is_sampled = segment.kind == "completion"
        if segment.logprobs is not None:
            self.logprobs.extend(segment.logprobs)
        else:
            self.logprobs.extend(array("f", [math.nan if is_sampled else 0.0]) * count)
        told = None if segment.sampling is None else segment.sampling.temperature
        temperature = 1.0 if not is_sampled else math.nan if told is None else told
        self.temperatures.extend(array("f", [temperature]) * count)
        if self.token_rewards is not None and count:
            self.token_rewards.extend(array("f", [0.0]) * (count - 1))
            self.token_rewards.append(reward)


def path_indexes(segments: Sequence[Segment], leaf: int | None) -> list[int]:
    """Indexes of the segments from the root to `leaf`, both included."""
    indexes = []
    index = leaf
    while index is not None:
        indexes.append(index)
        index = segments[index].parent
    indexes.reverse()
    return indexes


def failure_of(error: BaseException, boundary: str, traceback: str = "") -> Failure:
    """The record of an error."""
    message = str(error) or type(error).__name__
    return Failure(type(error).__name__, boundary, message, traceback)
