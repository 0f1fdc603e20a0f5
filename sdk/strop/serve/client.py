"""An environment that lives in another process, used like one that lives here (step: rollout)."""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import time
from collections.abc import Iterator, Mapping, Sequence
from typing import Any
from urllib.parse import urlsplit

from strop.environment import Environment
from strop.episode import Episode
from strop.errors import EnvironmentLostError, ServeRefusedError
from strop.serve.remote_episode import RemoteEpisode
from strop.serve.transport import Transport, Worker, call_now, raise_error
from strop.serve.wire import PROTOCOL
from strop.task import Task, TaskSet
from strop.trajectory import Trajectory
from strop.trajectory_json import from_json, to_json
from strop.types import EnvironmentIdentity

SILENCE_S = 30.0
_SHUN_S = 2.0
"""How long a worker that could not be reached gets no new episode."""


class RemoteEnvironment(Environment):
    """What `strop serve` serves, from anywhere that reaches it.

    Tasks are read page by page while they are iterated, which blocks for a moment: the server
    must not run on the same event loop. Everything that an author wrote runs over there.

    Args:
        url: Of any of its workers, as `strop serve` prints it.
        secret: As `strop serve` prints it.
        silence_s: Seconds without a sign of life after which a worker counts as lost. A worker
            that works sends one each second; one that was killed is noticed at once.

    Raises:
        EnvironmentLostError: Nobody answers.
        ServeRefusedError: The secret is another, or it is no such server.

    Example:
        >>> environment = RemoteEnvironment("http://127.0.0.1:8123", secret)
        >>> async with environment:
        ...     trajectory = await environment.rollout(environment.tasks["train"][0], model)
    """

    def __init__(self, url: str, secret: str, *, silence_s: float = SILENCE_S) -> None:
        first = Worker(url.rstrip("/"), secret)
        described = call_now(first, "/v1/environment")
        if described.get("protocol") != PROTOCOL:
            raise ServeRefusedError(
                f"{url} speaks {described.get('protocol')!r}, this strop {PROTOCOL}. "
                "Use the same version on both sides."
            )
        splits = described["splits"]
        workers = _workers(first, described["ports"])
        super().__init__(
            tasks={split: _task_set(workers, split, about) for split, about in splits.items()},
            rewards=[],
            episode=type("RemoteEpisode", (RemoteEpisode,), {"seats": described["seats"]}),
            max_turns=described["max_turns"],
        )
        self.identity = EnvironmentIdentity(**described["identity"])
        self.settings = described["settings"]
        self._version = str(described["strop_version"])
        self.workers = workers
        """Episodes go to each in turn."""
        self._has_group_rewards = bool(described["has_group_rewards"])
        self._lease_s = float(described["lease_s"])
        self._silence_s = silence_s
        self._transport: Transport | None = None
        self._turn = itertools.count()
        self._shunned: dict[str, float] = {}
        self._kept: dict[str, set[str]] = {worker.url: set() for worker in self.workers}
        self._keeping: asyncio.Task[None] | None = None

    @property
    def strop_version(self) -> str:
        """Of the SDK that runs it over there."""
        return self._version

    @property
    def has_group_rewards(self) -> bool:
        """Whether a reward is complete only when the members of a group were compared."""
        return self._has_group_rewards

    @property
    def transport(self) -> Transport:
        """The way to the workers."""
        if self._transport is None:
            self._transport = Transport(self._silence_s)
        return self._transport

    async def close(self) -> None:
        """Close the connections; episodes that are still open over there end by themselves."""
        if self._keeping is not None:
            self._keeping.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await self._keeping
            self._keeping = None
        if self._transport is not None:
            await self._transport.close()
            self._transport = None

    async def score(self, trajectory: Trajectory, episode: Episode | None = None) -> Trajectory:
        """A scored copy of a trajectory; live rewards keep their recorded values."""
        answer = await self._ask("/v1/score", {"trajectory": to_json(trajectory)})
        return from_json(answer["trajectory"])

    async def score_group(self, trajectories: Sequence[Trajectory]) -> list[Trajectory]:
        """Scored copies of the members of one group, each scored on its own before."""
        if not self.has_group_rewards:
            return list(trajectories)
        members: list[Any] = [to_json(each) for each in trajectories]
        answer = await self._ask("/v1/score_group", {"trajectories": members})
        return [from_json(each) for each in answer["trajectories"]]

    # What its episodes use

    async def begin(self, document: dict[str, Any]) -> tuple[Worker, dict[str, Any]]:
        """Start an episode with the next worker that can be reached.

        Raises:
            EnvironmentLostError: None can.
        """
        lost: EnvironmentLostError | None = None
        for worker in self._candidates():
            try:
                call = self.transport.call(worker, "POST", "/v1/episodes", document)
                return worker, await call
            except EnvironmentLostError as error:
                self._shunned[worker.url] = time.monotonic() + _SHUN_S
                lost = error
        assert lost is not None
        raise lost

    def keep(self, worker: Worker, identity: str) -> None:
        """Renew an episode's lease until it is released."""
        self._kept[worker.url].add(identity)
        if self._keeping is None or self._keeping.done():
            self._keeping = asyncio.get_running_loop().create_task(self._keep())

    def release(self, worker: Worker, identity: str) -> None:
        """Renew it no longer."""
        self._kept[worker.url].discard(identity)

    async def _keep(self) -> None:
        while any(self._kept.values()):
            await asyncio.sleep(self._lease_s / 3)
            for worker in self.workers:
                if kept := self._kept[worker.url]:
                    document: dict[str, Any] = {"episodes": sorted(kept)}
                    with contextlib.suppress(EnvironmentLostError):
                        await self.transport.call(worker, "POST", "/v1/renew", document)

    async def _ask(self, path: str, document: dict[str, Any]) -> dict[str, Any]:
        lost: EnvironmentLostError | None = None
        for worker in self._candidates():
            try:
                return raise_error(await self.transport.call(worker, "POST", path, document))
            except EnvironmentLostError as error:
                lost = error
        assert lost is not None
        raise lost

    def _candidates(self) -> list[Worker]:
        """Every worker once, those that were lost a moment ago last."""
        first = next(self._turn) % len(self.workers)
        turned = self.workers[first:] + self.workers[:first]
        now = time.monotonic()
        return sorted(turned, key=lambda worker: self._shunned.get(worker.url, 0.0) > now)


class _Pages:
    """The tasks of one split over there."""

    def __init__(self, workers: Sequence[Worker], split: str, *, is_infinite: bool) -> None:
        self.is_infinite = is_infinite
        self._workers = workers
        self._split = split

    def draws(self) -> Iterator[tuple[Task, int]]:
        start = 0
        while True:
            page = self._page(start)
            for task, visit in zip(page["tasks"], page["visits"], strict=True):
                yield Task.from_json(task), visit
            start += len(page["tasks"])
            if page["is_last"]:
                return

    def get(self, key: str) -> Task:
        query = {"split": self._split, "key": key}
        return Task.from_json(self._ask("/v1/task", query))

    def _page(self, start: int) -> dict[str, Any]:
        query = {"split": self._split, "start": str(start)}
        return self._ask("/v1/tasks", query)

    def _ask(self, path: str, query: dict[str, str]) -> dict[str, Any]:
        """The answer of the first worker that lives: all have the same tasks."""
        for worker in self._workers[:-1]:
            with contextlib.suppress(EnvironmentLostError):
                return call_now(worker, path, query)
        return call_now(self._workers[-1], path, query)


class _Stream(_Pages):
    """Tasks whose number is not known."""

    def __call__(self) -> Iterator[Task]:
        return (task for task, _ in self.draws())


class _Sequence(_Pages, Sequence[Task]):
    """Tasks whose number is known."""

    def __init__(self, workers: Sequence[Worker], split: str, size: int) -> None:
        super().__init__(workers, split, is_infinite=False)
        self._size = size

    def __len__(self) -> int:
        return self._size

    def __getitem__(self, index: Any) -> Any:
        if isinstance(index, slice):
            return [self[each] for each in range(*index.indices(self._size))]
        place = index + self._size if index < 0 else index
        if not 0 <= place < self._size:
            raise IndexError(index)
        return Task.from_json(self._page(place)["tasks"][0])

    def __iter__(self) -> Iterator[Task]:
        return (task for task, _ in self.draws())


def _task_set(workers: Sequence[Worker], split: str, about: Mapping[str, Any]) -> TaskSet:
    if about["size"] is not None:
        return TaskSet(_Sequence(workers, split, about["size"]))
    return TaskSet(_Stream(workers, split, is_infinite=about["is_infinite"]))


def _workers(first: Worker, ports: Sequence[int]) -> list[Worker]:
    parts = urlsplit(first.url)
    host = f"[{parts.hostname}]" if ":" in (parts.hostname or "") else parts.hostname
    if parts.port not in ports:
        # Behind a proxy or a forwarded port only the address that we were given leads there.
        return [first]
    return [Worker(f"{parts.scheme}://{host}:{port}", first.secret) for port in ports]
