"""Whether reward functions leave what they are handed as it was (step: check)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from strop.environment import Environment
from strop.reward_function import Reward
from strop.rubric import Rubric
from strop.testing.plays import digest_of, failed, on_task, parts_of
from strop.testing.report import Finding
from strop.threads import Threads


class WatchedRubric(Rubric):
    """Scores as another rubric does, and notes which functions change a record.

    Live functions may: they belong to the episode, which is still open.
    """

    def __init__(self, rubric: Rubric) -> None:
        super().__init__(rubric.rewards, rubric._limit_s)
        self.culprits: dict[str, str] = {}
        """Functions, and where each was seen first."""

    async def _call(self, each: Reward, arguments: list[Any], threads: Threads) -> Any:
        if each.is_live:
            return await super()._call(each, arguments, threads)
        given = list(arguments[0]) if each.is_group else arguments[:1]
        before = [digest_of(trajectory) for trajectory in given]
        try:
            return await super()._call(each, arguments, threads)
        finally:
            for trajectory, digest in zip(given, before, strict=True):
                if digest_of(trajectory) != digest:
                    self.culprits.setdefault(each.name, on_task(trajectory.task))


@contextmanager
def watching(environment: Environment) -> Iterator[Mapping[str, WatchedRubric]]:
    """Rubrics that watch, in the body; by the paths that `parts_of` gives."""
    parts = parts_of(environment)
    plain = {path: part.rubric for path, part in parts.items()}
    watched = {path: WatchedRubric(rubric) for path, rubric in plain.items()}
    for path, part in parts.items():
        part.rubric = watched[path]
    try:
        yield watched
    finally:
        for path, part in parts.items():
            part.rubric = plain[path]


def purity(rubrics: Mapping[str, WatchedRubric]) -> Finding:
    """What was seen of functions that change records."""
    for path, rubric in rubrics.items():
        for name, where in rubric.culprits.items():
            return failed(
                "pure",
                f"{where} the reward function `{path}{name}` changes the trajectory that it is "
                "handed, which is the record itself. Change a copy: list(…), dict(…), sorted(…).",
            )
    return Finding("pure", "ok", "Reward functions leave records as they are")
