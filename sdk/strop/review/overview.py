"""What files of trajectories show as a whole: report, histogram, groups."""

from __future__ import annotations

import math
import sys
from array import array
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from strop.attempt import Attempt
from strop.evaluation import Report, Tally
from strop.line_file import TornLine
from strop.review.files import Place, read_places
from strop.trajectory import Trajectory
from strop.types import JSON

_BIN_COUNT = 10
_FEW_VALUES = 12


@dataclass(frozen=True, slots=True)
class Bar:
    """A bar of a histogram: values from `low` to `high`, which may be one value."""

    low: float
    high: float
    count: int


@dataclass(slots=True)
class Member:
    """One attempt of a group, without its turns."""

    place: Place
    member: int
    reward: float | None
    failure: str | None
    """The error's type."""
    is_truncated: bool


@dataclass(slots=True)
class GroupRow:
    """The attempts at one task under one seed, of one file."""

    path: Path
    attempt: Attempt
    """The first member's, whether or not it is there."""
    members: list[Member] = field(default_factory=list)

    @property
    def rewards(self) -> list[float]:
        """Of the members that have one."""
        return [each.reward for each in self.members if each.reward is not None]

    @property
    def mean_reward(self) -> float | None:
        """Over the members that have one."""
        return math.fsum(self.rewards) / len(self.rewards) if self.rewards else None

    @property
    def failure_count(self) -> int:
        """Members that failed."""
        return sum(each.failure is not None for each in self.members)

    def to_json(self) -> dict[str, JSON]:
        """The row as JSON."""
        return {
            "path": str(self.path),
            "environment": self.attempt.environment,
            "split": self.attempt.split,
            "task_key": self.attempt.task_key,
            "visit": self.attempt.visit,
            "mean_reward": self.mean_reward,
            "failure_count": self.failure_count,
            "members": [
                {
                    "member": each.member,
                    "reward": each.reward,
                    "failure": each.failure,
                    "is_truncated": each.is_truncated,
                }
                for each in self.members
            ],
        }


@dataclass(slots=True)
class Overview:
    """All of it, in memory that grows by a few hundred bytes with each attempt."""

    report: Report
    histogram: list[Bar]
    groups: list[GroupRow]
    """In the order in which their first members finished."""
    torn: list[TornLine]


def read_overview(
    paths: Sequence[Path], on_trajectory: Callable[[Place, Trajectory], None] | None = None
) -> Overview:
    """Read files once.

    Args:
        paths: Files of trajectories.
        on_trajectory: Called with each in order, for what else is made of them.

    Raises:
        TrajectoryFileError: A line is whole but no trajectory.
    """
    # Group sizes are not known before the last line, so groups count when all is read.
    tally = Tally(group_size=sys.maxsize)
    rewards = array("d")
    groups: dict[tuple[Path, Attempt], GroupRow] = {}
    torn = []
    for path in paths:
        for found in read_places(path):
            if isinstance(found, TornLine):
                torn.append(found)
                continue
            place, trajectory = found
            tally.add(trajectory)
            attempt = trajectory.attempt
            row = groups.setdefault((path, attempt.group), GroupRow(path, attempt.group))
            row.members.append(_member(place, trajectory))
            if row.members[-1].reward is not None:
                rewards.append(row.members[-1].reward)
            if on_trajectory is not None:
                on_trajectory(place, trajectory)
    for row in groups.values():
        row.members.sort(key=lambda each: each.member)
    return Overview(tally.report(), histogram(rewards), list(groups.values()), torn)


def histogram(values: Iterable[float]) -> list[Bar]:
    """Bars from the smallest value to the largest; a bar for each value where there are few.

    Rewards between 0 and 1 are drawn over all of that range. Values that are not finite are
    left out.
    """
    finite = [value for value in values if math.isfinite(value)]
    if not finite:
        return []
    counts: dict[float, int] = {}
    for value in finite:
        counts[value] = counts.get(value, 0) + 1
        if len(counts) > _FEW_VALUES:
            break
    else:
        return [Bar(value, value, counts[value]) for value in sorted(counts)]
    low, high = min(finite), max(finite)
    if low >= 0 and high <= 1:
        low, high = 0.0, 1.0
    edges = [_between(low, high, n / _BIN_COUNT) for n in range(_BIN_COUNT + 1)]
    bins = [0] * _BIN_COUNT
    for value in finite:
        share = (value / 2 - low / 2) / (high / 2 - low / 2)
        bins[min(int(share * _BIN_COUNT), _BIN_COUNT - 1)] += 1
    return [Bar(edges[n], edges[n + 1], count) for n, count in enumerate(bins)]


def _between(low: float, high: float, share: float) -> float:
    # The difference of two finite numbers may be infinite.
    return low * (1 - share) + high * share


def _member(place: Place, trajectory: Trajectory) -> Member:
    failure = trajectory.failure
    return Member(
        place,
        trajectory.attempt.member,
        None if failure is not None else trajectory.reward,
        None if failure is None else failure.type,
        trajectory.is_truncated,
    )
