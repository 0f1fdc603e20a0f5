"""Tasks, interaction and rubric in one definition (step: author)."""

from __future__ import annotations

import inspect
import time
from collections.abc import Mapping, Sequence
from dataclasses import replace
from importlib import metadata
from typing import Any, Self

from strop.attempt import Attempt
from strop.episode import Episode
from strop.errors import SettingsError
from strop.rollout import roll_out
from strop.rubric import Reward, RewardFunction, Rubric
from strop.task import Task, TaskSet
from strop.threads import Threads
from strop.trajectory import Trajectory
from strop.types import EnvironmentIdentity, Message, Sampling, Seats, Settings

TaskSource = TaskSet | Sequence[Task]


class Environment:
    """What a model is trained in.

    A single-turn environment is tasks and rewards; an `Episode` class adds turns and tools.

    Example:
        >>> tasks = [Task("1", "Reverse: abc", "cba")]
        >>> environment = Environment(tasks=tasks, rewards=[exact()])
    """

    def __init__(
        self,
        *,
        tasks: Mapping[str, TaskSource] | TaskSource,
        rewards: Sequence[Reward | RewardFunction],
        episode: type[Episode] = Episode,
        max_turns: int = 100,
        system_prompt: str | None = None,
        oracle: Any = None,
    ) -> None:
        """Define an environment.

        Args:
            tasks: Task sets by split; a single one becomes the split ``train``.
            rewards: Reward functions and metrics; a plain function gets the weight 1.
            episode: How a task is played; by default one completion ends it.
            max_turns: Completions after which an episode is truncated, ≥ 1.
            system_prompt: Put before every task's prompt.
            oracle: A policy ``f(task) -> str | list[str]`` that scores the maximum; `strop env
                check` holds it against the rubric.

        Raises:
            SettingsError: A value is out of its range.
        """
        if max_turns < 1:
            raise SettingsError(f"max_turns is {max_turns}. Allow at least one turn.")
        named = tasks if isinstance(tasks, Mapping) else {"train": tasks}
        self.tasks = {split: _task_set(source).named(split) for split, source in named.items()}
        """Task sets by split."""
        self.rubric = Rubric(rewards)
        self.max_turns = max_turns
        self.oracle = oracle
        self.identity = EnvironmentIdentity("local")
        """Filled in by `strop.load`."""
        self.settings: Settings = {}
        """What `load_environment` was called with; filled in by `strop.load`."""
        self.strop_version = _strop_version()
        self.threads = Threads()
        """Where the `def` rewards and tools of this environment run."""
        self._episode = _checked(episode)
        self._system = () if system_prompt is None else (Message("system", system_prompt),)

    async def setup(self) -> None:
        """Take what episodes share, such as an index; override as needed."""

    async def close(self) -> None:
        """Free what `setup` took; override as needed."""

    async def __aenter__(self) -> Self:
        await self.setup()
        return self

    async def __aexit__(self, *_: object) -> None:
        try:
            await self.close()
        finally:
            self.threads.close()

    def opening(self, task: Task) -> Sequence[Message]:
        """The messages that the policy sees first."""
        return self._system + task.prompt

    def attempt(self, task: Task, *, run_seed: int = 0, visit: int = 0, member: int = 0) -> Attempt:
        """The identity of a rollout of this environment."""
        name = self.identity.full_name
        return Attempt(run_seed, name, task.split, task.key, visit, member)

    def start(self, task: Task, *, attempt: Attempt | None = None) -> Episode:
        """A fresh episode, to be opened with ``async with`` and driven by hand.

        Args:
            task: One of this environment's tasks, or any that suits it.
            attempt: Its identity, from which the seeds follow; by default that of run seed 0.
        """
        return self._episode(self, task, attempt or self.attempt(task))

    async def rollout(
        self,
        task: Task,
        model: Seats,
        *,
        attempt: Attempt | None = None,
        sampling: Sampling | None = None,
        queue_s: float = 0.0,
    ) -> Trajectory:
        """Run a model on one task; faults become the trajectory's failure and are not raised.

        Args:
            task: One of this environment's tasks, or any that suits it.
            model: One model, or one for each seat.
            attempt: Its identity, from which the seeds follow; by default that of run seed 0.
            sampling: How to sample; its seed is replaced by the attempt's.
            queue_s: Seconds that the attempt has waited, for the record.
        """
        return await roll_out(self.start(task, attempt=attempt), model, sampling, queue_s)

    async def score(self, trajectory: Trajectory, episode: Episode | None = None) -> Trajectory:
        """A scored copy of a trajectory.

        Args:
            trajectory: A finished one, of this run or read from a file.
            episode: The open episode, for live rewards; None keeps their recorded values.
        """
        started = time.perf_counter()
        scored = await self.rubric.score(trajectory, self.threads, episode)
        score_s = time.perf_counter() - started
        return replace(scored, timing=replace(scored.timing, score_s=score_s))


def _task_set(source: TaskSource) -> TaskSet:
    return source if isinstance(source, TaskSet) else TaskSet(source)


def _checked(episode: type[Episode]) -> type[Episode]:
    for name in ("setup", "respond", "close"):
        if not inspect.iscoroutinefunction(getattr(episode, name)):
            raise SettingsError(
                f"`{episode.__name__}.{name}` must be `async def`: the driver awaits it."
            )
    return episode


def _strop_version() -> str:
    try:
        return metadata.version("strop")
    except metadata.PackageNotFoundError:
        return "unknown"
