"""Many tasks times group size, in bounded memory and concurrency (step: rollout)."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from itertools import islice

from strop.attempt import Attempt
from strop.descriptors import allow_open_files
from strop.environment import Environment
from strop.errors import ModelAuthError, RunStoppedError, SettingsError, UnwritableError
from strop.limits import spent_tokens
from strop.salvage import failed_copy
from strop.task import Task
from strop.trajectory import Trajectory
from strop.types import Sampling, Seats
from strop.waiting import WaitingMembers
from strop.watchdog import Watchdog


@dataclass(frozen=True, slots=True)
class RunPlan:
    """Which attempts a run makes, and how many at once."""

    split: str = "train"
    task_count: int | None = None
    """How many tasks; None for all, which an infinite split refuses."""
    skip_count: int = 0
    """Tasks passed over before the first one."""
    keys: tuple[str, ...] | None = None
    """Only the tasks of these keys, in this order; a key that comes again is a new visit."""
    group_size: int = 1
    """Attempts at each task, under one environment seed; ≥ 1."""
    concurrency: int = 64
    """Attempts in flight at most; ≥ 1."""
    seed: int = 0
    """From which every attempt's seeds follow."""
    sampling: Sampling = field(default_factory=Sampling)
    max_failure_share: float = 0.2
    """The run stops when more of its attempts fail, once there were `failure_grace_count`."""
    failure_grace_count: int = 50
    token_budget: int | None = None
    """Prompt and sampled tokens after which no further attempt begins; None sets no limit.

    Where members of a group are compared, a group that has begun is still made whole."""

    def __post_init__(self) -> None:
        if self.skip_count < 0:
            raise SettingsError(f"skip_count is {self.skip_count}. It must be at least 0.")
        for name in ("group_size", "concurrency"):
            if getattr(self, name) < 1:
                raise SettingsError(f"{name} is {getattr(self, name)}. It must be at least 1.")

    def draws(self, environment: Environment) -> Iterator[tuple[Task, int]]:
        """The tasks in order, each loaded in its turn, with how often it was drawn before.

        Raises:
            SettingsError: There is no such split or key, or no end.
        """
        tasks = environment.tasks.get(self.split)
        if tasks is None:
            known = ", ".join(environment.tasks)
            raise SettingsError(f"There is no split {self.split!r}. This environment has: {known}.")
        if self.keys is not None:
            return _named_draws(environment, self.split, self.keys)
        if self.task_count is None and tasks.is_infinite:
            raise SettingsError(
                f"The split {self.split!r} has no end. Say how many tasks to run (task_count)."
            )
        return islice(tasks.draws(self.skip_count), self.task_count)

    def attempts(self, environment: Environment) -> Iterator[tuple[Task, Attempt]]:
        """Every attempt in order; the members of a group stand together."""
        for task, visit in self.draws(environment):
            first = environment.attempt(task, run_seed=self.seed, visit=visit)
            for member in range(self.group_size):
                yield task, replace(first, member=member) if member else first


class _Budget:
    """Stops a run whose grader or endpoint keeps failing."""

    def __init__(self, plan: RunPlan) -> None:
        self._plan = plan
        self._attempt_count = 0
        self._causes: Counter[str] = Counter()

    def charge(self, trajectory: Trajectory) -> None:
        """Count an attempt.

        Raises:
            RunStoppedError: The run is not worth going on with.
        """
        self._attempt_count += 1
        failure = trajectory.failure
        if failure is None:
            return
        self._causes[f"{failure.type}: {failure.message}"] += 1
        failed = self._causes.total()
        limit = self._plan.max_failure_share * self._attempt_count
        if self._attempt_count >= self._plan.failure_grace_count and failed > limit:
            cause, count = self._causes.most_common(1)[0]
            raise RunStoppedError(
                f"{failed} of {self._attempt_count} attempts failed, {count} with: {cause}. "
                "Mend the cause and resume, or allow more with max_failure_share."
            )


@dataclass(slots=True)
class Finished:
    """Attempts that an earlier run made: they are not made again."""

    attempts: set[Attempt] = field(default_factory=set)
    members: dict[Attempt, list[Trajectory]] = field(default_factory=dict)
    """By group, the members of groups that are not whole: what the missing ones are compared
    with. Only kept where members are compared."""
    waiting: dict[Attempt, Trajectory] = field(default_factory=dict)
    """Members that were made and not handed over: their group was not compared yet."""

    def add(self, trajectory: Trajectory, *, group_size: int, is_compared: bool) -> None:
        """Count an attempt as made."""
        attempt = trajectory.attempt
        self.attempts.add(attempt)
        if is_compared:
            members = self.members.setdefault(attempt.group, [])
            members.append(trajectory)
            if len(members) == group_size:
                del self.members[attempt.group]


async def run(
    environment: Environment,
    model: Seats,
    plan: RunPlan,
    *,
    on_trajectory: Callable[[Trajectory], None],
    finished: Finished | None = None,
    waiting: WaitingMembers | None = None,
) -> None:
    """Make every attempt of a plan once.

    Memory is bounded by the concurrency, not by the number of attempts. Where members of a
    group are compared, they are handed over together.

    Args:
        environment: An open one: the caller stands inside its ``async with``.
        model: One model, or one for each seat.
        plan: What to run.
        on_trajectory: Called on the event loop with each trajectory as it ends. Where it raises
            `UnwritableError`, it is called again with a failed copy that can be written.
        finished: What an earlier run made, when one is resumed.
        waiting: Keeps members until their group is compared; None loses them with the run.

    Raises:
        RunStoppedError: Authentication failed, the failure budget is spent, or an attempt was
            cancelled from within.
    """
    allow_open_files()
    environment.allow_concurrency(plan.concurrency)
    work = _Work(environment, model, plan, on_trajectory, finished or Finished())
    if plan.group_size > 1:
        work.waiting = waiting
    try:
        with Watchdog():
            async with asyncio.TaskGroup() as workers:
                tasks = [workers.create_task(work.go_on()) for _ in range(plan.concurrency)]
    except BaseExceptionGroup as group:
        # One worker's error cancelled the rest; its cause is what the caller can act on.
        raise group.exceptions[0] from None
    if any(task.cancelled() for task in tasks):
        raise RunStoppedError(
            "Attempts are missing: code of the environment or of the model cancelled the task that "
            "it ran in. Cancel only tasks that were started there, and resume the run."
        )


class _Work:
    """What the workers of one run share."""

    def __init__(
        self,
        environment: Environment,
        model: Seats,
        plan: RunPlan,
        on_trajectory: Callable[[Trajectory], None],
        finished: Finished,
    ) -> None:
        self._environment = environment
        self._model = model
        self._plan = plan
        self._on_trajectory = on_trajectory
        self._finished = finished.attempts
        self._made = dict(finished.waiting)
        self._open_groups = {group: list(each) for group, each in finished.members.items()}
        self.waiting: WaitingMembers | None = None
        self._attempts = plan.attempts(environment)
        self._budget = _Budget(plan)
        self._token_count = 0
        self._begun: Attempt | None = None

    async def go_on(self) -> None:
        """Make attempts until none is left."""
        for task, attempt in self._attempts:
            if attempt in self._finished:
                continue
            made = self._made.pop(attempt, None)
            if made is not None:
                await self._compare(made, task)
                continue
            if not self._may_begin(attempt):
                return
            trajectory = await self._environment.rollout(
                task, self._model, attempt=attempt, sampling=self._plan.sampling
            )
            if self._plan.token_budget is not None:
                self._token_count += spent_tokens(trajectory)
            if self._environment.has_group_rewards:
                _check_access(trajectory)
                if self.waiting is not None:
                    trajectory = _kept(trajectory, self.waiting.keep)
                await self._compare(trajectory, task)
            else:
                self._hand_over(trajectory)
            # A model without latency never waits: give a cancel its turn.
            await asyncio.sleep(0)

    def _may_begin(self, attempt: Attempt) -> bool:
        budget = self._plan.token_budget
        is_affordable = budget is None or self._token_count < budget
        if is_affordable:
            self._begun = attempt.group
        # Members come one after the other: without the last ones, those that were made and
        # paid for could not be compared, and would be lost.
        return is_affordable or (
            self._environment.has_group_rewards and attempt.group == self._begun
        )

    async def _compare(self, trajectory: Trajectory, task: Task) -> None:
        """Add a member to its group, and score the group once it is whole."""
        group = trajectory.attempt.group
        members = self._open_groups.setdefault(group, [])
        members.append(trajectory)
        if len(members) < self._plan.group_size:
            return
        del self._open_groups[group]
        whole = [_with_reference(member, task) for member in members]
        scored = await self._environment.score_group(whole)
        missing = [member for member in scored if member.attempt not in self._finished]
        for member in missing:
            # Before any of their lines is written: they are compared anew when the run goes on.
            _check_access(member)
        for member in missing:
            self._hand_over(member)
        if self.waiting is not None:
            self.waiting.drop(group)

    def _hand_over(self, trajectory: Trajectory) -> None:
        _check_access(trajectory)
        self._budget.charge(_kept(trajectory, self._on_trajectory))


def _kept(trajectory: Trajectory, keep: Callable[[Trajectory], None]) -> Trajectory:
    """What was kept of an attempt: a failed copy where it holds what is no JSON."""
    try:
        keep(trajectory)
    except UnwritableError as error:
        trajectory = failed_copy(trajectory, error)
        keep(trajectory)
    return trajectory


def _check_access(trajectory: Trajectory) -> None:
    """Raise for what no other attempt will succeed at; it is made again when the run goes on."""
    failure = trajectory.failure
    if failure is not None and failure.type == ModelAuthError.__name__:
        raise RunStoppedError(f"No attempt can succeed: {failure.message}")


def _with_reference(member: Trajectory, task: Task) -> Trajectory:
    """The same member, comparable also where its file keeps references secret."""
    own = member.task
    if own.reference is not None or task.reference is None:
        return member
    whole = Task(own.key, own.prompt, task.reference, own.metadata, own.split)
    return replace(member, task=whole)


def _named_draws(
    environment: Environment, split: str, keys: tuple[str, ...]
) -> Iterator[tuple[Task, int]]:
    visits: Counter[str] = Counter()
    for key in keys:
        yield _task_of(environment, split, key), visits[key]
        visits[key] += 1


def _task_of(environment: Environment, split: str, key: str) -> Task:
    try:
        return environment.tasks[split].get(key)
    except KeyError:
        raise SettingsError(f"There is no task {key!r} in the split {split!r}.") from None
