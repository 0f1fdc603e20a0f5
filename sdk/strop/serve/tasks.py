"""Pages of an environment's tasks, for whoever reads them in order from afar."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from itertools import islice
from typing import Any

from strop.environment import Environment
from strop.errors import SettingsError
from strop.task import Task
from strop.types import JSON

PAGE_COUNT = 64


class TaskPages:
    """Reads task sets page by page.

    Each split keeps the place where its last reader stopped, so that reading on costs one page,
    also in a set that can only be read from its start.
    """

    def __init__(self, environment: Environment) -> None:
        self._environment = environment
        self._places: dict[str, tuple[int, Iterator[tuple[Task, int]]]] = {}
        self._lock = asyncio.Lock()

    def splits(self) -> dict[str, JSON]:
        """By name, whether a split ends, and its length where that is known."""
        return {split: self._describe(split) for split in self._environment.tasks}

    async def page(self, split: str, start: int) -> dict[str, Any]:
        """The tasks from an index on, with how often each was drawn before.

        Raises:
            KeyError: There is no such split.
            SettingsError: The task at `start` has the key of an earlier one.
        """
        async with self._lock:
            # Half-way the place would be lost, and the author's iterable broken.
            return await self._environment.threads.call_to_end(self._read, split, start)

    async def get(self, split: str, key: str) -> Task:
        """A task by its key.

        Raises:
            KeyError: There is no such split or task.
        """
        return await self._environment.threads.call(self._environment.tasks[split].get, key)

    def _describe(self, split: str) -> JSON:
        tasks = self._environment.tasks[split]
        try:
            size = None if tasks.is_infinite else len(tasks)
        except TypeError:
            size = None
        return {"is_infinite": tasks.is_infinite, "size": size}

    def _read(self, split: str, start: int) -> dict[str, Any]:
        place, draws = self._places.pop(split, (0, None))
        if draws is None or place != start:
            draws = islice(self._environment.tasks[split].draws(), start, None)
        drawn: list[tuple[Task, int]] = []
        is_broken = False
        try:
            drawn.extend(islice(draws, PAGE_COUNT))
        except SettingsError:
            # Those before are whole: whoever wants no more gets them, as in-process.
            if not drawn:
                raise
            is_broken = True
        else:
            self._places[split] = start + len(drawn), draws
        return {
            "tasks": [task.to_json() for task, _ in drawn],
            "visits": [visit for _, visit in drawn],
            "is_last": len(drawn) < PAGE_COUNT and not is_broken,
        }
