"""An environment behind HTTP: requests in, the environment's own answers out.

Source: `docs/reference/serve.md` describes the protocol.
"""

from __future__ import annotations

import asyncio
import contextlib
import hmac
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any

from strop.attempt import Attempt
from strop.environment import Environment
from strop.errors import BoundaryError, EpisodeUseError, StropError
from strop.serve.http import Answer, Request, json_answer
from strop.serve.lease import Lease
from strop.serve.tasks import TaskPages
from strop.serve.wire import PROTOCOL, completion_from_json, error_to_json
from strop.task import Task
from strop.trajectory import Failure
from strop.trajectory_json import from_json, identity_to_json, to_json
from strop.types import JSON

Document = dict[str, Any]
_Operation = Callable[[Lease, Document], Awaitable[Document]]


class _RefusedError(Exception):
    def __init__(self, status: int, kind: str, message: str) -> None:
        super().__init__(message)
        self.status = status
        self.kind = kind


class EnvironmentApp:
    """Answers a client's requests; an open environment belongs to it.

    Args:
        environment: An open one: the caller stands inside its ``async with``.
        secret: What every request has to know.
        lease_s: Seconds after which an episode whose client is silent is closed.
        ports: Where the workers listen that serve the same environment, this one's included.
    """

    def __init__(
        self, environment: Environment, secret: str, *, lease_s: float, ports: tuple[int, ...] = ()
    ) -> None:
        self._environment = environment
        self._secret = secret
        self._lease_s = lease_s
        self._ports = ports
        self._leases: dict[str, Lease] = {}
        self._tasks = TaskPages(environment)
        self._is_draining = False
        self._operations: dict[tuple[str, str], _Operation] = {
            ("POST", "step"): self._step,
            ("POST", "score"): self._score_episode,
        }
        self._routes: dict[tuple[str, str], Callable[[Request], Awaitable[Document]]] = {
            ("GET", "/v1/environment"): self._describe,
            ("GET", "/v1/tasks"): self._page,
            ("GET", "/v1/task"): self._task,
            ("POST", "/v1/episodes"): self._start,
            ("POST", "/v1/renew"): self._renew,
            ("POST", "/v1/score"): self._score,
            ("POST", "/v1/score_group"): self._score_group,
        }

    @property
    def episode_count(self) -> int:
        """Live episodes."""
        return len(self._leases)

    async def answer(self, request: Request) -> Answer:
        """The answer to one request; a lost client cancels it, and closes its episode."""
        if request.path == "/healthz":
            return json_answer({"status": "ok", "episode_count": self.episode_count})
        try:
            self._authorise(request)
            return json_answer(await self._route(request))
        except _RefusedError as error:
            fault: JSON = {"type": error.kind, "message": str(error)}
            return json_answer({"error": fault}, error.status)
        except StropError as error:
            return json_answer({"error": error_to_json(error)})

    async def sweep(self) -> None:
        """Close what its client left behind, for ever."""
        while True:
            await asyncio.sleep(min(self._lease_s / 4, 5.0))
            for lease in [each for each in self._leases.values() if each.is_expired]:
                await self._end(lease)

    async def drain(self, grace_s: float) -> None:
        """Start nothing new; close what has not ended by itself within `grace_s`."""
        self._is_draining = True
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(grace_s):
                while self._leases:  # noqa: ASYNC110 - ends are nobody's to announce
                    await asyncio.sleep(0.05)
        await asyncio.gather(*(self._end(lease) for lease in tuple(self._leases.values())))

    def _authorise(self, request: Request) -> None:
        kind, _, secret = request.headers.get("authorization", "").partition(" ")
        if kind.lower() != "bearer" or not hmac.compare_digest(
            secret.strip().encode("latin-1", "replace"), self._secret.encode()
        ):
            raise _RefusedError(401, "ServeRefusedError", "The secret is missing or another.")

    async def _route(self, request: Request) -> Document:
        route = self._routes.get((request.method, request.path))
        if route is not None:
            return await route(request)
        _, _, rest = request.path.partition("/v1/episodes/")
        identity, _, verb = rest.partition("/")
        lease = self._leases.get(identity)
        if lease is None or (lease.is_ending and request.method != "DELETE"):
            raise _RefusedError(
                410 if identity else 404,
                "EnvironmentLostError",
                f"{request.method} {request.path}: there is no such episode. It was closed, its "
                "client was silent for too long, or the worker was started again.",
            )
        if request.method == "DELETE":
            return await self._delete(lease)
        operation = self._operations.get((request.method, verb))
        if operation is None:
            raise _RefusedError(404, "ServeRefusedError", f"There is no {request.path}.")
        async with self._held(lease):
            return await operation(lease, request.document())

    @contextlib.asynccontextmanager
    async def _held(self, lease: Lease) -> AsyncIterator[None]:
        """One request at a time drives an episode; a client that leaves half-way ends it."""
        if lease.working is not None:
            raise _RefusedError(409, "EpisodeUseError", "Another request drives this episode.")
        lease.working = asyncio.current_task()
        try:
            yield
        except asyncio.CancelledError:
            self._forget(lease)
            raise
        finally:
            lease.working = None
            lease.renew()

    async def _describe(self, _: Request) -> Document:
        environment = self._environment
        return {
            "protocol": PROTOCOL,
            "identity": identity_to_json(environment.identity),
            "settings": environment.settings,
            "strop_version": environment.strop_version,
            "seats": dict(environment.seats),
            "has_group_rewards": environment.has_group_rewards,
            "max_turns": environment.max_turns,
            "splits": self._tasks.splits(),
            "lease_s": self._lease_s,
            "ports": list(self._ports),
        }

    async def _page(self, request: Request) -> Document:
        query = request.query
        try:
            return await self._tasks.page(query["split"], int(query["start"]))
        except StropError:
            raise
        except (KeyError, ValueError) as error:
            raise _RefusedError(404, "KeyError", f"There is no such page of tasks: {error}.") from (
                error
            )

    async def _task(self, request: Request) -> Document:
        query = request.query
        try:
            return (await self._tasks.get(query["split"], query["key"])).to_json()
        except KeyError as error:
            raise _RefusedError(404, "KeyError", f"There is no such task: {error}.") from error

    async def _start(self, request: Request) -> Document:
        if self._is_draining:
            raise _RefusedError(503, "EnvironmentLostError", "This server is about to end.")
        document = request.document()
        task = Task.from_json(document["task"])
        episode = self._environment.start(task, attempt=Attempt(**document["attempt"]))
        lease = Lease(episode, self._lease_s)
        self._leases[lease.id] = lease
        async with self._held(lease):
            begun: Document = {"episode": lease.id, "seats": dict(episode.seats)}
            return begun | await self._driven(lease, episode.open())

    async def _step(self, lease: Lease, document: Document) -> Document:
        if document["turn"] != lease.episode.turn_count:
            raise _RefusedError(
                409,
                "EpisodeUseError",
                f"Turn {lease.episode.turn_count} is due, not {document['turn']}.",
            )
        completion = completion_from_json(document["completion"])
        step = lease.episode.step(completion, elapsed_s=document["elapsed_s"])
        return await self._driven(lease, step)

    async def _driven(self, lease: Lease, work: Awaitable[None]) -> Document:
        answer: Document = {}
        try:
            await work
        except EpisodeUseError:
            raise
        except BoundaryError as error:
            # Whether it fails the attempt is for the driver to say, as in-process.
            answer["error"] = error_to_json(error)
        try:
            answer["state"] = lease.state()
        except BoundaryError as error:
            answer.setdefault("error", error_to_json(error))
        return answer

    async def _score_episode(self, lease: Lease, document: Document) -> Document:
        if document["failure"] is not None:
            lease.episode.fail_with(Failure(**document["failure"]))
        elif document["stop"] is not None:
            lease.episode.truncate(*document["stop"])
        trajectory = await lease.episode.score(document["queue_s"])
        return {"trajectory": to_json(trajectory)}

    async def _delete(self, lease: Lease) -> Document:
        await self._end(lease)
        return {} if lease.fault is None else {"error": error_to_json(lease.fault)}

    async def _renew(self, request: Request) -> Document:
        known = [self._leases.get(identity) for identity in request.document()["episodes"]]
        for lease in known:
            if lease is not None:
                lease.renew()
        return {"renewed_count": len(known) - known.count(None)}

    async def _score(self, request: Request) -> Document:
        trajectory = from_json(request.document()["trajectory"])
        return {"trajectory": to_json(await self._environment.score(trajectory))}

    async def _score_group(self, request: Request) -> Document:
        members = [from_json(member) for member in request.document()["trajectories"]]
        scored = await self._environment.score_group(members)
        return {"trajectories": [to_json(member) for member in scored]}

    async def _end(self, lease: Lease) -> None:
        try:
            # Whoever waits may leave; the end goes on.
            await asyncio.shield(self._forget(lease))
        finally:
            self._leases.pop(lease.id, None)

    def _forget(self, lease: Lease) -> asyncio.Task[None]:
        ending = lease.end()
        ending.add_done_callback(lambda _: self._leases.pop(lease.id, None))
        return ending
