"""The tools of a live episode: who may call what, and how calls are answered (step: rollout)."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable, Coroutine, Iterable
from itertools import groupby
from typing import Any

from strop.errors import SettingsError, ToolError
from strop.limits import limited
from strop.threads import Threads
from strop.tools import Tool, ToolLike
from strop.types import Content, End, Message, ToolCall, ToolSpec


class Toolbox:
    """The tools of one episode, and how calls to them are answered.

    Args:
        tools: Offered from the start; an environment has checked them by `add`.
    """

    def __init__(self, tools: Iterable[ToolLike] = ()) -> None:
        self._tools = {tool.name: tool for tool in tools}

    def __bool__(self) -> bool:
        return bool(self._tools)

    def add(self, tools: Iterable[ToolLike]) -> None:
        """Offer further tools from now on.

        Raises:
            SettingsError: A name is taken, or no schema can be made of a tool's annotations.
        """
        for each in tools:
            taken = self._tools.setdefault(each.name, each)
            if taken is not each:
                raise SettingsError(
                    f"There are two tools called {each.name!r}: {_origin(taken)} and "
                    f"{_origin(each)}. Rename one of them, or offer only one."
                )
            _check_schema(each)

    def specs(self, seat: str) -> tuple[ToolSpec, ...]:
        """What a seat may call."""
        return tuple(each.spec for each in self._tools.values() if _is_offered(each, seat))

    async def answer(
        self,
        calls: tuple[ToolCall, ...],
        seat: str,
        owner: object,
        threads: Threads,
        limit_s: float | None = None,
    ) -> tuple[list[Message], End | None]:
        """One message for each call, in order, and the end if a tool called for it."""
        doubled = _doubled_ids(calls)
        messages: list[Message] = []
        end: End | None = None

        async def run(call: ToolCall) -> Content | End:
            try:
                found = self._find(call, seat, is_doubled=call.id in doubled)
                async with limited(limit_s):
                    return await found.call(owner, call.arguments, threads)
            except TimeoutError:
                return f"Error: `{call.name}` took longer than {limit_s} s and was left."
            except ToolError as error:
                return f"Error: {error}"

        # One after the other unless their author allows more: the calls share the episode's state.
        for is_parallel, together in groupby(calls, self._is_parallel):
            for call, answer in await _answers(run, list(together), is_parallel=is_parallel):
                if isinstance(answer, End):
                    end, answer = answer, answer.message or ""
                messages.append(Message("tool", answer, tool_call_id=call.id, name=call.name))
        return messages, end

    def _is_parallel(self, call: ToolCall) -> bool:
        return bool(getattr(self._tools.get(call.name), "is_parallel", False))

    def _find(self, call: ToolCall, seat: str, *, is_doubled: bool) -> ToolLike:
        if is_doubled:
            raise ToolError(f"The call id {call.id!r} stands twice; give each call its own.")
        found = self._tools.get(call.name)
        if found is None or not _is_offered(found, seat):
            names = ", ".join(spec.name for spec in self.specs(seat))
            raise ToolError(f"There is no tool {call.name!r}. Use: {names}.")
        return found


async def _answers(
    run: Callable[[ToolCall], Coroutine[Any, Any, Content | End]],
    calls: list[ToolCall],
    *,
    is_parallel: bool,
) -> list[tuple[ToolCall, Content | End]]:
    if not is_parallel or len(calls) == 1:
        return [(call, await run(call)) for call in calls]
    # All of them end before a fault goes on, so that none outlives its turn, and of several
    # faults it is always the one of the first call.
    outcomes = await asyncio.gather(*map(run, calls), return_exceptions=True)
    answers: list[tuple[ToolCall, Content | End]] = []
    for call, outcome in zip(calls, outcomes, strict=True):
        if isinstance(outcome, BaseException):
            raise outcome
        answers.append((call, outcome))
    return answers


def _origin(each: ToolLike) -> str:
    return getattr(each, "origin", f"a {type(each).__name__}")


def _check_schema(each: ToolLike) -> None:
    try:
        _ = each.spec
    except Exception as error:
        raise SettingsError(
            f"{_origin(each)} gives the tool {each.name!r} no schema. Annotate its parameters with "
            f"what JSON can carry: {(str(error) or type(error).__name__).splitlines()[0]}"
        ) from error


def _doubled_ids(calls: tuple[ToolCall, ...]) -> set[str]:
    counts = Counter(call.id for call in calls)
    return {each for each, count in counts.items() if count > 1}


def _is_offered(each: ToolLike, seat: str) -> bool:
    seats = each.options.seats if isinstance(each, Tool) else ()
    return not seats or seat in seats
