"""One episode and one model to one trajectory: the only loop over turns (step: rollout)."""

from __future__ import annotations

import asyncio
from array import array
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, ClassVar, Protocol, Self

from strop.attempt import Attempt
from strop.errors import (
    BoundaryError,
    ContextOverflowError,
    EnvironmentFaultError,
    ModelError,
    SettingsError,
)
from strop.faults import FAULTS, fault_of, own_fault
from strop.limits import Patience
from strop.stopwatch import Stopwatch
from strop.trajectory import StopReason, Trajectory, failure_of
from strop.types import EpisodeLike, Sampling, Seats, is_message

if TYPE_CHECKING:
    from strop.types import Completion, Message, Sampler, ToolSpec


_ARRAYS = (array, type(None))


class Drivable(EpisodeLike, Protocol):
    """An episode as the loop sees it."""

    attempt: Attempt
    seats: ClassVar[Mapping[str, bool]]

    @property
    def turns_left_s(self) -> float | None:
        """Seconds that the turns may still take."""
        ...

    async def step(self, completion: Completion, *, elapsed_s: float = 0.0) -> None:
        """Take the due completion."""
        ...

    @property
    def has_close(self) -> bool:
        """Whether its author has something to free."""
        ...

    async def open(self) -> None:
        """Run its setup."""
        ...

    def truncate(self, reason: StopReason, detail: str = "") -> None:
        """End by a limit."""
        ...

    def fail(self, error: Exception) -> None:
        """End with a failure."""
        ...

    async def score(self, queue_s: float = 0.0) -> Trajectory:
        """End and score."""
        ...

    async def shut(self) -> None:
        """Run its close."""
        ...


async def roll_out(
    episode: Drivable, model: Seats, sampling: Sampling | None = None, queue_s: float = 0.0
) -> Trajectory:
    """Drive an episode to its end and score it.

    Faults of model, environment, tools and rewards become the trajectory's failure. A cancel
    closes the episode and goes on to the caller.

    Args:
        episode: A fresh one.
        model: One model, or one for each seat.
        sampling: How to sample; its seed is replaced by the attempt's.
        queue_s: Seconds that the attempt has waited, for the record.

    Raises:
        SettingsError: A seat has no model.
    """
    _check_seats(episode, model)
    sampling = replace(sampling or Sampling(), seed=episode.attempt.sampling_seed)
    try:
        with Stopwatch(is_own=True):
            sampling_queue_s = await _drive(episode, model, sampling)
            trajectory = await episode.score(queue_s + sampling_queue_s)
    except BaseException:
        await _shut(episode)
        raise
    fault = await _shut(episode)
    return trajectory if fault is None else _failed(trajectory, fault)


async def _drive(episode: Drivable, model: Seats, sampling: Sampling) -> float:
    """Play all turns; gives the seconds that completions waited in queues."""
    queue_s = 0.0
    # An episode whose calls come several at once samples them itself, each as it comes.
    if (sample_with := getattr(episode, "sample_with", None)) is not None:
        sample_with(_sampler(episode, model, sampling))
    try:
        await episode.open()
        while not episode.is_ended:
            with Stopwatch() as watch:
                completion = await _complete(episode, model, sampling)
            queue_s += watch.queue_s
            await episode.step(completion, elapsed_s=watch.seconds)
    except _TurnsTooLongError as error:
        episode.truncate("time_limit", str(error))
    except ContextOverflowError as error:
        episode.truncate("context_overflow", str(error))
    except BoundaryError as error:
        episode.fail(error)
    return queue_s


class _TurnsTooLongError(Exception):
    """The turns have taken as long as they may."""


def _sampler(episode: Drivable, model: Seats, sampling: Sampling) -> Sampler:
    async def sample(
        messages: Sequence[Message], tools: Sequence[ToolSpec], wish: Sampling | None
    ) -> Completion:
        chosen = model[episode.due_seat] if isinstance(model, Mapping) else model
        own = sampling if wish is None else sampling.narrowed(wish)
        return _told(await chosen.complete(messages, tools, own), own)

    return sample


@dataclass(slots=True)
class _DueCall:
    """What the due seat's model is asked."""

    messages: Sequence[Message]
    tools: Sequence[ToolSpec]
    wish: Sampling | None

    @classmethod
    def of(cls, episode: Drivable) -> Self:
        """Ask the environment for it.

        Raises:
            BoundaryError: Its author's code failed.
        """
        try:
            return cls(episode.messages, episode.tools, episode.due_sampling)
        except FAULTS as error:
            raise fault_of(f"`{type(episode).__name__}`, asked what is due,", error) from error

    def check(self) -> None:
        """Raise for messages that no model can be blamed for not understanding.

        Raises:
            EnvironmentFaultError: One of them is no message.
        """
        odd = next((each for each in self.messages if not is_message(each)), None)
        if odd is not None:
            raise EnvironmentFaultError(
                f"The model was to be asked with {odd!r:.200}, which is no Message with text."
            )


async def _sampled(
    episode: Drivable, due: _DueCall | None, model: Seats, sampling: Sampling
) -> Completion:
    if due is None:
        ended: Completion = await episode.next_completion()  # type: ignore[attr-defined]
        return ended
    chosen = model[episode.due_seat] if isinstance(model, Mapping) else model
    if due.wish is not None:
        sampling = sampling.narrowed(due.wish)
    return _told(await chosen.complete(due.messages, due.tools, sampling), sampling)


def _told(completion: Completion, sampling: Sampling) -> Completion:
    """The completion with what it was drawn with, where its model does not tell."""
    if not is_message(completion.message):
        raise TypeError(f"its completion has {completion.message!r}. Give a Message with text.")
    numbers = (completion.token_ids, completion.prompt_token_ids, completion.logprobs)
    if not all(isinstance(each, _ARRAYS) for each in numbers):
        raise TypeError("its completion has token ids or logprobs in no array. Give array('i', …).")
    return completion if completion.sampling is not None else replace(completion, sampling=sampling)


async def _complete(episode: Drivable, model: Seats, sampling: Sampling) -> Completion:
    left_s = episode.turns_left_s
    due = None if hasattr(episode, "next_completion") else _DueCall.of(episode)
    try:
        if left_s is None:
            return await _sampled(episode, due, model, sampling)
        async with (limit := Patience(left_s)):
            return await _sampled(episode, due, model, sampling)
    except ModelError:
        raise
    except FAULTS as error:
        fault = own_fault(error)
        if left_s is not None and limit.is_spent:
            raise _TurnsTooLongError("the turns took as long as they may") from error
        if due is not None:
            due.check()
        raise ModelError(f"The model raised {type(fault).__name__}: {fault}") from error


def _check_seats(episode: Drivable, model: Seats) -> None:
    if isinstance(model, Mapping) and (missing := [s for s in episode.seats if s not in model]):
        raise SettingsError(
            f"The seats {', '.join(missing)} have no model. Give one for each of: "
            f"{', '.join(episode.seats)}."
        )


async def _shut(episode: Drivable) -> BoundaryError | None:
    if not episode.has_close:
        await episode.shut()
        return None
    # Shielded: a cancel must not stop what frees sandboxes and sockets.
    closing = asyncio.ensure_future(episode.shut())
    try:
        await asyncio.shield(closing)
    except asyncio.CancelledError:
        await asyncio.wait([closing])
        raise
    except BoundaryError as error:
        return error
    return None


def _failed(trajectory: Trajectory, fault: BoundaryError) -> Trajectory:
    if trajectory.failure is not None:
        return trajectory
    seats = {name: replace(seat, reward=None) for name, seat in trajectory.seats.items()}
    failure = failure_of(fault, fault.boundary)
    return replace(trajectory, seats=seats, turn_rewards=None, failure=failure)
