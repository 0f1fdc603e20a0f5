"""An episode whose turns are the calls of a program."""

from __future__ import annotations

import asyncio
import shutil
import tempfile
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar

from strop.episode import Answer, Episode
from strop.errors import EnvironmentFaultError
from strop.limits import limited
from strop.serve.http.message import Peer
from strop.serve.intercept.branches import Branches
from strop.serve.intercept.endpoint import Endpoint
from strop.serve.intercept.peer import holds_connection
from strop.serve.intercept.program import Program, RunningProgram
from strop.serve.intercept.session import DueCall, Session, repeated_seed
from strop.trajectory import Trajectory
from strop.types import Completion, End, Message, Sampler, Sampling, ToolSpec

if TYPE_CHECKING:
    from strop.attempt import Attempt
    from strop.environment import Environment
    from strop.task import Task


class AgentEpisode(Episode):
    """One attempt of a program at one task.

    Authors say in `program` what to run, put its files into `folder` in `prepare`, and what
    scoring needs into `outcome` in `collect`, when the program has ended. The program finds
    the model at ``OPENAI_BASE_URL`` and ``ANTHROPIC_BASE_URL``, with a key of its own.

    `outcome` always holds ``exit_code`` and ``output``, the end of what was printed.

    Example:
        >>> class Coder(AgentEpisode):
        ...     def program(self) -> Program:
        ...         return Program(["my-agent", "--task", self.task.prompt[0].text])
    """

    ends_when_cut: ClassVar[bool] = False
    passed_fields: ClassVar[tuple[str, ...]] = ()
    """Of the program's requests, fields that go to the model as they are, such as
    ``response_format``: the model's dialect has to know them."""
    grace_s: ClassVar[float] = 1.0
    """What the program gets to end by itself, once its calls are refused, before it is killed."""

    def __init__(self, environment: Environment, task: Task, attempt: Attempt) -> None:
        super().__init__(environment, task, attempt)
        self.folder: Path
        """The program's home; it is removed when the episode closes."""
        self._program: Program
        self._session: Session | None = None
        self._running: RunningProgram | None = None
        self._due: DueCall | None = None
        self._sampler: Sampler | None = None
        self._branches: Branches | None = None
        self._deadline_at: float | None = None
        self._exit_code: int | None = None

    # What authors override

    def program(self) -> Program:
        """What to run."""
        raise NotImplementedError(f"{type(self).__name__} needs a method `program`.")

    async def prepare(self) -> None:
        """Fill `folder` before the program starts."""

    async def collect(self) -> None:
        """Put what scoring needs into `outcome`; nothing of the program runs any more."""

    # What the loop over turns sees

    @property
    def tools(self) -> Sequence[ToolSpec]:
        """What the program offers the model; it runs them itself."""
        return () if self._due is None else self._due.call.tools

    @property
    def due_sampling(self) -> Sampling | None:
        """What the program asks of the due completion."""
        return None if self._due is None else self._wish_of(self._due)

    def sample_with(self, sampler: Sampler) -> None:
        """Sample calls that come at the same time at the same time, and not one by one.

        Without it, as where a trainer drives, each call waits until the one before is completed.
        """
        self._sampler = sampler

    async def next_completion(self) -> Completion:
        """The next completion that ends, whose call then is the due one."""
        assert self._branches is not None
        self._due, completion = await self._branches.first()
        return completion

    def _wish_of(self, due: DueCall) -> Sampling:
        wish, repeat_count = due.call.wish, due.repeat_count
        if not repeat_count:
            return wish
        return replace(wish, seed=repeated_seed(self.attempt.sampling_seed, repeat_count))

    def _may_begin(self, flying_count: int) -> bool:
        return self.turn_count + flying_count < self._environment.max_turns

    def messages_of(self, seat: str) -> Sequence[Message]:
        """The conversation that the program sent."""
        return super().messages_of(seat) if self._due is None else self._due.call.messages

    async def setup(self) -> None:
        """Start the program and wait for its first call."""
        self.isolation = "none"
        self.folder = Path(tempfile.mkdtemp(prefix="strop-agent-"))
        await self.prepare()
        program = self._program = self.program()
        endpoint = Endpoint.current()
        self._session = await endpoint.open(self.passed_fields)
        loop = asyncio.get_running_loop()
        if program.limit_s is not None:
            self._deadline_at = loop.time() + program.limit_s
        variables = endpoint.variables(self._session)
        self._running = await RunningProgram.start(program, self.folder, variables)
        if self._sampler is not None:
            self._branches = Branches(self._session, self._sampler, self._wish_of, self._may_begin)
        self._session.begin(self._is_caller)
        await self._advance()
        if (turns_s := self.turns_left_s) is not None:
            ends_at = loop.time() + turns_s
            self._deadline_at = min(self._deadline_at or ends_at, ends_at)

    async def respond(self, completion: Completion) -> Answer:
        """Give the program its completion, and wait for its next call or its end."""
        assert self._session is not None
        if self._due is not None:
            self._session.complete(self._due, completion)
        return await self._advance()

    async def score(self, queue_s: float = 0.0) -> Trajectory:
        """End the program, collect what it left, and score it."""
        if self._is_open:
            self.truncate("driver", "the driver asked for the result")
            try:
                await self._finish()
            except Exception as error:  # noqa: BLE001 - the boundary of `collect`
                self.fail(self._fault("collect", error))
        return await super().score(queue_s)

    async def close(self) -> None:
        """Leave nothing behind: no process, no address, no file."""
        try:
            if self._branches is not None:
                await self._branches.stop()
            if self._running is not None:
                await self._running.stop()
                self._running.forget()
        finally:
            if self._session is not None:
                await Endpoint.current().close(self._session)
            if hasattr(self, "folder"):
                await asyncio.to_thread(shutil.rmtree, self.folder, ignore_errors=True)

    def _is_caller(self, peer: Peer) -> bool:
        running = self._running
        if running is None or running.is_ended:
            return False
        return self._program.callers == "any" or holds_connection(running.pid, peer)

    async def _advance(self) -> Answer:
        """Wait for the program's next call; gives the end when there is none."""
        session, running = self._session, self._running
        assert session is not None
        assert running is not None
        calling = asyncio.ensure_future(self._next_call(session))
        left_s = None
        if self._deadline_at is not None:
            left_s = max(0.0, self._deadline_at - asyncio.get_running_loop().time())
        try:
            await asyncio.wait(
                [calling, running.ended], timeout=left_s, return_when=asyncio.FIRST_COMPLETED
            )
        finally:
            if not calling.done():
                calling.cancel()
        called = calling.result() if calling.done() and not calling.cancelled() else None
        if self._branches is not None:
            # What is being sampled already becomes a turn, also when the program has ended.
            self._due = self._branches.due
        else:
            self._due = None if running.ended.done() else called
        if self._due is None and running.ended.done():
            self._check_end(running.ended.result())
            return End(reason="the program ended")
        if self._due is None:
            self.truncate("time_limit", "the program ran as long as it may")
        return ()

    async def _next_call(self, session: Session) -> DueCall:
        branches = self._branches
        if branches is None:
            return await session.next()
        while (due := branches.due) is None:
            branches.changed.clear()
            await branches.changed.wait()
        return due

    def _check_end(self, exit_code: int | None) -> None:
        assert self._running is not None
        assert self._session is not None
        allowed = self._program.ok_exit_codes
        tail = self._running.tail()[-2_000:].strip()
        name = self._program.argv[0]
        if exit_code is None or (allowed is not None and exit_code not in allowed):
            raise EnvironmentFaultError(f"`{name}` ended with exit code {exit_code}: {tail}")
        if self.turn_count == 0:
            raise EnvironmentFaultError(
                f"`{name}` ended without a call of the model ({self._session.stray_count} came "
                f"from elsewhere). Does it read OPENAI_BASE_URL or ANTHROPIC_BASE_URL? It printed: "
                f"{tail}"
            )

    async def _finish(self) -> None:
        running, session = self._running, self._session
        if running is None or session is None:
            return
        session.close("The episode has ended.")
        if self._branches is not None:
            await self._branches.stop()
        await running.stop(self.grace_s)
        self.outcome["exit_code"] = running.ended.result()
        self.outcome["output"] = running.tail()
        if self._failure is None:
            async with limited(self._environment.time_limits.setup_s):
                await self.collect()
