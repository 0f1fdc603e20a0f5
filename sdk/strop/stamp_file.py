"""What a trainer learns of trajectories whose lines are written, in a file beside (step: train).

A trajectory's line never changes. Stamps that come later stand beside ``NAME.jsonl`` in
``NAME.stamps.jsonl``, one JSON line each, schema ``strop.stamps/1``, under the attempt's
identity. `docs/reference/trajectory.md` describes them.
"""

from __future__ import annotations

import json
import time
from array import array
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, Self, TypeAlias

from strop.attempt import Attempt
from strop.canonical import telling_what_is_unwritable
from strop.errors import TrajectoryFileError
from strop.line_file import LineFile, TornLine
from strop.review.stamps import count_problems, stamp_problems
from strop.trajectory import Trajectory
from strop.trajectory_file import TrajectoryReader
from strop.trajectory_json import attempt_to_json, pack_numbers
from strop.types import JSON

SCHEMA = "strop.stamps/1"

Advantages: TypeAlias = "Sequence[float | array[float]]"
"""One for each sample: a number, or one for each of its tokens, ``[tokens]``, typecode ``f``."""

_encode = json.JSONEncoder(ensure_ascii=True, separators=(",", ":"), check_circular=False).encode


def stamps_path(trajectories: Path) -> Path:
    """Where the stamps of a file of trajectories stand."""
    return trajectories.with_name(f"{trajectories.stem}.stamps.jsonl")


class StampWriter:
    """Appends stamps beside a file of trajectories, each line with one `write`.

    It may write while the trajectories still come, from another process too; a second writer of
    stamps is refused. A torn last line of an earlier one is cut off.

    Example:
        >>> with StampWriter(Path("runs/first/trajectories.jsonl")) as stamps:
        ...     stamps.write(trajectory, group_id="g17", advantages=[0.25])
    """

    def __init__(self, trajectories: Path, *, has_fsync: bool = False) -> None:
        """Open the file beside `trajectories`, or make it.

        Raises:
            TrajectoryFileError: Another writer has it.
        """
        self._lines = LineFile(stamps_path(trajectories), has_fsync=has_fsync)

    def write(
        self,
        attempt: Attempt | Trajectory,
        *,
        advantages: Advantages | None = None,
        **stamps: JSON,
    ) -> None:
        """Stamp an attempt; of the same name the later stamp counts.

        Args:
            attempt: Whose trajectory is meant. Where the trajectory itself is given, `advantages`
                must be as many as its samples and their tokens.
            advantages: One for each sample that its `to_samples` gives.
            **stamps: ``group_id``, ``policy_version_start``, ``policy_version_end``,
                ``interruptions``, ``loss_weights``, or names of the trainer's own.

        Raises:
            TrajectoryFileError: A stamp is not what its name says, or `advantages` do not fit.
            OSError: The disk is full or the file is gone; nothing of the line stays.
        """
        value: dict[str, JSON] = dict(stamps)
        if advantages is not None:
            value["advantages"] = [_packed(each) for each in advantages]
        trajectory = attempt if isinstance(attempt, Trajectory) else None
        if isinstance(attempt, Trajectory):
            attempt = attempt.attempt
        line: dict[str, JSON] = {
            "schema": SCHEMA,
            "attempt": attempt_to_json(attempt),
            "stamped_at_s": time.time(),
            "stamps": value,
        }
        problem = next(stamp_problems(line), None)
        if problem is None and trajectory is not None:
            problem = next(count_problems(value, trajectory), None)
        if problem is not None:
            raise TrajectoryFileError(f"`{problem[0]}` {problem[1]}. Nothing was written.")
        with telling_what_is_unwritable():
            self._lines.append((_encode(line) + "\n").encode("ascii"))

    def close(self) -> None:
        """Close the file; a second call does nothing."""
        self._lines.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


class Stamps:
    """The stamps beside a file of trajectories; where there are none, all are without.

    Where lines stand is kept in memory, what they hold is read when it is asked for.
    """

    def __init__(self, trajectories: Path) -> None:
        """Find the lines of each attempt.

        Raises:
            TrajectoryFileError: A line is whole but holds no stamps.
        """
        self.path = stamps_path(trajectories)
        self.torn: TornLine | None = None
        """A last line that its writer did not finish; it is passed over."""
        self._places: dict[int, list[int]] = {}
        if self.path.exists():
            self._find()

    def of(self, attempt: Attempt) -> dict[str, Any]:
        """What an attempt was stamped with later; of the same name the last one."""
        found: dict[str, Any] = {}
        places = self._places.get(attempt.sampling_seed)
        if not places:
            return found
        with self.path.open("rb") as lines:
            for place in places:
                lines.seek(place)
                found |= json.loads(lines.readline())["stamps"]
        return found

    def joined(self, trajectory: Trajectory) -> Trajectory:
        """The trajectory with what stands beside; those stamps count over its line's own."""
        found = self.of(trajectory.attempt)
        return trajectory.stamped(**found) if found else trajectory

    def _find(self) -> None:
        place = 0
        with self.path.open("rb") as lines:
            for number, line in enumerate(lines, start=1):
                if not line.endswith(b"\n"):
                    self.torn = TornLine(self.path, number, len(line))
                    return
                attempt = _read_attempt(line, self.path, number)
                self._places.setdefault(attempt.sampling_seed, []).append(place)
                place += len(line)


def read_stamped(trajectories: Path) -> Iterator[Trajectory]:
    """The trajectories of a file, each with the stamps that stand beside.

    A torn last line of either file ends it without a word: see `TrajectoryReader` and `Stamps`.

    Raises:
        TrajectoryFileError: A line is whole, and neither trajectory nor stamps.
    """
    stamps = Stamps(trajectories)
    return (stamps.joined(each) for each in TrajectoryReader(trajectories))


def _read_attempt(line: bytes, path: Path, number: int) -> Attempt:
    where = f"{path}, line {number}"
    try:
        value = json.loads(line)
    except (ValueError, RecursionError) as error:
        raise TrajectoryFileError(f"{where}: the line is no JSON: {error}.") from error
    schema = value.get("schema") if isinstance(value, dict) else None
    if schema != SCHEMA:
        raise TrajectoryFileError(
            f"{where}: expected stamps of schema {SCHEMA}, found {schema!r}. "
            "Read the file with the Strop that wrote it."
        )
    if problem := next(stamp_problems(value), None):
        raise TrajectoryFileError(f"{where}: `{problem[0]}` {problem[1]}.")
    return Attempt(**{name: value["attempt"][name] for name in Attempt.__dataclass_fields__})


def _packed(advantage: float | array[float]) -> JSON:
    return pack_numbers(advantage) if isinstance(advantage, array) else float(advantage)
