"""An episode that lives in another process, driven like one that lives here (step: rollout)."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from strop.episode import Episode
from strop.errors import BoundaryError, EnvironmentLostError, EpisodeUseError
from strop.message_json import message_from_json
from strop.serve.wire import completion_to_json, error_from_json
from strop.task import Task
from strop.trajectory import StopReason, Trajectory
from strop.trajectory_json import failure_to_json, from_json, sampling_from_json
from strop.types import Completion, Message, Sampling, ToolSpec

if TYPE_CHECKING:
    from strop.attempt import Attempt
    from strop.serve.client import RemoteEnvironment
    from strop.serve.transport import Worker


class RemoteEpisode(Episode):
    """One attempt, its state and its author's code with a worker.

    The record is the worker's. A copy of the turns is kept here, for the case that the worker
    is lost: then the trajectory tells how far it came, and fails.
    """

    def __init__(self, environment: RemoteEnvironment, task: Task, attempt: Attempt) -> None:
        super().__init__(environment, task, attempt)
        self._remote = environment
        self._worker: Worker | None = None
        self._identity = ""
        self._contexts: dict[str, list[Message]] = {}
        self._offered: tuple[ToolSpec, ...] = ()
        self._wish: Sampling | None = None
        self._left_s: float | None = None
        self._has_ended = False
        self._lost: EnvironmentLostError | None = None
        self._own_stop: tuple[StopReason, str] | None = None

    @property
    def is_ended(self) -> bool:
        """Whether no further completion is due."""
        return self._has_ended or self._stop is not None

    @property
    def tools(self) -> Sequence[ToolSpec]:
        """What the due seat may call."""
        return self._offered

    @property
    def due_sampling(self) -> Sampling | None:
        """What the due completion asks of its sampling besides the driver's."""
        return self._wish

    @property
    def turns_left_s(self) -> float | None:
        """Seconds that the turns may still take; None without a limit."""
        return self._left_s

    @property
    def has_close(self) -> bool:
        """There is always something to free: the worker's side."""
        return True

    def messages_of(self, seat: str) -> Sequence[Message]:
        """All that a seat's next completion is sampled from."""
        return self._contexts.get(seat, ())

    def truncate(self, reason: StopReason, detail: str = "") -> None:
        """End by a limit; nothing happens when the episode has ended already."""
        if not self.is_ended:
            self._own_stop = self._stop = (reason, detail)

    async def open(self) -> None:
        """Start it with a worker, and run its `setup` there.

        Raises:
            BoundaryError: `setup` failed, or no worker can be reached.
            EpisodeUseError: The episode was opened before.
        """
        if self._is_open or self._stop is not None:
            raise EpisodeUseError("An episode is single-use. Start another for another attempt.")
        self._is_open = True
        self._recorder.observe(self.due_seat, self.task.prompt)
        attempt = {name: getattr(self.attempt, name) for name in self.attempt.__dataclass_fields__}
        document = {"task": self.task.to_json(), "attempt": attempt}
        self._worker, answer = await self._remote.begin(document)
        self._identity = answer["episode"]
        self.seats: Mapping[str, bool] = answer["seats"]  # type: ignore[misc]
        self._remote.keep(self._worker, self._identity)
        self._take(answer)

    async def step(self, completion: Completion, *, elapsed_s: float = 0.0) -> None:
        """Give the worker the due completion, and learn what follows.

        Raises:
            BoundaryError: Author code failed, or the worker is lost; it cannot go on.
            EpisodeUseError: The episode is not open, or it has ended.
        """
        if not self._is_open or self.is_ended:
            raise EpisodeUseError("No completion is due: the episode is not open, or has ended.")
        turn = self._turn_count
        self._recorder.rebase(self.due_seat, self.messages)
        self._recorder.commit(self.due_seat, completion)
        document = {
            "turn": turn,
            "completion": completion_to_json(completion),
            "elapsed_s": elapsed_s,
        }
        started = time.perf_counter()
        try:
            answer = await self._call("POST", "/step", document)
        finally:
            self._turns_s += elapsed_s + time.perf_counter() - started
        self._take(answer)

    async def score(self, queue_s: float = 0.0) -> Trajectory:
        """End the episode if it has not ended, and have it scored by the worker."""
        document = {
            "queue_s": queue_s,
            "failure": None if self._failure is None else failure_to_json(self._failure),
            "stop": self._own_stop,
        }
        self.truncate("driver", "the driver asked for the result")
        if self._lost is not None:
            self.fail(self._lost)
        elif self._identity:
            try:
                answer = await self._call("POST", "/score", document)
                self._check(answer)
                return from_json(answer["trajectory"])
            except BoundaryError as error:
                self.fail(error)
        return self._trajectory(queue_s)

    async def shut(self) -> None:
        """Have the worker close it.

        Raises:
            EnvironmentFaultError: Its `close` raised.
        """
        if not self._is_open:
            return
        self._is_open = False
        self.truncate("driver", "closed by the driver")
        if not self._identity:
            return
        assert self._worker is not None
        self._remote.release(self._worker, self._identity)
        try:
            answer = await self._call("DELETE", "")
        except EnvironmentLostError:
            # Gone already: its worker is dead, or its client's side broke off and it was closed.
            return
        self._check(answer)

    async def _call(
        self, method: str, path: str, document: dict[str, Any] | None = None
    ) -> dict[str, Any]:
        assert self._worker is not None
        try:
            path = f"/v1/episodes/{self._identity}{path}"
            return await self._remote.transport.call(self._worker, method, path, document)
        except EnvironmentLostError as error:
            self._lost = error
            raise

    def _take(self, answer: dict[str, Any]) -> None:
        state = answer.get("state")
        if state is not None:
            for seat, news in state["contexts"].items():
                context = self._contexts.get(seat, [])[: news["kept"]]
                self._contexts[seat] = context + [message_from_json(m) for m in news["messages"]]
            if "tools" in state:
                self._offered = tuple(ToolSpec(**tool) for tool in state["tools"])
            wish = state["sampling"]
            self._wish = None if wish is None else sampling_from_json(wish)
            self._left_s = state["turns_left_s"]
            self._turn_count = state["turn_count"]
            self.due_seat = state["due_seat"]
            self._has_ended = state["is_ended"]
        self._check(answer)

    def _check(self, answer: dict[str, Any]) -> None:
        if "error" in answer:
            raise error_from_json(answer["error"])
