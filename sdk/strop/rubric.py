"""Score trajectories: reward functions in, one reward for each seat and its parts out."""

from __future__ import annotations

import math
import traceback
from collections.abc import Sequence
from dataclasses import replace
from typing import Any, TypedDict

from strop.errors import ModelAuthError, RewardError, SandboxError, SettingsError
from strop.faults import FAULTS, own_fault
from strop.limits import limited
from strop.replies import Replies
from strop.reward_function import Reward, RewardFunction
from strop.stopwatch import Stopwatch
from strop.threads import Threads
from strop.trajectory import Failure, RewardValue, Seat, Timing, Trajectory, TurnValues, failure_of


class _Scores(TypedDict):
    """The fields of a trajectory that values of reward functions decide."""

    seats: dict[str, Seat]
    metrics: dict[str, float]
    turn_rewards: tuple[float, ...] | None
    failure: Failure | None


class Rubric:
    """The weighted list of reward functions of an environment.

    Args:
        rewards: A plain function counts with weight 1.
        limit_s: Seconds that one function may take; None sets no limit.

    Raises:
        ValueError: Two functions have one name, or a signature is wrong.
    """

    def __init__(
        self, rewards: Sequence[Reward | RewardFunction], limit_s: float | None = None
    ) -> None:
        self.rewards = tuple(r if isinstance(r, Reward) else Reward(r) for r in rewards)
        self._limit_s = limit_s
        self._group = tuple(each for each in self.rewards if each.is_group)
        self._turn = tuple(each for each in self.rewards if each.is_turn)
        self._summed = tuple(each for each in self.rewards if not each.is_turn)
        self._single = tuple(each for each in self._summed if not each.is_group)
        names = [each.name for each in self.rewards]
        doubled = sorted({name for name in names if names.count(name) > 1})
        if doubled:
            raise ValueError(
                f"Two reward functions are called {', '.join(doubled)}. "
                "Give one another name: @reward(name=…)."
            )

    @property
    def has_group(self) -> bool:
        """Whether members are compared: then a reward is complete only with its group."""
        return bool(self._group)

    async def score(
        self, trajectory: Trajectory, threads: Threads, episode: object | None = None
    ) -> Trajectory:
        """A copy with rewards, their parts and metrics; or with a failure that names the function.

        A trajectory that failed already is not scored. Every function runs, also after one
        failed; then the seat's reward is None, never 0. Turns are rewarded first, so that others
        may read `turn_rewards`. Group rewards keep recorded values; without any the reward stays
        None until `score_group`.

        Args:
            trajectory: A finished one.
            threads: Where `def` functions run.
            episode: The open episode for live functions; None leaves their recorded values.
        """
        if trajectory.failure is not None:
            return trajectory
        replies = Replies(trajectory.replies)
        values: dict[str, RewardValue] = {}
        failure: Failure | None = None
        with Stopwatch() as watch:
            if self._turn or trajectory.turn_rewards is not None or trajectory.turn_values:
                turns, fault = await self._score_turns(trajectory, threads, episode, replies)
                trajectory, unsummed = _with_turns(trajectory, turns)
                failure = fault or unsummed
            for each in self._single:
                if each.is_live and episode is None:
                    values[each.name] = _recorded(trajectory, each)
                    continue
                arguments = _arguments(each, trajectory, episode, replies)
                values[each.name], fault = await self._run(each, arguments, threads)
                failure = _first_or_graver(failure, fault)
        for each in self._group:
            values[each.name] = _recorded(trajectory, each)
        return replace(
            trajectory,
            **self._scores(trajectory, values, failure),
            replies=replies.recorded(),
            timing=_with_scoring(trajectory.timing, watch),
        )

    async def score_group(
        self, trajectories: Sequence[Trajectory], threads: Threads
    ) -> list[Trajectory]:
        """Copies of a group's members with its group rewards; failed members stay as they are.

        Args:
            trajectories: The members, each scored by `score`.
            threads: Where `def` functions run.
        """
        members = list(trajectories)
        valid = [index for index, member in enumerate(members) if member.failure is None]
        if not valid:
            return members
        values = [dict(_values(members[index])) for index in valid]
        failures: list[Failure | None] = [None] * len(valid)
        for each in self._group:
            given = [members[index] for index in valid]
            numbers, fault = await self._run_group(each, given, threads)
            for place, number in enumerate(numbers):
                value, own = (_failed(each, fault), fault) if fault else _judged(each, number)
                values[place][each.name] = value
                failures[place] = _first_or_graver(failures[place], own)
        for place, index in enumerate(valid):
            scores = self._scores(members[index], values[place], failures[place])
            members[index] = replace(members[index], **scores)
        return members

    async def _run(
        self, each: Reward, arguments: list[Any], threads: Threads
    ) -> tuple[RewardValue, Failure | None]:
        try:
            value = await self._call(each, arguments, threads)
        except FAULTS as error:
            fault = _fault(each, error, self._limit_s)
            return _failed(each, fault), fault
        return _judged(each, value)

    async def _score_turns(
        self, trajectory: Trajectory, threads: Threads, episode: object | None, replies: Replies
    ) -> tuple[dict[str, TurnValues], Failure | None]:
        turns: dict[str, TurnValues] = {}
        failure: Failure | None = None
        for each in self._turn:
            if each.is_live and episode is None:
                turns[each.name] = _recorded_turns(trajectory, each)
                continue
            arguments = _arguments(each, trajectory, episode, replies)
            try:
                given = await self._call(each, arguments, threads)
                values = each.checked_turns(given, trajectory.turn_count)
            except FAULTS as error:
                fault = _fault(each, error, self._limit_s)
                turns[each.name] = TurnValues(None, each.weight, each.range, fault.message)
                failure = _first_or_graver(failure, fault)
            else:
                turns[each.name] = TurnValues(values, each.weight, each.range)
        return turns, failure

    async def _run_group(
        self, each: Reward, members: list[Trajectory], threads: Threads
    ) -> tuple[list[Any], Failure | None]:
        try:
            numbers = list(await self._call(each, [members], threads))
            if len(numbers) != len(members):
                raise RewardError(
                    f"`{each.name}` returned {len(numbers)} numbers for {len(members)} members."
                )
        except FAULTS as error:
            return [None] * len(members), _fault(each, error, self._limit_s)
        return numbers, None

    async def _call(self, each: Reward, arguments: list[Any], threads: Threads) -> Any:
        if each.is_inline and not each.is_async:
            return each.function(*arguments)
        if each.is_process:
            return await self._call_process(each, arguments[0], threads)
        call = each.function if each.is_async else threads.call
        given = arguments if each.is_async else [each.function, *arguments]
        if self._limit_s is None:
            return await call(*given)
        async with limited(self._limit_s):
            return await call(*given)

    async def _call_process(self, each: Reward, given: Any, threads: Threads) -> Any:
        try:
            async with limited(self._limit_s):
                return await threads.processes.call(each.function, given)
        except RewardError as error:
            raise RewardError(f"`{each.name}` {error}") from error

    def _scores(
        self, trajectory: Trajectory, values: dict[str, RewardValue], failure: Failure | None
    ) -> _Scores:
        main = trajectory.main_seat
        by_seat: dict[str, dict[str, RewardValue]] = {main: {}}
        metrics: dict[str, float] = {}
        for each in self._summed:
            value = values[each.name]
            by_seat.setdefault(each.seat or main, {})[each.name] = value
            if each.weight == 0.0 and value.value is not None:
                metrics[each.name] = value.value
        seats = dict(trajectory.seats)
        if not by_seat.keys() <= seats.keys():
            raise SettingsError(
                f"The rewards are for the seats {', '.join(by_seat)}, the trajectory has "
                f"{', '.join(seats)}. Score it with an environment of the same seats."
            )
        for name, parts in by_seat.items():
            total = _total(parts)
            seats[name] = Seat(seats[name].is_trainable, total, parts)
            if total is None and all(part.value is not None for part in parts.values()):
                error = RewardError(
                    f"The weighted sum of {', '.join(f'`{part}`' for part in parts)} is beyond "
                    "every float. Choose smaller weights."
                )
                failure = failure or failure_of(error, "reward")
        if failure is not None:
            seats = {name: replace(seat, reward=None) for name, seat in seats.items()}
        return _Scores(
            seats=seats,
            metrics={**trajectory.metrics, **metrics} if metrics else trajectory.metrics,
            turn_rewards=None if failure is not None else trajectory.turn_rewards,
            failure=failure,
        )


def _arguments(
    each: Reward, trajectory: Trajectory, episode: object | None, replies: Replies
) -> list[Any]:
    arguments: list[Any] = [trajectory]
    if each.is_live:
        arguments.append(episode)
    if each.is_outside:
        arguments.append(replies)
    return arguments


def _with_turns(
    trajectory: Trajectory, turns: dict[str, TurnValues]
) -> tuple[Trajectory, Failure | None]:
    """A copy with these values of its turns and their sums."""
    sums = [0.0] * trajectory.turn_count
    is_whole = bool(turns)
    for each in turns.values():
        if each.values is None:
            is_whole = False
        else:
            sums = [s + each.weight * value for s, value in zip(sums, each.values, strict=True)]
    failure = None
    if is_whole and not all(map(math.isfinite, sums)):
        is_whole = False
        names = ", ".join(f"`{name}`" for name in turns)
        message = f"A turn's weighted sum of {names} is beyond every float. Choose smaller weights."
        failure = failure_of(RewardError(message), "reward")
    rewards = tuple(sums) if is_whole else None
    return replace(trajectory, turn_rewards=rewards, turn_values=turns), failure


def _with_scoring(timing: Timing, watch: Stopwatch) -> Timing:
    queue_s = timing.queue_s + watch.queue_s
    return Timing(queue_s, timing.setup_s, timing.turns_s, timing.tools_s, watch.seconds)


def _total(parts: dict[str, RewardValue]) -> float | None:
    total = 0.0
    for part in parts.values():
        if part.value is None:
            return None
        total += part.weight * part.value
    return total if math.isfinite(total) else None


def _judged(each: Reward, value: Any) -> tuple[RewardValue, Failure | None]:
    try:
        return RewardValue(each.checked(value), each.weight, each.range), None
    except RewardError as error:
        fault = failure_of(error, "reward")
        return _failed(each, fault), fault


def _failed(each: Reward, fault: Failure | None) -> RewardValue:
    message = None if fault is None else fault.message
    return RewardValue(None, each.weight, each.range, message)


def _fault(each: Reward, error: BaseException, limit_s: float | None) -> Failure:
    error = own_fault(error)
    text = "".join(traceback.format_exception(error, limit=-8))
    if isinstance(error, TimeoutError) and limit_s is not None:
        error = RewardError(f"`{each.name}` took longer than {limit_s} s.")
    elif isinstance(error, SandboxError):
        return failure_of(SandboxError(f"`{each.name}`: {error}"), error.boundary, text)
    elif isinstance(error, ModelAuthError):
        # Keeps its type, by which a run stops: no other attempt is let in by the judge either.
        error = ModelAuthError(f"`{each.name}`: {error}")
    elif not isinstance(error, RewardError):
        error = RewardError(f"`{each.name}` raised {type(error).__name__}: {error}")
    return failure_of(error, "reward", text)


def _first_or_graver(first: Failure | None, later: Failure | None) -> Failure | None:
    is_graver = later is not None and later.type == ModelAuthError.__name__
    return later if first is None or is_graver else first


def _values(trajectory: Trajectory) -> dict[str, RewardValue]:
    return {name: part for seat in trajectory.seats.values() for name, part in seat.rewards.items()}


def _recorded_turns(trajectory: Trajectory, each: Reward) -> TurnValues:
    recorded = trajectory.turn_values.get(each.name)
    if recorded is None or recorded.values is None:
        return TurnValues(None, each.weight, each.range, "not recorded")
    return replace(recorded, weight=each.weight)


def _recorded(trajectory: Trajectory, each: Reward) -> RewardValue:
    recorded = _values(trajectory).get(each.name)
    if recorded is None or recorded.value is None:
        return RewardValue(None, each.weight, each.range, "not recorded")
    return replace(recorded, weight=each.weight)
