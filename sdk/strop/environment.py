"""Tasks, interaction and rubric in one definition (step: author)."""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from functools import cache
from importlib import metadata
from typing import Any, Self, cast

from strop.attempt import Attempt
from strop.episode import Episode
from strop.errors import BoundaryError, EnvironmentFaultError, ModelError, SettingsError
from strop.faults import FAULTS, fault_of, own_fault
from strop.limits import TimeLimits
from strop.reward_function import Reward, RewardFunction
from strop.rollout import roll_out
from strop.rubric import Rubric
from strop.task import Task, TaskSet
from strop.threads import Threads
from strop.toolbox import Toolbox
from strop.tools import Tool, ToolConnection, ToolLike, ToolServer
from strop.trajectory import Trajectory
from strop.types import EnvironmentIdentity, Message, Model, Sampling, Seats, Settings

TaskSource = TaskSet | Sequence[Task]

StopCondition = Callable[[Episode], str | bool]

Oracle = Callable[[Task], Any]
"""``f(task)``: the reply, or the list of replies by turn, that scores the maximum.

A turn is one completion of any seat: the list of several seats holds what each says in its turn.
"""

_NO_LIMITS = TimeLimits()


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
        tools: Sequence[ToolLike | Callable[..., Any]] = (),
        servers: Sequence[ToolServer] = (),
        max_turns: int = 100,
        max_tokens: int | None = None,
        time_limits: TimeLimits = _NO_LIMITS,
        stop_when: Sequence[StopCondition] = (),
        system_prompt: str | None = None,
        oracle: Oracle | None = None,
    ) -> None:
        """Define an environment.

        Args:
            tasks: Task sets by split; a single one becomes the split ``train``.
            rewards: Reward functions and metrics; a plain function gets the weight 1.
            episode: How a task is played; by default one completion ends it.
            tools: Typed functions, or tools of a server, that every episode offers besides
                its class's own methods.
            servers: Servers of tools, such as `strop.mcp.McpServer`, shared by all episodes or
                connected anew for each.
            max_turns: Completions after which an episode is truncated, ≥ 1.
            max_tokens: Sampled tokens of all seats after which an episode is truncated, ≥ 1;
                None sets no limit.
            time_limits: Seconds that each stage may take.
            stop_when: Conditions ``f(episode) -> str | bool`` that end an episode after a turn;
                a string is the reason.
            system_prompt: Put before every task's prompt.
            oracle: A policy ``f(task) -> str | list[str]`` that scores the maximum, the list by
                turns of all seats; `strop env check` holds it against the rubric.

        Raises:
            SettingsError: A value is out of its range, two tools have one name, a tool is for a
                seat that there is not, or no schema can be made of its annotations.
        """
        _check_limits(max_turns, max_tokens)
        self.tasks = _by_split(tasks)
        """Task sets by split."""
        self.rubric = Rubric(rewards, time_limits.reward_s)
        self.tools = tuple(_as_tool(each) for each in tools)
        """Offered by every episode; those of shared servers come when the environment opens."""
        self.max_turns, self.max_tokens = max_turns, max_tokens
        self.time_limits = time_limits
        self.stop_when = tuple(stop_when)
        self.oracle = oracle
        self.identity = EnvironmentIdentity("local")
        """Filled in by `strop.load`."""
        self.settings: Settings = {}
        """What `load_environment` was called with; filled in by `strop.load`."""
        self.threads = Threads()
        """Where the `def` rewards and tools of this environment run."""
        self._episode = _checked(episode, self.rubric)
        self._check_tools(self.tools)
        self._own_tools, self._servers = self.tools, tuple(servers)
        self._connections: list[ToolConnection] = []
        self._system = () if system_prompt is None else (Message("system", system_prompt),)

    async def setup(self) -> None:
        """Take what episodes share, such as an index; override as needed."""

    async def close(self) -> None:
        """Free what `setup` took; override as needed."""

    async def __aenter__(self) -> Self:
        try:
            for server in (each for each in self._servers if each.is_shared):
                self._connections.append(await server.connect())
            shared = [each for connection in self._connections for each in connection.tools]
            self._check_tools((*self._own_tools, *shared))
            self.tools = (*self._own_tools, *shared)
            await self.setup()
        except BaseException:
            await self._disconnect()
            raise
        return self

    async def __aexit__(self, *_: object) -> None:
        try:
            await self.close()
        finally:
            await self._disconnect()
            self.threads.close()

    def _check_tools(self, further: Iterable[ToolLike]) -> None:
        tools = (*self._episode._tools.values(), *further)
        Toolbox().add(tools)
        for each in tools:
            seats = each.options.seats if isinstance(each, Tool) else ()
            if unknown := [seat for seat in seats if seat not in self._episode.seats]:
                raise SettingsError(
                    f"The tool `{each.name}` is for the seats {', '.join(unknown)}, but "
                    f"`{self._episode.__name__}` has {', '.join(self._episode.seats)}."
                )

    async def _disconnect(self) -> None:
        while self._connections:
            await self._connections.pop().close()

    @property
    def strop_version(self) -> str:
        """Of the SDK that runs it."""
        return _strop_version()

    @property
    def episode_servers(self) -> list[ToolServer]:
        """Servers of tools that are connected anew for each episode."""
        return [server for server in self._servers if not server.is_shared]

    @property
    def has_group_rewards(self) -> bool:
        """Whether a reward is complete only when the members of a group were compared."""
        return self.rubric.has_group

    @property
    def seats(self) -> Mapping[str, bool]:
        """Names of the roles that its episodes have, and whether each is trained."""
        return self._episode.seats

    def allow_concurrency(self, count: int) -> None:
        """Make room for as many blocking calls at once as rollouts are in flight."""
        self.threads.limit = max(self.threads.limit, count)

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
        # Read before any attempt is in flight: then no further file may be allowed to be open.
        _strop_version()
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
            model: One model, or one for each seat; one with a method ``for_task(task)`` is asked
                for the model of this task, as scripted oracles are.
            attempt: Its identity, from which the seeds follow; by default that of run seed 0.
            sampling: How to sample; its seed is replaced by the attempt's.
            queue_s: Seconds that the attempt has waited, for the record.
        """
        try:
            episode = self.start(task, attempt=attempt)
        except FAULTS as error:
            return await self.failed_start(task, error, attempt=attempt).score(queue_s)
        try:
            chosen = _chosen(model, episode.seats, task)
        except FAULTS as error:
            episode.fail(_model_fault(error))
            return await episode.score(queue_s)
        return await roll_out(episode, chosen, sampling, queue_s)

    def failed_start(
        self, task: Task, error: BaseException, *, attempt: Attempt | None = None
    ) -> Episode:
        """In the place of an episode that `start` could not make, one that has failed for that.

        Args:
            task: Whose.
            error: What `start` raised.
            attempt: Its identity, from which the seeds follow; by default that of run seed 0.
        """
        name = self._episode.__name__
        stand_in = type(name, (Episode,), {"seats": self._episode.seats})
        episode: Episode = stand_in(self, task, attempt or self.attempt(task))
        episode.fail(fault_of(f"`{name}.__init__`", error))
        return episode

    def start_group(self, task: Task, size: int, *, attempt: Attempt | None = None) -> Group:
        """A fresh group of episodes at one task, to be driven by hand.

        Args:
            task: The one that every member plays.
            size: How many members, ≥ 1; they share the environment seed.
            attempt: Identity of the first member; by default that of run seed 0.
        """
        return Group(self, task, size, attempt or self.attempt(task))

    async def rollout_group(
        self,
        task: Task,
        model: Seats,
        size: int,
        *,
        attempt: Attempt | None = None,
        sampling: Sampling | None = None,
    ) -> list[Trajectory]:
        """Run a model on one task several times at once and compare the members.

        Args:
            task: One of this environment's tasks, or any that suits it.
            model: One model, or one for each seat.
            size: How many members, ≥ 1; they share the environment seed.
            attempt: Identity of the first member; by default that of run seed 0.
            sampling: How to sample; its seed is replaced by each member's.
        """
        group = self.start_group(task, size, attempt=attempt)
        rollouts = [
            self.rollout(task, model, attempt=member, sampling=sampling)
            for member in group.attempts
        ]
        return await self.score_group(await asyncio.gather(*rollouts))

    async def score_group(self, trajectories: Sequence[Trajectory]) -> list[Trajectory]:
        """Scored copies of the members of one group, each scored on its own before."""
        if not self.rubric.has_group:
            return list(trajectories)
        return await self.rubric.score_group(trajectories, self.threads)

    async def score(self, trajectory: Trajectory, episode: Episode | None = None) -> Trajectory:
        """A scored copy of a trajectory.

        Args:
            trajectory: A finished one, of this run or read from a file.
            episode: The open episode, for live rewards; None keeps their recorded values.
        """
        return await self.rubric.score(trajectory, self.threads, episode)


class Group:
    """Episodes at one task under one environment seed, opened and closed together."""

    def __init__(self, environment: Environment, task: Task, size: int, attempt: Attempt) -> None:
        if size < 1:
            raise SettingsError(f"A group of {size} has no member. Ask for at least 1.")
        self.attempts = [replace(attempt, member=attempt.member + n) for n in range(size)]
        self._environment = environment
        self.episodes = [environment.start(task, attempt=member) for member in self.attempts]

    async def __aenter__(self) -> Self:
        try:
            for episode in self.episodes:
                await episode.open()
        except BaseException:
            await self._shut()
            raise
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._shut()

    async def score(self) -> list[Trajectory]:
        """End and score every member, then compare them; call it before closing."""
        trajectories = [await episode.score() for episode in self.episodes]
        return await self._environment.score_group(trajectories)

    async def _shut(self) -> None:
        faults = []
        for episode in self.episodes:
            try:
                await episode.shut()
            except EnvironmentFaultError as fault:
                faults.append(fault)
        if faults:
            raise faults[0]


def _chosen(model: Seats, seats: Iterable[str], task: Task) -> Seats:
    if isinstance(model, Mapping):
        chosen = {seat: model[seat] for seat in seats if seat in model}
        # Once for all seats that it plays: a script goes on where another seat left it.
        models = {id(each): each for each in chosen.values()}
        bound = {key: _bound(each, task) for key, each in models.items()}
        return {seat: bound[id(each)] for seat, each in chosen.items()}
    return _bound(model, task)


def _model_fault(error: BaseException) -> BoundaryError:
    if isinstance(error, BoundaryError):
        return error
    fault = own_fault(error)
    return ModelError(f"`for_task` of the model raised {type(fault).__name__}: {fault}")


def _bound(model: Model, task: Task) -> Model:
    for_task = getattr(model, "for_task", None)
    return model if for_task is None else cast("Model", for_task(task))


def _as_tool(each: ToolLike | Callable[..., Any]) -> ToolLike:
    return cast("ToolLike", each) if hasattr(each, "spec") else Tool.of(cast("Any", each))


def _by_split(tasks: Mapping[str, TaskSource] | TaskSource) -> dict[str, TaskSet]:
    named = tasks if isinstance(tasks, Mapping) else {"train": tasks}
    sets = {split: s if isinstance(s, TaskSet) else TaskSet(s) for split, s in named.items()}
    return {split: each.named(split) for split, each in sets.items()}


def _check_limits(max_turns: int, max_tokens: int | None) -> None:
    if max_turns < 1 or (max_tokens is not None and max_tokens < 1):
        raise SettingsError(
            f"max_turns is {max_turns}, max_tokens {max_tokens}. Allow at least 1 of each."
        )


def _checked(episode: type[Episode], rubric: Rubric) -> type[Episode]:
    unknown = sorted({r.seat for r in rubric.rewards if r.seat} - set(episode.seats))
    if unknown:
        raise SettingsError(
            f"Rewards name the seats {', '.join(unknown)}, but `{episode.__name__}` has "
            f"{', '.join(episode.seats)}."
        )
    for name in ("setup", "respond", "close"):
        if not inspect.iscoroutinefunction(getattr(episode, name)):
            raise SettingsError(
                f"`{episode.__name__}.{name}` must be `async def`: the driver awaits it."
            )
    return episode


@cache
def _strop_version() -> str:
    try:
        return metadata.version("strop")
    except metadata.PackageNotFoundError:
        return "unknown"
