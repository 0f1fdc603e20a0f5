"""How far a run is: one live line on a terminal, plain lines elsewhere (step: rollout)."""

import os
import sys
import time
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Self, TypeAlias

from strop.cli.output import print_message

if TYPE_CHECKING:
    from strop.trajectory import Trajectory
    from strop.types import Usage

    Cost: TypeAlias = Callable[[Mapping[str, Usage], Mapping[str, Usage]], float | None]

_LIVE_INTERVAL_S = 0.1
_PLAIN_INTERVAL_S = 10.0
_USUAL_COLUMNS = 80
_LEAST_IMPORTANT_FIRST = ("gone", "tokens", "cost", "reward", "failed", "left")


class RunProgress:
    """Counts trajectories and shows rewards, failures, tokens, cost and the time left.

    Args:
        planned_count: Attempts in all, or None where nobody knows.
        cost: From the tokens that each seat and each judge took so far to money, or to None.
    """

    def __init__(self, planned_count: int | None, cost: "Cost") -> None:
        self._planned_count = planned_count
        self._cost = cost
        self._is_live = sys.stderr.isatty() and os.environ.get("TERM") != "dumb"
        self._started_at_s = time.monotonic()
        self._shown_at_s = self._started_at_s if not self._is_live else 0.0
        self._finished_count = self._made_count = self._failure_count = self._scored_count = 0
        self._reward_sum = 0.0
        self._seat_usage: dict[str, Usage] = {}
        self._source_usage: dict[str, Usage] = {}

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        if self._is_live and self._made_count > self._finished_count:
            sys.stderr.write("\r\033[K")
            sys.stderr.flush()

    def add_finished(self, trajectory: "Trajectory") -> None:
        """Count one that an earlier run made: it says nothing about the pace."""
        self._finished_count += 1
        self._count(trajectory)

    def add(self, trajectory: "Trajectory") -> None:
        """Count one, and show how far the run is when it is time."""
        self._count(trajectory)
        now = time.monotonic()
        interval_s = _LIVE_INTERVAL_S if self._is_live else _PLAIN_INTERVAL_S
        if now - self._shown_at_s >= interval_s or self._made_count == self._planned_count:
            self._shown_at_s = now
            self._show(now - self._started_at_s)

    def _count(self, trajectory: "Trajectory") -> None:
        from strop.evaluation import add_seat_usage, add_source_usage

        self._made_count += 1
        self._failure_count += trajectory.failure is not None
        add_seat_usage(self._seat_usage, trajectory)
        add_source_usage(self._source_usage, trajectory)
        if trajectory.reward is not None:
            self._scored_count += 1
            self._reward_sum += trajectory.reward

    def _show(self, elapsed_s: float) -> None:
        if self._is_live:
            # A line that fills the last column wraps on some terminals.
            line = self.line(elapsed_s, _columns() - 1)
            sys.stderr.write(f"\r\033[K{line}")
            sys.stderr.flush()
        else:
            print_message(self.line(elapsed_s))

    def line(self, elapsed_s: float, width: int | None = None) -> str:
        """All figures in one line.

        Args:
            elapsed_s: Since the run began.
            width: Characters, ≥ 0, that the line may take: what matters least is left out of a
                longer one. None sets no limit.
        """
        figures = self._figures(elapsed_s)
        line = ", ".join(figures.values())
        for name in _LEAST_IMPORTANT_FIRST:
            if width is None or len(line) <= width:
                break
            figures.pop(name, None)
            line = ", ".join(figures.values())
        return line[:width]

    def _figures(self, elapsed_s: float) -> dict[str, str]:
        planned = "" if self._planned_count is None else f"/{self._planned_count}"
        figures = {"attempts": f"{self._made_count}{planned} attempts"}
        if self._scored_count:
            figures["reward"] = f"reward {self._reward_sum / self._scored_count:.3f}"
        figures["failed"] = f"{self._failure_count} failed"
        took = self._seat_usage.values()
        tokens = sum(each.prompt_tokens + each.completion_tokens for each in took)
        if tokens:
            figures["tokens"] = f"{_short(tokens)} tokens"
        cost = self._cost(self._seat_usage, self._source_usage)
        if cost is not None:
            figures["cost"] = f"cost {cost:.2f}"
        figures["gone"] = f"{_clock(elapsed_s)} gone"
        own_count = self._made_count - self._finished_count
        if self._planned_count is not None and own_count:
            left = max(0, self._planned_count - self._made_count)
            figures["left"] = f"{_clock(elapsed_s / own_count * left)} left"
        return figures


def _columns() -> int:
    """Of the terminal as it is now; some tell none."""
    try:
        return os.get_terminal_size(sys.stderr.fileno()).columns or _USUAL_COLUMNS
    except (OSError, ValueError):
        return _USUAL_COLUMNS


def _short(count: int) -> str:
    for unit, size in (("G", 10**9), ("M", 10**6), ("k", 10**3)):
        if count >= size:
            return f"{count / size:.1f}{unit}"
    return str(count)


def _clock(seconds: float) -> str:
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02}:{rest:02}" if hours else f"{minutes}:{rest:02}"
