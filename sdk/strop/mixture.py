"""Several environments as one: tasks drawn by weight, each scored by its own (step: author)."""

from __future__ import annotations

import random
from collections.abc import Iterator, Mapping, Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass, field, replace
from typing import Any

from strop.attempt import Attempt, derive_seed
from strop.environment import Environment
from strop.episode import Episode
from strop.errors import SettingsError
from strop.task import Task, TaskSet
from strop.trajectory import Trajectory
from strop.types import EnvironmentIdentity

_SEPARATOR = ":"
_NAMELESS = EnvironmentIdentity("local")
"""Of a mixture that no package gave."""


class Mixture(Environment):
    """An environment made of others.

    A task's key is ``name:key``, unique over all of them. Its episode, rewards, limits and
    identity are those of the environment that it comes from, so a report lists each apart. A
    finite split begins anew when it is used up, and the task's next draw is a new visit; a
    mixture therefore never ends.
    """

    def __init__(
        self,
        environments: Mapping[str, Environment],
        weights: Mapping[str, float] | None = None,
        *,
        seed: int = 0,
    ) -> None:
        """Mix environments.

        Args:
            environments: By a short name, without a colon.
            weights: How often each is drawn, relative to the others, ≥ 0; by default equally.
            seed: Decides the order of the draws.

        Raises:
            SettingsError: A weight is missing, negative or for no environment; none is above 0.
        """
        chosen = dict.fromkeys(environments, 1.0) if weights is None else dict(weights)
        _check(environments, chosen)
        self.environments = dict(environments)
        splits = dict.fromkeys(split for e in environments.values() for split in e.tasks)
        super().__init__(
            tasks={
                split: TaskSet(_Mixed(split, self.environments, chosen, seed)) for split in splits
            },
            rewards=[],
            oracle=self._play if all(e.oracle for e in environments.values()) else None,
        )
        self._stack = AsyncExitStack()

    @property
    def seats(self) -> Mapping[str, bool]:
        """Names of the roles in any of the environments, and whether any trains them."""
        seats: dict[str, bool] = {}
        for each in self.environments.values():
            for name, is_trained in each.seats.items():
                seats[name] = seats.get(name, False) or is_trained
        return seats

    @property
    def has_group_rewards(self) -> bool:
        """Whether any of the environments compares the members of a group."""
        return any(each.has_group_rewards for each in self.environments.values())

    def allow_concurrency(self, count: int) -> None:
        """Make room for as many blocking calls at once as rollouts are in flight."""
        for each in self.environments.values():
            each.allow_concurrency(count)

    async def setup(self) -> None:
        """Open every environment."""
        self._stack = AsyncExitStack()
        for each in self.environments.values():
            await self._stack.enter_async_context(each)

    async def close(self) -> None:
        """Close every environment."""
        await self._stack.aclose()

    def attempt(self, task: Task, *, run_seed: int = 0, visit: int = 0, member: int = 0) -> Attempt:
        """The identity of a rollout.

        Its environment is the one that the task comes from, where the mixture was not loaded
        itself and so has no name of its own.
        """
        attempt = super().attempt(task, run_seed=run_seed, visit=visit, member=member)
        if self.identity != _NAMELESS:
            return attempt
        environment, own = self._own(task)
        return replace(attempt, environment=environment.attempt(own).environment)

    def start(self, task: Task, *, attempt: Attempt | None = None) -> Episode:
        """A fresh episode of the environment that the task comes from."""
        environment, own = self._own(task)
        return environment.start(own, attempt=attempt or self.attempt(task))

    def failed_start(
        self, task: Task, error: BaseException, *, attempt: Attempt | None = None
    ) -> Episode:
        """A failed episode of the environment that the task comes from."""
        environment, own = self._own(task)
        return environment.failed_start(own, error, attempt=attempt or self.attempt(task))

    async def score(self, trajectory: Trajectory, episode: Episode | None = None) -> Trajectory:
        """A copy scored by the environment that the trajectory's task comes from."""
        environment = self._environment_of(trajectory.attempt.task_key)
        return await environment.score(trajectory, episode)

    async def score_group(self, trajectories: Sequence[Trajectory]) -> list[Trajectory]:
        """Copies compared by the environment that the group's task comes from."""
        environment = self._environment_of(trajectories[0].attempt.task_key)
        return await environment.score_group(trajectories)

    def _environment_of(self, key: str) -> Environment:
        name, _, _ = key.partition(_SEPARATOR)
        return self.environments[name]

    def _own(self, task: Task) -> tuple[Environment, Task]:
        name, _, key = task.key.partition(_SEPARATOR)
        own = Task(key, task.prompt, task.reference, task.metadata, task.split)
        return self.environments[name], own

    def _play(self, task: Task) -> Any:
        environment, own = self._own(task)
        return environment.oracle(own) if environment.oracle else None


@dataclass(frozen=True, slots=True)
class _Mixed:
    """The tasks of one split, drawn by weight from the environments that have it."""

    split: str
    environments: dict[str, Environment]
    weights: dict[str, float]
    seed: int
    is_infinite: bool = field(default=True, init=False)

    def __call__(self) -> Iterator[Task]:
        return (task for task, _ in self.draws())

    def draws(self) -> Iterator[tuple[Task, int]]:
        names = [name for name, each in self.environments.items() if self.split in each.tasks]
        weights = [self.weights[name] for name in names]
        rng = random.Random(derive_seed(self.seed, self.split))  # noqa: S311 - an order, no secret
        sources = {name: self._endless(name) for name in names}
        while True:
            (name,) = rng.choices(names, weights)
            task, visit = next(sources[name])
            key = f"{name}{_SEPARATOR}{task.key}"
            yield Task(key, task.prompt, task.reference, task.metadata, self.split), visit

    def get(self, key: str) -> Task:
        name, _, own_key = key.partition(_SEPARATOR)
        environment = self.environments.get(name)
        if environment is None or self.split not in environment.tasks:
            raise KeyError(key)
        task = environment.tasks[self.split].get(own_key)
        return Task(key, task.prompt, task.reference, task.metadata, self.split)

    def _endless(self, name: str) -> Iterator[tuple[Task, int]]:
        tasks = self.environments[name].tasks[self.split]
        round_count = 0
        while True:
            is_empty = True
            for task, visit in tasks.draws():
                is_empty = False
                yield task, visit + round_count
            if is_empty:
                raise SettingsError(f"The split {self.split!r} of {name!r} has no task to draw.")
            round_count += 1


def _check(environments: Mapping[str, Environment], weights: dict[str, float]) -> None:
    odd = [name for name in environments if not name or _SEPARATOR in name]
    if odd or not environments:
        raise SettingsError(
            f"A mixture needs environments with names that hold no `{_SEPARATOR}`; got {odd}."
        )
    if set(weights) != set(environments):
        wrong = sorted(set(weights) ^ set(environments))
        raise SettingsError(f"Weights and environments differ: {', '.join(wrong)}.")
    if any(not weight >= 0 for weight in weights.values()) or not sum(weights.values()) > 0:
        raise SettingsError(f"Weights must be ≥ 0, one of them above 0; got {weights}.")
