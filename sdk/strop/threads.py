"""Threads for author code that may block, apart from asyncio's own few (step: rollout)."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import sys
import threading
import time
from collections.abc import Callable
from contextvars import copy_context
from queue import Empty, SimpleQueue
from typing import TYPE_CHECKING, Any, TypeVar

from strop.stopwatch import QueueClock, current_clock

if TYPE_CHECKING:
    from strop.processes import Processes

Result = TypeVar("Result")

_INSIST_S = 1.0
_INSIST_COUNT = 5
_LOOK_COUNT = 10
_LOOK_S = 0.001
_LOG = logging.getLogger("strop")


class Threads:
    """As many threads as rollouts may be in flight, so that a slow call stops nobody else.

    Threads start when they are first needed. asyncio's default executor has a few dozen:
    200 sleeping tools would starve every other one. A call that its caller has left is ended
    where Python can end it, and takes no place from others; the end of the program waits for
    none.
    """

    def __init__(self, limit: int = 256) -> None:
        self.limit = limit
        self._crew: _Crew | None = None
        self._processes: Processes | None = None

    @property
    def processes(self) -> Processes:
        """For what must be killed when it is left."""
        if self._processes is None:
            from strop.processes import Processes

            self._processes = Processes(self)
        return self._processes

    async def call(self, function: Callable[..., Result], *arguments: Any) -> Result:
        """Run a blocking function; one that is left, by a cancel or a time limit, is ended.

        Waiting for a free thread is charged to no time limit.
        """
        if self._crew is None:
            self._crew = _Crew()
        call = _Call(self._crew, function, arguments)
        self._crew.begin(call, self.limit)
        try:
            result: Result = await call.future
        except asyncio.CancelledError:
            call.leave()
            raise
        return result

    async def call_to_end(self, function: Callable[..., Result], *arguments: Any) -> Result:
        """The same for what must not be ended half-way: it goes on when its caller has left."""
        return await asyncio.shield(self.call(function, *arguments))

    def close(self) -> None:
        """Stop idle threads and processes; busy ones end with their call."""
        if self._processes is not None:
            self._processes.close()
            self._processes = None
        if self._crew is not None:
            self._crew.dismiss()
            self._crew = None


class _LeftError(SystemExit):
    """Raised where a call stands that nobody waits for; a thread that it ends says nothing."""


class _Call:
    """One call: waiting, running or over."""

    __slots__ = (
        "arguments",
        "clock",
        "context",
        "crew",
        "function",
        "future",
        "is_left",
        "loop",
        "thread",
    )

    def __init__(
        self, crew: _Crew, function: Callable[..., Any], arguments: tuple[Any, ...]
    ) -> None:
        self.crew = crew
        self.function = function
        self.arguments = arguments
        # What runs on the thread may wait in a queue for this attempt.
        self.context = copy_context()
        self.loop = asyncio.get_running_loop()
        self.future: asyncio.Future[Any] = self.loop.create_future()
        self.clock: QueueClock | None = None
        """Of the attempt, while it waits for a thread."""
        self.thread: threading.Thread | None = None
        """Which thread runs it, while one does."""
        self.is_left = False

    def wait(self) -> None:
        """No thread is free."""
        self.clock = current_clock()
        if self.clock is not None:
            self.clock.enter()

    def stop_waiting(self) -> None:
        """A thread has taken it, or nobody wants it any more."""
        clock, self.clock = self.clock, None
        if clock is not None:
            clock.leave()

    def run(self) -> None:
        """Run it here, and tell its caller."""
        result: Any = None
        error: BaseException | None = None
        try:
            result = self.context.run(self.function, *self.arguments)
        except StopIteration as escaped:
            # A future cannot carry StopIteration: its waiter would wait for ever.
            error = RuntimeError("StopIteration escaped from a function")
            error.__cause__ = escaped
        except BaseException as raised:  # noqa: BLE001 - the caller gets it
            error = raised
        self.tell(self._settle, result, error)
        # An error holds this frame, which must not hold the error.
        error = None

    def tell(self, function: Callable[..., None], *arguments: Any) -> None:
        """Call a function on the caller's event loop."""
        with contextlib.suppress(RuntimeError):
            self.loop.call_soon_threadsafe(function, *arguments)

    def leave(self) -> None:
        """Nobody waits for it any more."""
        self.stop_waiting()
        if self.crew.give_up(self):
            self._insist(_INSIST_COUNT)

    def _settle(self, result: Any, error: BaseException | None) -> None:
        if self.future.done():
            return
        if error is None:
            self.future.set_result(result)
        else:
            self.future.set_exception(error)

    def _insist(self, left_count: int) -> None:
        if not self.crew.interrupt(self):
            return
        if left_count:
            # A handler of all errors caught it, or a call outside Python has yet to end.
            self.loop.call_later(_INSIST_S, self._insist, left_count - 1)
            return
        name = getattr(self.function, "__qualname__", self.function)
        _LOG.warning(
            "`%s` was left %g s ago and cannot be ended. What may hang outside Python, or hold "
            "the interpreter, belongs in a process (@reward(process=True)) or in the sandbox.",
            name,
            _INSIST_S * _INSIST_COUNT,
        )


def _can_raise_on(thread: int) -> bool:
    """Whether an error may be raised on another thread without harm to this one.

    Until that thread takes its error, no traced function of Python 3.11 (under coverage, in a
    debugger) can be entered on any other: so there only one is given any that takes it at once.
    """
    if sys.version_info >= (3, 12) or sys.gettrace() is None:
        return True
    for _ in range(_LOOK_COUNT):
        if _takes_errors(thread):
            return True
        time.sleep(_LOOK_S)
    return False


def _takes_errors(thread: int) -> bool:
    """Whether a thread that waits for the interpreter does so where it looks for errors next.

    At a call it may be blocked outside Python; where a function begins or a loop begins again
    nothing else can hold it up.
    """
    import dis

    frame = sys._current_frames().get(thread)
    if frame is None:
        return False
    step = dis.opname[frame.f_code.co_code[frame.f_lasti]]
    return step == "RESUME" or "JUMP_BACKWARD" in step


class _Crew:
    """The threads of one pool: daemons, so that the end of the program waits for none."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._calls: SimpleQueue[_Call | None] = SimpleQueue()
        self._thread_count = 0
        self._idle_count = 0
        """Threads for which no call is on its way."""
        self._backlog_count = 0
        """Calls for which no thread is on its way."""

    def begin(self, call: _Call, limit: int) -> None:
        """Have a call run as soon as a thread is free."""
        with self._lock:
            is_new = not self._idle_count and self._thread_count < limit
            if is_new:
                self._thread_count += 1
            elif self._idle_count:
                self._idle_count -= 1
            else:
                self._backlog_count += 1
                call.wait()
        self._calls.put(call)
        if is_new:
            self._start_thread()

    def give_up(self, call: _Call) -> bool:
        """Whether a call that nobody waits for is running; others get its place."""
        with self._lock:
            call.is_left = True
            if call.thread is None:
                return False
            has_backlog = self._backlog_count > 0
            if has_backlog:
                self._backlog_count -= 1
            else:
                self._thread_count -= 1
        if has_backlog:
            self._start_thread()
        return True

    def interrupt(self, call: _Call) -> bool:
        """Raise an error where a left call stands, at its next step; whether it still runs."""
        import ctypes

        with self._lock:
            # An error that came as its call ended has ended the thread, whose number is another's.
            if call.thread is None or not call.thread.is_alive():
                return False
            assert call.thread.ident is not None
            if _can_raise_on(call.thread.ident):
                ctypes.pythonapi.PyThreadState_SetAsyncExc(
                    ctypes.c_ulong(call.thread.ident), ctypes.py_object(_LeftError)
                )
        return True

    def dismiss(self) -> None:
        """End idle threads now and busy ones after their call; calls that wait are cancelled."""
        with contextlib.suppress(Empty):
            while (call := self._calls.get_nowait()) is not None:
                call.stop_waiting()
                call.future.cancel()
        for _ in range(self._thread_count):
            self._calls.put(None)

    def _start_thread(self) -> None:
        threading.Thread(target=self._work, name="strop-call", daemon=True).start()

    def _work(self) -> None:
        # The error may come as late as when its call is over.
        with contextlib.suppress(_LeftError):
            self._serve()

    def _serve(self) -> None:
        while (call := self._calls.get()) is not None:
            if self._take(call):
                try:
                    call.run()
                finally:
                    is_left = self._has_left(call)
                if is_left:
                    return
            # Nothing of a call is kept while its thread is idle.
            del call
            self._free()

    def _take(self, call: _Call) -> bool:
        if call.clock is not None:
            call.tell(call.stop_waiting)
        with self._lock:
            if not call.is_left:
                call.thread = threading.current_thread()
        return call.thread is not None

    def _has_left(self, call: _Call) -> bool:
        with self._lock:
            call.thread = None
        return call.is_left

    def _free(self) -> None:
        with self._lock:
            if self._backlog_count:
                self._backlog_count -= 1
            else:
                self._idle_count += 1
