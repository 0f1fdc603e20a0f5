"""Score a trajectory: reward functions in, one reward and all its parts out (step: reward)."""

from __future__ import annotations

import inspect
import math
import numbers
import traceback
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, overload

from strop.errors import RewardError
from strop.threads import Threads
from strop.trajectory import Failure, RewardValue, Trajectory, failure_of
from strop.types import POLICY

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
    is_live: bool = False
    """Takes the open episode too, runs before it closes, and is not run again on a record."""
    is_inline: bool = False
    """A `def` that runs on the event loop, not on a thread."""
    is_async: bool = field(init=False)

    def __post_init__(self) -> None:
        set_field = object.__setattr__
        name = self.name or getattr(self.function, "__name__", type(self.function).__name__)
        set_field(self, "name", name)
        set_field(self, "is_async", inspect.iscoroutinefunction(self.function))
        _check_signature(self)

    def weighted(self, weight: float) -> Reward:
        """The same function with another weight."""
        return replace(self, weight=weight)

    def __call__(self, *arguments: Any) -> Any:
        """Call the function itself."""
        return self.function(*arguments)


@overload
def reward(function: RewardFunction, /) -> Reward: ...
@overload
def reward(
    *,
    weight: float = 1.0,
    range: tuple[float, float] | None = None,
    live: bool = False,
    inline: bool = False,
    name: str = "",
) -> Callable[[RewardFunction], Reward]: ...
def reward(
    function: RewardFunction | None = None,
    /,
    *,
    weight: float = 1.0,
    range: tuple[float, float] | None = None,
    live: bool = False,
    inline: bool = False,
    name: str = "",
) -> Reward | Callable[[RewardFunction], Reward]:
    """Make a reward function of ``f(trajectory) -> float``, `def` or `async def`.

    It must be pure: it is run again on saved trajectories.

    Args:
        function: The function, when the decorator stands without arguments.
        weight: Factor in the weighted sum that is trained on.
        range: Smallest and largest value; another one fails the attempt, and is never clipped.
        live: It takes ``(trajectory, episode)`` and runs before the episode closes.
        inline: Run a `def` on the event loop: only for what takes microseconds.
        name: Another name than the function's.
    """

    def make(made: RewardFunction) -> Reward:
        return Reward(made, name, weight, range, live, inline)

    return make if function is None else make(function)


def metric(function: RewardFunction) -> Reward:
    """Make a metric of ``f(trajectory) -> float``: a number that is kept, and not trained on."""
    return Reward(function, weight=0.0)


class Rubric:
    """The weighted list of reward functions of an environment.

    Raises:
        ValueError: Two functions have one name, or a signature is wrong.
    """

    def __init__(self, rewards: Sequence[Reward | RewardFunction]) -> None:
        self.rewards = tuple(r if isinstance(r, Reward) else Reward(r) for r in rewards)
        names = [each.name for each in self.rewards]
        doubled = sorted({name for name in names if names.count(name) > 1})
        if doubled:
            raise ValueError(
                f"Two reward functions are called {', '.join(doubled)}. "
                "Give one another name: @reward(name=…)."
            )

    async def score(
        self, trajectory: Trajectory, threads: Threads, episode: object | None = None
    ) -> Trajectory:
        """A copy with reward, its parts and metrics; or with a failure that names the function.

        A trajectory that failed already is not scored. Every function runs, also after one
        failed; then the reward is None, never 0.

        Args:
            trajectory: A finished one.
            threads: Where `def` functions run.
            episode: The open episode for live functions; None leaves their recorded values.
        """
        if trajectory.failure is not None:
            return trajectory
        values: dict[str, RewardValue] = {}
        failure: Failure | None = None
        for each in self.rewards:
            if each.is_live and episode is None:
                value = _recorded(trajectory, each)
            else:
                value, fault = await _run(each, trajectory, threads, episode)
                failure = failure or fault
            values[each.name] = value
        return _with_rewards(trajectory, values, failure)


async def _run(
    each: Reward, trajectory: Trajectory, threads: Threads, episode: object | None
) -> tuple[RewardValue, Failure | None]:
    arguments = (trajectory, episode) if each.is_live else (trajectory,)
    try:
        if each.is_async:
            value = await each.function(*arguments)
        elif each.is_inline:
            value = each.function(*arguments)
        else:
            value = await threads.call(each.function, *arguments)
        return RewardValue(_checked(each, value), each.weight, each.range), None
    except Exception as error:  # noqa: BLE001 - the boundary of reward functions
        fault = _fault(each, error)
        failure = failure_of(fault, "reward", "".join(traceback.format_exception(error, limit=-8)))
        return RewardValue(None, each.weight, each.range, str(fault)), failure


def _checked(each: Reward, value: Any) -> float:
    if not isinstance(value, numbers.Real):
        raise RewardError(f"`{each.name}` returned {value!r}, which is no number.")
    number = float(value)
    if not math.isfinite(number):
        raise RewardError(f"`{each.name}` returned {number}, which is not finite.")
    if each.range is not None and not each.range[0] <= number <= each.range[1]:
        raise RewardError(
            f"`{each.name}` returned {number}, outside its range {list(each.range)}. "
            "Mend the function or widen @reward(range=…)."
        )
    return number


def _fault(each: Reward, error: Exception) -> RewardError:
    if isinstance(error, RewardError):
        return error
    return RewardError(f"`{each.name}` raised {type(error).__name__}: {error}")


def _recorded(trajectory: Trajectory, each: Reward) -> RewardValue:
    recorded = trajectory.rewards.get(each.name)
    if recorded is None:
        return RewardValue(None, each.weight, each.range, "live, and never recorded")
    return replace(recorded, weight=each.weight)


def _with_rewards(
    trajectory: Trajectory, values: dict[str, RewardValue], failure: Failure | None
) -> Trajectory:
    total: float | None = None
    if all(value.value is not None for value in values.values()):
        total = math.fsum(value.weight * (value.value or 0.0) for value in values.values())
    seat = replace(trajectory.seat, reward=total, rewards=values)
    name = POLICY if POLICY in trajectory.seats else next(iter(trajectory.seats))
    metrics = {
        name: value.value
        for name, value in values.items()
        if value.weight == 0.0 and value.value is not None
    }
    return replace(
        trajectory,
        seats={**trajectory.seats, name: seat},
        metrics={**trajectory.metrics, **metrics},
        failure=failure,
    )


def _check_signature(each: Reward) -> None:
    wanted = ("trajectory", "episode") if each.is_live else ("trajectory",)
    try:
        inspect.signature(each.function).bind(*wanted)
    except TypeError as error:
        form = f"{each.name}({', '.join(wanted)})"
        raise ValueError(
            f"The reward function `{each.name}` cannot be called as {form}: {error}. "
            "Further values belong into the task or into the episode's outcome."
        ) from error
