"""The live, single-use state of one attempt, driven from either side (step: rollout)."""

from __future__ import annotations

import random
import time
import traceback
from collections.abc import Iterable, Mapping, Sequence
from contextlib import AsyncExitStack
from typing import TYPE_CHECKING, Any, ClassVar, Self

from strop.canonical import canonical_json
from strop.errors import (
    BoundaryError,
    EnvironmentFaultError,
    EpisodeUseError,
    NoCompletionError,
)
from strop.faults import FAULTS, fault_of
from strop.limits import limited, sampled_tokens
from strop.recorder import Recorder
from strop.replies import Replies
from strop.stopwatch import Stopwatch
from strop.toolbox import Toolbox
from strop.tools import Tool, ToolConnection, ToolLike, tools_of
from strop.trajectory import Failure, Seat, StopReason, Timing, Trajectory, failure_of
from strop.types import (
    JSON,
    POLICY,
    Completion,
    End,
    Message,
    Sampling,
    ToolSpec,
    is_message,
)

if TYPE_CHECKING:
    from strop.attempt import Attempt
    from strop.environment import Environment
    from strop.task import Task

_CUT: dict[str, StopReason] = {"length": "max_tokens", "content_filter": "content_filter"}

Answer = str | Message | Sequence[Message] | End


class Episode:
    """One attempt at one task. Authors subclass it; its fields are the state.

    Override `setup`, `respond` and `close` as needed and mark tools with `@tool`. What scoring
    needs of the state goes into `outcome`, which the trajectory keeps. As it stands it is the
    episode of a single-turn environment: any completion ends it.

    A driver (the SDK's rollout, or a trainer) opens it with ``async with``, reads `messages`
    and `tools`, gives each completion to `step`, and takes the trajectory from `score`.

    Several roles in one episode are seats: declare them in `seats`, tell each what it sees
    with `tell`, and set `due_seat` to whose completion comes next.
    """

    seats: ClassVar[Mapping[str, bool]] = {POLICY: True}
    """Names of the roles, and whether each is trained; the first one's reward is the total."""

    ends_when_cut: ClassVar[bool] = True
    """Whether a completion that was cut off or filtered truncates the episode."""

    _tools: ClassVar[dict[str, Tool]] = {}
    _has_own_messages: ClassVar[bool] = False

    def __init_subclass__(cls, **options: Any) -> None:
        super().__init_subclass__(**options)
        cls._tools = tools_of(cls)
        cls._has_own_messages = cls.messages_of is not Episode.messages_of

    def __init__(self, environment: Environment, task: Task, attempt: Attempt) -> None:
        self.task = task
        """The problem."""
        self.attempt = attempt
        self.outcome: dict[str, JSON] = {}
        """What the trajectory keeps of the state, for reward functions."""
        self.due_seat = next(iter(self.seats))
        """Whose completion is due; an episode with several seats sets it."""
        self.toolbox = Toolbox((*self._tools.values(), *environment.tools))
        """What may be called; `setup` may add to it."""
        self.isolation: str | None = None
        """Level of the sandbox that runs code, for the record; None when none does."""
        self._environment = environment
        self._recorder = Recorder()
        self._replies: Replies | None = None
        self._connections: list[ToolConnection] = []
        self._turn_count = 0
        self._token_count = 0
        self._is_open = False
        self._stop: tuple[StopReason, str] | None = None
        self._failure: Failure | None = None
        self._started_at_s = time.time()
        self._queue_s = self._setup_s = self._turns_s = self._tools_s = 0.0
        self._rng: random.Random | None = None

    # What authors override

    async def setup(self) -> None:
        """Prepare the state before the first completion."""

    async def respond(self, completion: Completion) -> Answer:
        """Answer a completion that calls no tool: text, messages, or `End`.

        The answer is told to the seat that completed.
        """
        return End()

    async def close(self) -> None:
        """Free what `setup` took; runs exactly once, also after a failure or a cancel."""

    def messages_of(self, seat: str) -> Sequence[Message]:
        """All that a seat's next completion is sampled from; override to cut, fold or branch it."""
        return self._recorder.context(seat)

    # What drivers and authors read and use

    @property
    def seed(self) -> int:
        """The environment seed, 0 to 2^64 - 1; one group shares it."""
        return self.attempt.environment_seed

    @property
    def rng(self) -> random.Random:
        """The only source of chance that a deterministic environment may use."""
        if self._rng is None:
            self._rng = random.Random(self.seed)  # noqa: S311 - reproducible on purpose
        return self._rng

    @property
    def replies(self) -> Replies:
        """Through which services outside are asked, so that the record holds their answers."""
        if self._replies is None:
            self._replies = Replies()
        return self._replies

    @property
    def messages(self) -> Sequence[Message]:
        """All that the due seat's completion is sampled from; not to be changed.

        Raises:
            EnvironmentFaultError: `due_seat` is none of the seats, or `messages_of` raised.
        """
        return self.context_of(self._checked_seat())

    @property
    def tools(self) -> Sequence[ToolSpec]:
        """What the due seat may call."""
        return self.toolbox.specs(self.due_seat) if self.toolbox else ()

    @property
    def due_sampling(self) -> Sampling | None:
        """What the due completion asks of its sampling besides the driver's; None for nothing."""
        return None

    @property
    def turn_count(self) -> int:
        """How many completions there were, of all seats."""
        return self._turn_count

    @property
    def turns_left_s(self) -> float | None:
        """Seconds that the turns may still take; None without a limit."""
        limit = self._environment.time_limits.turns_s
        return None if limit is None else max(0.0, limit - self._turns_s)

    @property
    def has_close(self) -> bool:
        """Whether there is something of its own to free."""
        return bool(self._connections) or type(self).close is not Episode.close

    @property
    def is_ended(self) -> bool:
        """Whether no further completion is due."""
        return self._stop is not None

    def context_of(self, seat: str) -> Sequence[Message]:
        """What `messages_of` gives, for drivers.

        Raises:
            EnvironmentFaultError: It raised, or gave no sequence.
        """
        if not self._has_own_messages:
            return self._recorder.context(seat)
        try:
            context = self.messages_of(seat)
            if not isinstance(context, Sequence):
                raise TypeError(f"it returned {context!r:.200}. Return a list of messages")
        except FAULTS as error:
            raise self._fault("messages_of", error) from error
        return context

    def tell(self, seat: str, *messages: Message | str) -> None:
        """Add messages to what a seat sees; a string is one of the user's."""
        if seat not in self.seats:
            known = ", ".join(self.seats)
            raise EpisodeUseError(f"There is no seat {seat!r}. Declare it in `seats`: {known}.")
        told = [Message("user", each) if isinstance(each, str) else each for each in messages]
        self._recorder.observe(seat, told)

    def add_tools(self, *tools: ToolLike) -> None:
        """Offer further tools in this episode, such as those of a server; call it in `setup`."""
        self.toolbox.add(tools)

    # What drivers call

    async def __aenter__(self) -> Self:
        await self.open()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.shut()

    async def open(self) -> None:
        """Show the task to the first seat and run `setup`.

        Raises:
            EnvironmentFaultError: `setup` raised or took too long.
            EpisodeUseError: The episode was opened before.
        """
        if self._is_open or self._stop is not None:
            raise EpisodeUseError("An episode is single-use. Start another for another attempt.")
        self._is_open = True
        self._recorder.observe(next(iter(self.seats)), self._environment.opening(self.task))
        watch = Stopwatch()
        try:
            with watch:
                async with limited(self._environment.time_limits.setup_s):
                    for server in self._environment.episode_servers:
                        self._connections.append(await server.connect())
                        self.add_tools(*self._connections[-1].tools)
                    await self.setup()
        except FAULTS as error:
            raise self._fault("setup", error) from error
        finally:
            self._setup_s = watch.seconds
            self._queue_s += watch.queue_s

    async def step(self, completion: Completion, *, elapsed_s: float = 0.0) -> None:
        """Take the due completion, run its tools or `respond`, and observe the answer.

        Args:
            completion: Of `due_seat`.
            elapsed_s: Seconds that sampling it took, charged to the turns.

        Raises:
            BoundaryError: Author code failed; the episode cannot go on.
            EpisodeUseError: The episode is not open, or it has ended.
        """
        if not self._is_open or self._stop is not None:
            raise EpisodeUseError("No completion is due: the episode is not open, or has ended.")
        seat = self._checked_seat()
        if self._has_own_messages:
            self._rebase(seat)
        self._recorder.commit(seat, completion)
        self._turn_count += 1
        cut = _CUT.get(completion.finish_reason) if self.ends_when_cut else None
        has_calls = bool(completion.message.tool_calls and self.toolbox and cut is None)
        left_s = self.turns_left_s
        watch = Stopwatch()
        try:
            with watch:
                async with limited(None if left_s is None else max(0.0, left_s - elapsed_s)):
                    await (self._run_tools if has_calls else self._respond)(seat, completion)
        except TimeoutError:
            self.truncate("time_limit", "the turns took as long as they may")
        finally:
            self._turns_s += elapsed_s + watch.seconds
            self._queue_s += watch.queue_s
        if cut is not None:
            self._stop = (cut, "the completion was cut")
        elif self._stop is None:
            self._stop = self._limit(completion)

    def truncate(self, reason: StopReason, detail: str = "") -> None:
        """End by a limit; nothing happens when the episode has ended already."""
        if self._stop is None:
            self._stop = (reason, detail)

    def fail(self, error: Exception) -> None:
        """End with a failure that is never scored."""
        boundary = error.boundary if isinstance(error, BoundaryError) else "environment"
        text = "".join(traceback.format_exception(error, limit=-8))
        self.fail_with(failure_of(error, boundary, text))

    def fail_with(self, failure: Failure) -> None:
        """End with a failure that was recorded elsewhere; the first one counts."""
        self._failure = self._failure or failure
        self._stop = ("failure", failure.message)

    async def score(self, queue_s: float = 0.0) -> Trajectory:
        """End the episode if it has not ended, and score it; call it before closing.

        One that is stopped before its first completion is a failure and gets no reward, and so is
        one whose `outcome` holds what is no JSON.

        Args:
            queue_s: Seconds that the attempt waited before it began, for the record.
        """
        if self._stop is None and self._turn_count == 0:
            detail = "The driver stopped the episode before its first completion."
            self.fail(NoCompletionError(detail))
            self._stop = ("cancelled", detail)
        self.truncate("driver", "the driver asked for the result")
        self._check_outcome()
        return await self._environment.score(self._trajectory(queue_s), self)

    async def shut(self) -> None:
        """Run `close` once.

        Raises:
            EnvironmentFaultError: `close` raised.
        """
        if not self._is_open:
            return
        self._is_open = False
        self.truncate("driver", "closed by the driver")
        try:
            # Each connection is closed, whatever fails before it.
            async with AsyncExitStack() as connections:
                for connection in self._connections:
                    connections.push_async_callback(connection.close)
                await self.close()
        except FAULTS as error:
            raise self._fault("close", error) from error

    def _checked_seat(self) -> str:
        seat = self.due_seat
        if seat not in self.seats:
            known = ", ".join(self.seats)
            raise EnvironmentFaultError(
                f"The episode's `due_seat` is {seat!r}, which is none of its seats: {known}."
            )
        return seat

    def _rebase(self, seat: str) -> None:
        try:
            self._recorder.rebase(seat, self.context_of(seat))
        except FAULTS as error:
            raise self._fault("messages_of", error) from error

    async def _respond(self, seat: str, completion: Completion) -> None:
        try:
            answer = await self.respond(completion)
            messages = _as_messages(answer)
        except BoundaryError:
            raise
        except FAULTS as error:
            raise self._fault("respond", error) from error
        if isinstance(answer, End):
            self._stop = ("ended", answer.reason)
        self._recorder.observe(seat, messages)

    async def _run_tools(self, seat: str, completion: Completion) -> None:
        environment = self._environment
        with Stopwatch() as watch:
            messages, end = await self.toolbox.answer(
                completion.message.tool_calls,
                seat,
                self,
                environment.threads,
                environment.time_limits.tool_s,
            )
        if end is not None:
            self._stop = ("ended", end.reason)
        self._recorder.observe(seat, messages)
        self._tools_s += watch.seconds

    def _limit(self, completion: Completion) -> tuple[StopReason, str] | None:
        environment = self._environment
        self._token_count += sampled_tokens(completion)
        if self._turn_count >= environment.max_turns:
            return "max_turns", f"{self._turn_count} turns"
        if environment.max_tokens is not None and self._token_count >= environment.max_tokens:
            return "max_tokens", f"{self._token_count} sampled tokens"
        if self.turns_left_s == 0.0:
            return "time_limit", f"{self._turns_s:.1f} s"
        for condition in environment.stop_when:
            name = getattr(condition, "__name__", "stop_when")
            try:
                reason = condition(self)
            except FAULTS as error:
                raise fault_of(f"`{name}` of `stop_when`", error) from error
            if reason:
                return "ended", reason if isinstance(reason, str) else name
        return None

    def _trajectory(self, queue_s: float) -> Trajectory:
        environment = self._environment
        reason, detail = self._stop or ("driver", "")
        return Trajectory(
            attempt=self.attempt,
            task=self.task,
            segments=self._recorder.close(),
            seats={name: Seat(is_trainable) for name, is_trainable in self.seats.items()},
            outcome=self.outcome,
            stop_reason=reason,
            stop_detail=detail,
            failure=self._failure,
            replies=() if self._replies is None else self._replies.recorded(),
            environment=environment.identity,
            settings=environment.settings,
            fork_count=self._recorder.fork_count,
            timing=Timing(queue_s + self._queue_s, self._setup_s, self._turns_s, self._tools_s),
            started_at_s=self._started_at_s,
            isolation=self.isolation,
            strop_version=environment.strop_version,
        )

    def _check_outcome(self) -> None:
        """Fail for what no record can hold, instead of ending a whole run when it is written."""
        if not isinstance(self.outcome, dict):
            place = f"`outcome` of `{type(self).__name__}` is {self.outcome!r}"
            self.outcome = {}
            self.fail(EnvironmentFaultError(f"{place}. Leave it a dict, from names to JSON."))
        for name, value in tuple(self.outcome.items()):
            try:
                canonical_json(value)
            except (TypeError, ValueError) as error:
                del self.outcome[name]
                place = f"`outcome[{name!r}]` of `{type(self).__name__}`"
                self.fail(EnvironmentFaultError(f"{place} is no JSON: {error}."))

    def _fault(self, where: str, error: BaseException) -> BoundaryError:
        return fault_of(f"`{type(self).__name__}.{where}`", error)


def _as_messages(answer: Answer) -> Sequence[Message]:
    messages: tuple[Message, ...] | None = None
    if isinstance(answer, End):
        messages = () if answer.message is None else (Message("user", answer.message),)
    elif isinstance(answer, str):
        messages = (Message("user", answer),)
    elif isinstance(answer, Message):
        messages = (answer,)
    elif isinstance(answer, Iterable):
        messages = tuple(answer)
    if messages is not None and all(map(is_message, messages)):
        return messages
    raise TypeError(
        f"`respond` returned {answer!r}. Return a string, a Message, a list of them, or End()."
    )
