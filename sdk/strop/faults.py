"""Which errors of author code and models are the fault of their attempt (step: rollout)."""

from __future__ import annotations

import asyncio

from strop.errors import BoundaryError, EnvironmentFaultError

FAULTS = (Exception, SystemExit, asyncio.CancelledError)
"""What a boundary catches, and hands to `own_fault`."""


def own_fault(error: BaseException) -> BaseException:
    """The error to be told of, unless it is the cancel of the task that runs.

    A cancel that came out of another task or future, which somebody awaited, is an error like any
    other: passed on, it would look as if the attempt itself were no longer wanted.

    Raises:
        asyncio.CancelledError: The running task is to end.
    """
    if not isinstance(error, asyncio.CancelledError):
        return error
    running = asyncio.current_task()
    if running is None or running.cancelling():
        raise error
    return asyncio.CancelledError(
        str(error) or "a task or future that it awaited was cancelled. Catch that where it awaits"
    ).with_traceback(error.__traceback__)


def fault_of(code: str, error: BaseException) -> BoundaryError:
    """The fault of an environment whose code, as messages name it, raised an error.

    Raises:
        asyncio.CancelledError: As `own_fault`.
    """
    if isinstance(error, BoundaryError):
        return error
    fault = own_fault(error)
    return EnvironmentFaultError(f"{code} raised {type(fault).__name__}: {fault}")
