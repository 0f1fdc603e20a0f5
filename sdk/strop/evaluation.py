"""From a run to a report: mean, standard error, pass@k (step: reward)."""

from __future__ import annotations

import copy
import math
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path

from strop.attempt import Attempt
from strop.environment import Environment
from strop.errors import TrajectoryFileError
from strop.models.outcome import USUAL, outcome_of
from strop.runner import Finished, RunPlan, run
from strop.trajectory import Trajectory
from strop.trajectory_file import TrajectoryReader, TrajectoryWriter
from strop.types import JSON, Seats, Usage
from strop.waiting import WaitingMembers

_CAUSES_SHOWN = 10
_CAUSES_HELD = 1_000
_CAUSE_CHARS = 300
_NO_USAGE = Usage()

TRAJECTORIES_NAME = "trajectories.jsonl"
WAITING_NAME = "waiting"
"""Folder of the members whose group is not whole."""


@dataclass(frozen=True, slots=True)
class Report:
    """What a run showed; failures are counted apart and are in no mean."""

    attempt_count: int
    scored_count: int
    task_count: int
    """Tasks with at least one scored attempt."""
    mean_reward: float | None
    """Over scored attempts; None when there are none."""
    standard_error: float | None
    """Of the mean, by task: a group's members are not independent; None below two tasks."""
    pass_at: dict[int, float]
    """Chance that at least one of k attempts reaches the passing reward, by k."""
    metrics: dict[str, float]
    """Means of reward functions and metrics by name."""
    failures: dict[str, int]
    """How many attempts failed, by the error's type."""
    causes: dict[str, int]
    """The commonest messages of failures, at most ten, and how often each came."""
    truncated_count: int
    mean_turns: float | None
    usage: Usage
    """Of the seats' models."""
    outside_usage: Usage = field(default_factory=Usage)
    """Of judges and other services outside."""
    seat_usage: dict[str, Usage] = field(default_factory=dict)
    """Of each seat's model; together they are `usage`."""
    source_usage: dict[str, Usage] = field(default_factory=dict)
    """By source, such as ``judge:helpful``; together they are `outside_usage`."""
    environments: dict[str, Report] = field(default_factory=dict)
    """By full name, where a run mixes several."""
    odd_replies: dict[str, int] = field(default_factory=dict)
    """How many completions, of any seat, are neither answer nor tool calls: ``truncated``,
    ``filtered``, ``reasoning_only`` or ``empty``, as `strop.models.outcome.outcome_of` says."""

    def to_json(self) -> dict[str, JSON]:
        """The report as JSON; keys of `pass_at` become strings."""
        value = asdict(self)
        value["pass_at"] = {str(k): share for k, share in self.pass_at.items()}
        value["environments"] = {name: r.to_json() for name, r in self.environments.items()}
        return value


def pass_at_k(attempt_count: int, passed_count: int, k: int) -> float:
    """The unbiased estimate of the chance that one of k attempts passes.

    Args:
        attempt_count: Attempts at the task, ≥ k.
        passed_count: Those that passed.
        k: Attempts that one is allowed, ≥ 1.

    Source:
        arXiv:2107.03374, section 2.1.
    """
    missed = math.comb(attempt_count - passed_count, k)
    return 1.0 - missed / math.comb(attempt_count, k)


@dataclass(slots=True)
class _Mean:
    count: int = 0
    mean: float = 0.0
    squares: float = 0.0

    def add(self, value: float) -> None:
        # Welford's update keeps precision over any number of values.
        self.count += 1
        delta = value - self.mean
        self.mean += delta / self.count
        self.squares += delta * (value - self.mean)

    @property
    def standard_error(self) -> float | None:
        if self.count < 2:
            return None
        return math.sqrt(self.squares / (self.count - 1) / self.count)


@dataclass(slots=True)
class _Group:
    attempt_count: int = 0
    rewards: list[float] = field(default_factory=list)


class Tally:
    """Counts trajectories as they come, in memory that does not grow with their number.

    Only groups that still miss a member are held.
    """

    def __init__(self, group_size: int = 1, passing_reward: float = 1.0) -> None:
        """Begin at zero.

        Args:
            group_size: Attempts at each task.
            passing_reward: From which reward on an attempt counts as passed.
        """
        self._group_size = group_size
        self._passing_reward = passing_reward
        self._open: dict[Attempt, _Group] = {}
        self._attempt_count = 0
        self._truncated_count = 0
        self._seat_usage: dict[str, Usage] = {}
        self._source_usage: dict[str, Usage] = {}
        self._rewards, self._tasks, self._turns = _Mean(), _Mean(), _Mean()
        self._metrics: dict[str, _Mean] = {}
        self._passes: dict[int, _Mean] = {}
        self._failures: Counter[str] = Counter()
        self._causes: Counter[str] = Counter()
        self._odd_replies: Counter[str] = Counter()
        self._name: str | None = None
        self._parts: dict[str, Tally] = {}

    @property
    def attempt_count(self) -> int:
        """How many trajectories came."""
        return self._attempt_count

    def add(self, trajectory: Trajectory) -> None:
        """Count one trajectory."""
        self._add_to_part(trajectory)
        self._attempt_count += 1
        self._truncated_count += trajectory.is_truncated
        add_seat_usage(self._seat_usage, trajectory)
        add_source_usage(self._source_usage, trajectory)
        self._count_odd_replies(trajectory)
        if trajectory.failure is not None:
            self._failures[trajectory.failure.type] += 1
            self._count_cause(trajectory.failure.message)
        reward = None if trajectory.failure is not None else trajectory.reward
        if reward is not None:
            self._rewards.add(reward)
            self._turns.add(trajectory.turn_count)
            for name, value in trajectory.rewards.items():
                if value.value is not None:
                    self._metrics.setdefault(name, _Mean()).add(value.value)
        self._add_to_group(trajectory.attempt, reward)

    def report(self) -> Report:
        """The figures so far; groups that still miss a member count with those they have."""
        tasks, passes = self._tasks, self._passes
        if self._open:
            tasks = _Mean(tasks.count, tasks.mean, tasks.squares)
            passes = {k: _Mean(m.count, m.mean, m.squares) for k, m in passes.items()}
            for group in self._open.values():
                self._close(group, tasks, passes)
        return Report(
            attempt_count=self._attempt_count,
            scored_count=self._rewards.count,
            task_count=tasks.count,
            mean_reward=self._rewards.mean if self._rewards.count else None,
            standard_error=tasks.standard_error,
            pass_at={k: passes[k].mean for k in sorted(passes)},
            metrics={name: mean.mean for name, mean in self._metrics.items()},
            failures=dict(self._failures),
            causes=dict(self._causes.most_common(_CAUSES_SHOWN)),
            truncated_count=self._truncated_count,
            mean_turns=self._turns.mean if self._turns.count else None,
            usage=sum(self._seat_usage.values(), Usage()),
            outside_usage=sum(self._source_usage.values(), Usage()),
            seat_usage=dict(self._seat_usage),
            source_usage=dict(self._source_usage),
            environments={name: part.report() for name, part in self._parts.items()},
            odd_replies=dict(self._odd_replies),
        )

    def _count_odd_replies(self, trajectory: Trajectory) -> None:
        for segment in trajectory.segments:
            if segment.kind == "completion" and (outcome := outcome_of(segment)) not in USUAL:
                self._odd_replies[outcome] += 1

    def _count_cause(self, message: str) -> None:
        cause = message[:_CAUSE_CHARS]
        # Messages that never repeat must not fill the memory.
        if cause in self._causes or len(self._causes) < _CAUSES_HELD:
            self._causes[cause] += 1

    def _add_to_part(self, trajectory: Trajectory) -> None:
        name = trajectory.environment.full_name
        if self._name is None:
            self._name = name
        elif name != self._name and not self._parts:
            # Everything so far was of the first environment: that is its part.
            self._parts[self._name] = copy.deepcopy(self)
        if self._parts:
            part = self._parts.get(name)
            if part is None:
                part = self._parts[name] = Tally(self._group_size, self._passing_reward)
            part.add(trajectory)

    def _add_to_group(self, attempt: Attempt, reward: float | None) -> None:
        if self._group_size == 1:
            self._close(_Group(1, [] if reward is None else [reward]), self._tasks, self._passes)
            return
        key = attempt.group
        group = self._open.setdefault(key, _Group())
        group.attempt_count += 1
        if reward is not None:
            group.rewards.append(reward)
        if group.attempt_count >= self._group_size:
            del self._open[key]
            self._close(group, self._tasks, self._passes)

    def _close(self, group: _Group, tasks: _Mean, passes: dict[int, _Mean]) -> None:
        rewards = group.rewards
        if not rewards:
            return
        tasks.add(math.fsum(rewards) / len(rewards))
        passed_count = sum(reward >= self._passing_reward for reward in rewards)
        k = 1
        while k <= len(rewards):
            passes.setdefault(k, _Mean()).add(pass_at_k(len(rewards), passed_count, k))
            k *= 2


def add_seat_usage(usage: dict[str, Usage], trajectory: Trajectory) -> None:
    """Add what the completions of a trajectory took to what each seat's model took before."""
    for segment in trajectory.segments:
        if segment.usage is not None:
            usage[segment.seat] = usage.get(segment.seat, _NO_USAGE) + segment.usage


def add_source_usage(usage: dict[str, Usage], trajectory: Trajectory) -> None:
    """Add what judges and other services outside took to what each source took before."""
    for reply in trajectory.replies:
        if reply.usage is not None:
            usage[reply.source] = usage.get(reply.source, _NO_USAGE) + reply.usage


def summarize(
    trajectories: Sequence[Trajectory], group_size: int = 1, passing_reward: float = 1.0
) -> Report:
    """The report of trajectories that are at hand."""
    tally = Tally(group_size, passing_reward)
    for trajectory in trajectories:
        tally.add(trajectory)
    return tally.report()


async def evaluate(
    environment: Environment,
    model: Seats,
    plan: RunPlan,
    *,
    out: Path | None = None,
    is_resumed: bool = False,
    passing_reward: float = 1.0,
    on_trajectory: Callable[[Trajectory], None] | None = None,
    on_finished: Callable[[Trajectory], None] | None = None,
    has_fsync: bool = False,
    has_reference: bool = True,
) -> Report:
    """Run a plan and report on it.

    Args:
        environment: Opened and closed here.
        model: One model, or one for each seat.
        plan: What to run.
        out: A folder for ``trajectories.jsonl``; None keeps nothing.
        is_resumed: Whether attempts that `out` holds already are kept and not made again.
        passing_reward: From which reward on an attempt counts as passed, for pass@k.
        on_trajectory: Called with each trajectory as it ends, for progress.
        on_finished: Called before with each that `out` holds already.
        has_fsync: Whether each line is on the disk before the next one: for power cuts.
        has_reference: Whether lines hold the tasks' references; without, answers stay secret.

    Raises:
        TrajectoryFileError: `out` holds results and the run is not a resumed one.
        RunStoppedError: Authentication failed, or the failure budget is spent.
    """
    tally, finished, files = Tally(plan.group_size, passing_reward), Finished(), None
    if out is not None:
        path = _output_path(out, is_resumed=is_resumed)
        files = _Files(path, has_fsync=has_fsync, has_reference=has_reference)
        is_compared = environment.has_group_rewards
        for trajectory in _finished_lines(path, on_finished, has_blobs=is_compared):
            tally.add(trajectory)
            finished.add(trajectory, group_size=plan.group_size, is_compared=is_compared)
        finished.waiting = files.waiting.read(finished.attempts)

    def keep(trajectory: Trajectory) -> None:
        if files is not None:
            files.lines.write(trajectory)
        tally.add(trajectory)
        if on_trajectory is not None:
            on_trajectory(trajectory)

    waiting = None if files is None else files.waiting
    try:
        async with environment:
            await run(
                environment, model, plan, on_trajectory=keep, finished=finished, waiting=waiting
            )
    finally:
        if files is not None:
            files.close()
    return tally.report()


def _finished_lines(
    path: Path, on_finished: Callable[[Trajectory], None] | None, *, has_blobs: bool
) -> Iterator[Trajectory]:
    for trajectory in TrajectoryReader(path, has_blobs=has_blobs):
        if on_finished is not None:
            on_finished(trajectory)
        yield trajectory


class _Files:
    """What a run keeps in its folder."""

    def __init__(self, path: Path, *, has_fsync: bool, has_reference: bool) -> None:
        folder = path.with_name(WAITING_NAME)
        self.lines = TrajectoryWriter(path, has_fsync=has_fsync, has_reference=has_reference)
        self.waiting = WaitingMembers(folder, has_fsync=has_fsync, has_reference=has_reference)

    def close(self) -> None:
        self.waiting.close()
        self.lines.close()


def _output_path(out: Path, *, is_resumed: bool) -> Path:
    path = out / TRAJECTORIES_NAME
    has_results = path.exists() and path.stat().st_size > 0
    if not is_resumed and (has_results or WaitingMembers(out / WAITING_NAME)):
        raise TrajectoryFileError(
            f"{path} holds results already. Go on with that run (--resume), or choose another "
            "folder."
        )
    out.mkdir(parents=True, exist_ok=True)
    return path
