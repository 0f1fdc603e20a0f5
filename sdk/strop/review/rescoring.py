"""Scores saved trajectories with another rubric; no model is asked, and nothing is played again."""

from __future__ import annotations

import asyncio
import json
from collections import Counter, deque
from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, field, replace
from pathlib import Path

from strop.attempt import Attempt
from strop.environment import Environment
from strop.errors import RewardError, TrajectoryFileError
from strop.evaluation import Report, Tally
from strop.replies import only_recorded
from strop.task import Task
from strop.trajectory import Failure, RewardValue, Seat, Trajectory, failure_of
from strop.trajectory_file import TrajectoryReader, TrajectoryWriter
from strop.types import JSON

STAMP = "rescored"
"""Under which a trajectory says with what it was scored again, and the reward it had."""

_NEEDS_REFERENCE = "were written without their task's reference, which scoring needs"


@dataclass(frozen=True, slots=True)
class Rescoring:
    """What scoring a file again showed."""

    old: Report
    new: Report
    changed_count: int
    """Trajectories whose reward is another than before."""
    partial_group_count: int
    """Groups that miss a member: their group rewards keep the recorded values."""
    torn_line: int | None
    """Number of a last line without its end, which was left out."""


@dataclass(slots=True)
class _Survey:
    """What has to be known of a whole file before its first line is scored."""

    groups: Counter[Attempt] = field(default_factory=Counter)
    group_size: int = 1
    has_reference: bool = True
    """Whether every task has its reference; without, the new file keeps them secret too."""

    def is_whole(self, group: Attempt) -> bool:
        return self.groups[group] == self.group_size

    @property
    def partial_count(self) -> int:
        return sum(not self.is_whole(group) for group in self.groups)


async def rescore(
    environment: Environment,
    source: Path,
    target: Path,
    *,
    concurrency: int = 64,
    may_ask: bool = False,
    on_trajectory: Callable[[int, int], None] | None = None,
) -> Rescoring:
    """Score a file's trajectories with an environment's rubric and write them to another file.

    Live rewards keep their recorded values, judges and the like answer from the record, and
    group rewards are compared again where every member of the group is there. A failure of a
    reward function is lifted and scored anew; other failures stay.

    Args:
        environment: Opened and closed here; only its rubric is used.
        source: Read, never changed.
        target: A new file.
        concurrency: Trajectories scored at once, ≥ 1.
        may_ask: Whether judges are asked what the record does not answer.
        on_trajectory: Told how many of how many are written.

    A group is whole when it has as many members as the file's largest.

    Raises:
        TrajectoryFileError: `source` cannot be read, or `target` is there already.
        SettingsError: The rubric is for other seats than the trajectories have.
    """
    survey = _survey(source)
    environment.allow_concurrency(concurrency)
    old, new = Tally(survey.group_size), Tally(survey.group_size)
    changed_count = 0
    reader = TrajectoryReader(source)
    with _new_file(target, survey) as writer, nullcontext() if may_ask else only_recorded():
        async with environment:
            scoring = _Scoring(environment, survey)
            async for before, after in scoring.scored(iter(reader), concurrency):
                writer.write(after)
                old.add(before)
                new.add(after)
                changed_count += before.reward != after.reward
                if on_trajectory is not None:
                    on_trajectory(new.attempt_count, survey.groups.total())
    return Rescoring(
        old.report(),
        new.report(),
        changed_count,
        survey.partial_count if environment.has_group_rewards else 0,
        None if reader.torn is None else reader.torn.line_number,
    )


@contextmanager
def _new_file(target: Path, survey: _Survey) -> Iterator[TrajectoryWriter]:
    """A writer whose file gets its name when all of it is written."""
    if target.exists():
        raise TrajectoryFileError(f"{target} is there already. Choose another one with --out.")
    unfinished = target.with_name(f".{target.name}.unfinished")
    unfinished.unlink(missing_ok=True)
    try:
        with TrajectoryWriter(unfinished, has_reference=survey.has_reference) as writer:
            yield writer
        unfinished.replace(target)
    finally:
        unfinished.unlink(missing_ok=True)


_Pair = tuple[Trajectory, Trajectory]
"""A trajectory as it was, and scored again."""


class _Scoring:
    def __init__(self, environment: Environment, survey: _Survey) -> None:
        self._environment = environment
        self._survey = survey
        self._stamp: dict[str, JSON] = {
            "environment": environment.identity.full_name,
            "version": environment.identity.version,
            "digest": environment.identity.digest,
            "state": environment.identity.state,
            "settings": environment.settings,
            "strop_version": environment.strop_version,
        }

    async def scored(
        self, trajectories: Iterator[Trajectory], concurrency: int
    ) -> AsyncIterator[_Pair]:
        """Pairs in the file's order; members that are compared again come together."""
        waiting: dict[Attempt, list[_Pair]] = {}
        async for pair in self._each(trajectories, concurrency):
            group = pair[0].attempt.group
            if not self._environment.has_group_rewards or not self._survey.is_whole(group):
                yield self._finished(pair)
                continue
            members = waiting.setdefault(group, [])
            members.append(pair)
            if len(members) == self._survey.group_size:
                for each in await self._compared(waiting.pop(group)):
                    yield self._finished(each)

    async def _each(
        self, trajectories: Iterator[Trajectory], concurrency: int
    ) -> AsyncIterator[_Pair]:
        pending: deque[asyncio.Task[_Pair]] = deque()
        try:
            for trajectory in trajectories:
                pending.append(asyncio.create_task(self._score(trajectory)))
                if len(pending) >= concurrency:
                    yield await pending.popleft()
            while pending:
                yield await pending.popleft()
        finally:
            for task in pending:
                task.cancel()
            await asyncio.gather(*pending, return_exceptions=True)

    async def _score(self, before: Trajectory) -> _Pair:
        given = before
        if before.failure is not None and before.failure.boundary == "reward":
            given = replace(given, failure=None)
        if not self._survey.has_reference:
            given = replace(given, task=self._whole_task(before))
        after = await self._environment.score(given)
        return before, replace(after, task=before.task, timing=before.timing)

    async def _compared(self, pairs: list[_Pair]) -> list[_Pair]:
        members = await self._environment.score_group([after for _, after in pairs])
        return [(before, m) for (before, _), m in zip(pairs, members, strict=True)]

    def _finished(self, pair: _Pair) -> _Pair:
        before, after = pair
        stamps: dict[str, JSON] = {STAMP: {**self._stamp, "reward": before.reward}}
        if before.failure is not None and before.failure.boundary != "reward":
            return before, after.stamped(**stamps)
        # A seat that this rubric does not reward keeps nothing of what another one gave it.
        seats = {
            name: Seat(seat.is_trainable) if seat.rewards is before.seats[name].rewards else seat
            for name, seat in after.seats.items()
        }
        parts = {name: part for seat in seats.values() for name, part in seat.rewards.items()}
        metrics = {n: p.value for n, p in parts.items() if p.weight == 0 and p.value is not None}
        failure = after.failure or _lost(before, after, parts)
        if failure is not None:
            seats = {name: replace(seat, reward=None) for name, seat in seats.items()}
            after = replace(after, turn_rewards=None)
        scored = replace(after, seats=seats, metrics=metrics, failure=failure)
        return before, scored.stamped(**stamps)

    def _whole_task(self, trajectory: Trajectory) -> Task:
        attempt, task = trajectory.attempt, trajectory.task
        try:
            own = self._environment.tasks[attempt.split].get(attempt.task_key)
        except KeyError:
            own = None
        if own is None or (own.prompt, own.metadata) != (task.prompt, task.metadata):
            raise TrajectoryFileError(
                f"The trajectories {_NEEDS_REFERENCE}, and the environment has another task "
                f"{attempt.task_key!r}. Score with the version that made them."
            )
        return Task(task.key, task.prompt, own.reference, task.metadata, task.split)


def _lost(
    before: Trajectory, after: Trajectory, parts: Mapping[str, RewardValue]
) -> Failure | None:
    missing = [name for name, part in parts.items() if part.value is None]
    missing += [name for name, part in after.turn_values.items() if part.values is None]
    if not missing:
        return None
    names = ", ".join(f"`{name}`" for name in missing)
    error = RewardError(f"{names}: no value is recorded, and the record alone gives none.")
    return before.failure or failure_of(error, "reward")


def _survey(source: Path) -> _Survey:
    survey = _Survey()
    with source.open("rb") as lines:
        for index, line in enumerate(lines):
            if not line.endswith(b"\n"):
                break
            try:
                value = json.loads(line)
                attempt = Attempt(
                    **{name: value["attempt"][name] for name in Attempt.__dataclass_fields__}
                )
                has_reference = "reference" in value["task"]
            except (ValueError, KeyError, TypeError, RecursionError) as error:
                raise TrajectoryFileError(
                    f"{source}, line {index + 1} is no trajectory: {error!r}. "
                    "See `strop trajectory validate`."
                ) from error
            survey.groups[attempt.group] += 1
            survey.group_size = max(survey.group_size, attempt.member + 1)
            survey.has_reference = survey.has_reference and has_reference
    return survey
