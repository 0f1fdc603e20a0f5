"""Reward functions, and the decorators that declare them (step: author)."""

from __future__ import annotations

import inspect
import math
import numbers
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any, Self, overload

from strop.errors import RewardError

RewardFunction = Callable[..., Any]


@dataclass(frozen=True, slots=True)
class Reward:
    """One reward function and how its value counts."""

    function: RewardFunction
    name: str = ""
    """The function's own where none is given."""
    weight: float = 1.0
    """Factor in the weighted sum; 0 makes it a metric."""
    range: tuple[float, float] | None = None
    """Smallest and largest value allowed, both included; None allows every finite number."""
    seat: str | None = None
    """Whose reward it is; None is the first seat's."""
    is_live: bool = False
    """Takes the open episode too, runs before it closes, and is not run again on a record."""
    is_outside: bool = False
    """Takes `strop.replies.Replies` too, through which it asks judges and other services."""
    is_inline: bool = False
    """A `def` that runs on the event loop, not on a thread."""
    is_group: bool = False
    """Takes the valid members of a group and returns one number for each."""
    is_process: bool = False
    """A `def` that runs in a process, which is killed when it takes too long."""
    is_turn: bool = False
    """Returns one number for each turn, which is no part of the seat's reward."""
    is_async: bool = field(init=False)

    def __post_init__(self) -> None:
        set_field = object.__setattr__
        name = self.name or getattr(self.function, "__name__", type(self.function).__name__)
        set_field(self, "name", name)
        set_field(self, "is_async", _is_async(self.function))
        self._check_numbers()
        self._check_signature()
        if self.is_process:
            self._check_process()

    def weighted(self, weight: float) -> Self:
        """The same function with another weight."""
        return replace(self, weight=weight)

    def checked(self, value: Any) -> float:
        """The value as a number.

        Raises:
            RewardError: It is no finite number within the range.
        """
        if not isinstance(value, numbers.Real):
            raise RewardError(f"`{self.name}` returned {value!r}, which is no number.")
        try:
            number = float(value)
        except OverflowError:
            raise RewardError(f"`{self.name}` returned a number beyond every float.") from None
        if not math.isfinite(number):
            raise RewardError(f"`{self.name}` returned {number}, which is not finite.")
        if self.range is not None and not self.range[0] <= number <= self.range[1]:
            raise RewardError(
                f"`{self.name}` returned {number}, outside its range {list(self.range)}. "
                "Mend the function or widen @reward(range=…)."
            )
        return number

    def checked_turns(self, values: Any, turn_count: int) -> tuple[float, ...]:
        """The values as numbers, one for each turn.

        Raises:
            RewardError: They are too few or too many, or one is no finite number within the range.
        """
        try:
            given = tuple(values)
        except TypeError:
            raise RewardError(
                f"`{self.name}` returned {values!r}. Return a list with a number for each turn."
            ) from None
        if len(given) != turn_count:
            raise RewardError(
                f"`{self.name}` returned {len(given)} numbers for {turn_count} turns."
            )
        numbers = []
        for turn, value in enumerate(given, start=1):
            try:
                numbers.append(self.checked(value))
            except RewardError as error:
                raise RewardError(f"{error} It is that of turn {turn}.") from None
        return tuple(numbers)

    def __call__(self, *arguments: Any) -> Any:
        """Call the function itself."""
        return self.function(*arguments)

    def _check_numbers(self) -> None:
        if not math.isfinite(self.weight):
            raise ValueError(f"The weight of `{self.name}` is {self.weight}. Give a finite number.")
        if self.range is not None and not self.range[0] <= self.range[1]:
            raise ValueError(
                f"The range of `{self.name}` is {list(self.range)}, in which no number lies. "
                "Give the smallest value first."
            )

    def _check_signature(self) -> None:
        wanted = ["trajectories" if self.is_group else "trajectory"]
        wanted += ["episode"] * self.is_live + ["replies"] * self.is_outside
        try:
            inspect.signature(self.function).bind(*wanted)
        except TypeError as error:
            raise ValueError(
                f"The reward function `{self.name}` cannot be called as "
                f"{self.name}({', '.join(wanted)}): {error}. "
                "Further values belong into the task or into the episode's outcome."
            ) from error

    def _check_process(self) -> None:
        from strop.processes import problem_of

        problem = problem_of(self.function)
        if self.is_async or self.is_live or self.is_outside or self.is_inline:
            problem = "only a `def` of the trajectory alone can; no live, outside or inline one"
        if problem is not None:
            raise ValueError(f"The reward function `{self.name}` runs in no process: {problem}.")


@overload
def reward(function: RewardFunction, /) -> Reward: ...
@overload
def reward(
    *,
    weight: float = 1.0,
    range: tuple[float, float] | None = None,
    seat: str | None = None,
    live: bool = False,
    outside: bool = False,
    inline: bool = False,
    process: bool = False,
    name: str = "",
) -> Callable[[RewardFunction], Reward]: ...
def reward(
    function: RewardFunction | None = None,
    /,
    *,
    weight: float = 1.0,
    range: tuple[float, float] | None = None,
    seat: str | None = None,
    live: bool = False,
    outside: bool = False,
    inline: bool = False,
    process: bool = False,
    name: str = "",
) -> Reward | Callable[[RewardFunction], Reward]:
    """Make a reward function of ``f(trajectory) -> float``, `def` or `async def`.

    It must be pure: it is run again on saved trajectories. What it is handed is the record itself
    and no copy, which every rollout would pay for: a function that sorts or empties a list of
    `outcome` or of the task changes what is written. `strop env check` finds that (`pure`).

    Args:
        function: The function, when the decorator stands without arguments.
        weight: Factor in the weighted sum that is trained on.
        range: Smallest and largest value; another one fails the attempt, and is never clipped.
        seat: Whose reward it is, where an episode has several seats; None is the first one's.
        live: It takes ``(trajectory, episode)`` and runs before the episode closes.
        outside: Its last parameter is `Replies`, through which it asks judges and the like.
        inline: Run a `def` on the event loop: only for what takes microseconds.
        process: Run a `def` in a process of its own, for what may hang or hold the interpreter:
            beyond its time it is killed with all that it started. Others run on threads.
        name: Another name than the function's.
    """

    def make(made: RewardFunction) -> Reward:
        return Reward(made, name, weight, range, seat, live, outside, inline, is_process=process)

    return make if function is None else make(function)


def metric(function: RewardFunction) -> Reward:
    """Make a metric of ``f(trajectory) -> float``: a number that is kept, and not trained on."""
    return Reward(function, weight=0.0)


@overload
def group_reward(function: RewardFunction, /) -> Reward: ...
@overload
def group_reward(
    *,
    weight: float = 1.0,
    range: tuple[float, float] | None = None,
    seat: str | None = None,
    process: bool = False,
    name: str = "",
) -> Callable[[RewardFunction], Reward]: ...
def group_reward(
    function: RewardFunction | None = None,
    /,
    *,
    weight: float = 1.0,
    range: tuple[float, float] | None = None,
    seat: str | None = None,
    process: bool = False,
    name: str = "",
) -> Reward | Callable[[RewardFunction], Reward]:
    """Make a reward of ``f(trajectories) -> numbers``: the members of a group, compared.

    It gets the members without a failure and returns one number for each, in their order.
    A bad number fails its member; a raise or a wrong count fails them all.

    Args:
        function: The function, when the decorator stands without arguments.
        weight: Factor in the weighted sum that is trained on.
        range: Smallest and largest value.
        seat: Whose reward it is; None is the first seat's.
        process: Run a `def` in a process, as for `reward`.
        name: Another name than the function's.
    """

    def make(made: RewardFunction) -> Reward:
        return Reward(made, name, weight, range, seat, is_group=True, is_process=process)

    return make if function is None else make(function)


@overload
def turn_reward(function: RewardFunction, /) -> Reward: ...
@overload
def turn_reward(
    *,
    weight: float = 1.0,
    range: tuple[float, float] | None = None,
    live: bool = False,
    outside: bool = False,
    inline: bool = False,
    process: bool = False,
    name: str = "",
) -> Callable[[RewardFunction], Reward]: ...
def turn_reward(
    function: RewardFunction | None = None,
    /,
    *,
    weight: float = 1.0,
    range: tuple[float, float] | None = None,
    live: bool = False,
    outside: bool = False,
    inline: bool = False,
    process: bool = False,
    name: str = "",
) -> Reward | Callable[[RewardFunction], Reward]:
    """Make a function of ``f(trajectory) -> numbers`` that rewards the turns one by one.

    It returns a number for each completion of any seat, ``[turns]``, in their order. Their
    weighted sums over all such functions are the trajectory's `turn_rewards`; the seat's reward
    does not contain them. What happened in a turn is put into the episode's outcome as it
    happens. A bad number or a wrong count fails the attempt.

    Args:
        function: The function, when the decorator stands without arguments.
        weight: Factor in the weighted sum.
        range: Smallest and largest value of a turn.
        live: As for `reward`.
        outside: As for `reward`.
        inline: As for `reward`.
        process: As for `reward`.
        name: Another name than the function's.
    """

    def make(made: RewardFunction) -> Reward:
        return Reward(
            made,
            name,
            weight,
            range,
            None,
            live,
            outside,
            inline,
            is_process=process,
            is_turn=True,
        )

    return make if function is None else make(function)


def _is_async(function: RewardFunction) -> bool:
    call = getattr(function, "__call__", None)  # noqa: B004 - an instance's own method is meant
    return inspect.iscoroutinefunction(function) or inspect.iscoroutinefunction(call)
