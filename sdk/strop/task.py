"""Tasks and ordered sets of them: plain data, readable without an environment (step: author)."""

from __future__ import annotations

import random
from array import array
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import count, islice
from typing import Any, Self, overload

from strop.attempt import derive_seed
from strop.canonical import json_digest
from strop.errors import SettingsError
from strop.message_json import message_from_json, message_to_json
from strop.types import JSON, Message, is_message

_MAX_INDEX_DIGITS = 20
"""Of a generated task's key: more than anybody counts to."""

_BUCKET_COUNT = 4096

MakeTask = Callable[[int, random.Random], "Task"]


@dataclass(frozen=True, slots=True, init=False)
class Task:
    """One problem: JSON in and out, exactly.

    Example:
        >>> Task(key="1", prompt="Reverse: abc", reference="cba").prompt[0].text
        'Reverse: abc'
    """

    key: str
    """Unique within its split, stable over runs."""
    prompt: tuple[Message, ...]
    """What the policy sees first; a string becomes one user message."""
    reference: JSON
    """What the answer is compared with; None when there is nothing to compare."""
    metadata: dict[str, JSON]
    """Whatever else the environment wants to know."""
    split: str
    """Filled in by the environment that offers the task."""

    def __init__(
        self,
        key: str,
        prompt: str | Iterable[Message],
        reference: JSON = None,
        metadata: dict[str, JSON] | None = None,
        split: str = "",
    ) -> None:
        """Make a task.

        Raises:
            TypeError: The prompt is neither a string nor messages.
        """
        messages = (Message("user", prompt),) if isinstance(prompt, str) else tuple(prompt)
        if not all(map(is_message, messages)):
            odd = next(each for each in messages if not is_message(each))
            raise TypeError(
                f"The prompt of the task {key!r} holds {odd!r:.200}, which is no Message with "
                "text. Give a string alone, or Messages."
            )
        set_field = object.__setattr__
        set_field(self, "key", key)
        set_field(self, "prompt", messages)
        set_field(self, "reference", reference)
        set_field(self, "metadata", {} if metadata is None else metadata)
        set_field(self, "split", split)

    @property
    def digest(self) -> str:
        """sha256 (hex) of the task's canonical JSON."""
        return json_digest(self.to_json())

    def to_json(self) -> dict[str, JSON]:
        """The task as JSON; `from_json` gives an equal task back."""
        return {
            "key": self.key,
            "prompt": [message_to_json(message) for message in self.prompt],
            "reference": self.reference,
            "metadata": self.metadata,
            "split": self.split,
        }

    @classmethod
    def from_json(cls, value: dict[str, Any]) -> Self:
        """Read what `to_json` gave."""
        prompt = [message_from_json(message) for message in value["prompt"]]
        return cls(value["key"], prompt, value["reference"], value["metadata"], value["split"])


@dataclass(frozen=True, slots=True)
class TaskSet:
    """The tasks of one split, in order: finite, lazy or infinite; each loaded in its turn.

    Give a sequence, a function that returns an iterable (called anew for each pass), or use
    `TaskSet.generate` for tasks that are a function of their index.
    """

    source: Sequence[Task] | Callable[[], Iterable[Task]]
    split: str = field(default="", kw_only=True)

    def __post_init__(self) -> None:
        is_sequence = isinstance(self.source, Sequence) and not isinstance(self.source, str)
        if not callable(self.source) and not is_sequence:
            raise TypeError(
                f"TaskSet cannot pass twice over a {type(self.source).__name__}. Give a list, or a "
                "function that returns a fresh iterable each time."
            )

    @classmethod
    def generate(cls, make: MakeTask, size: int | None = None, *, seed: int = 0) -> TaskSet:
        """Tasks that are a pure function of their index.

        Args:
            make: From an index (from 0) and a generator of random numbers of its own to a task;
                the task's key becomes ``str(index)``.
            size: How many; None for no end.
            seed: Another seed gives other tasks; so does another split.
        """
        if size is not None and size < 0:
            raise ValueError(f"size is {size}. Give how many tasks there are, or None for no end.")
        return cls(_Generated(make, size, seed))

    @property
    def is_infinite(self) -> bool:
        """Whether iteration never ends."""
        return bool(getattr(self.source, "is_infinite", False))

    def draws(self, start: int = 0) -> Iterator[tuple[Task, int]]:
        """Each task in order, and how often it was drawn before in this pass, from 0.

        Keys are remembered by 8 bytes each, but not those of generated tasks, which are their
        indexes and so unique.

        Args:
            start: Draws that are passed over; their tasks are not made where they need not be.

        Raises:
            SettingsError: While it is iterated: a key came before, and both tasks would be one
                attempt.
        """
        draws = getattr(self.source, "draws", None)
        if draws is not None:
            return islice(draws(), start, None)
        if isinstance(self.source, _Generated):
            indexes = count(start) if self.is_infinite else range(start, len(self))
            return ((self[index], 0) for index in indexes)
        return ((task, 0) for task in self._distinct(start))

    def _distinct(self, start: int) -> Iterator[Task]:
        tasks: Iterable[Task] = islice(self, start, None)
        if isinstance(self.source, Sequence):
            tasks = (self[index] for index in range(start, len(self)))
        hashes: defaultdict[int, array[int]] = defaultdict(partial(array, "q"))
        for index, task in enumerate(tasks, start):
            known, own = hashes[hash(task.key) % _BUCKET_COUNT], hash(task.key)
            if own in known:
                self._check_single(task.key, start, index)
            known.append(own)
            yield task

    def _check_single(self, key: str, start: int, end: int) -> None:
        for index, task in enumerate(islice(self, start, end), start):
            if task.key == key:
                raise SettingsError(
                    f"The tasks {index} and {end} of the split {self.split!r} have one key, "
                    f"{key!r}: a run cannot tell their attempts apart. Give each task its own."
                )

    def __iter__(self) -> Iterator[Task]:
        tasks = self.source() if callable(self.source) else self.source
        split = self.split
        return (task if task.split == split else replace_split(task, split) for task in tasks)

    def __len__(self) -> int:
        size = _size_of(self.source)
        if size is None:
            raise TypeError("This task set has no length that is known before it is read.")
        return size

    @overload
    def __getitem__(self, index: int) -> Task: ...
    @overload
    def __getitem__(self, index: slice) -> TaskSet: ...
    def __getitem__(self, index: int | slice) -> Task | TaskSet:
        """A task by its place, or those of a slice; a slice loads its own tasks."""
        if isinstance(index, slice):
            return TaskSet(self._tasks_of(index), split=self.split)
        if isinstance(self.source, _Generated | Sequence):
            return replace_split(self.source[index], self.split)
        for task in islice(self, index, None):
            return task
        raise IndexError(index)

    def _tasks_of(self, part: slice) -> list[Task]:
        size = None if self.is_infinite else _size_of(self.source)
        if size is not None:
            return [self[index] for index in range(*part.indices(size))]
        bounds = (part.start or 0, part.stop, 1 if part.step is None else part.step)
        if part.stop is None or min(bounds) < 0 or part.step == 0:
            raise ValueError(
                "This task set has no length that is known before it is read. Give the slice an "
                "end, and no negative number."
            )
        if isinstance(self.source, _Generated):
            return [self[index] for index in range(*bounds)]
        return list(islice(self, *bounds))

    def get(self, key: str) -> Task:
        """The task with this key.

        Raises:
            KeyError: There is none.
        """
        find = getattr(self.source, "get", None)
        if find is not None:
            return replace_split(find(key), self.split)
        for task in self:
            if task.key == key:
                return task
        raise KeyError(key)

    def named(self, split: str) -> TaskSet:
        """The same tasks as the split of this name."""
        source = self.source
        if isinstance(source, _Generated):
            source = replace(source, split=split)
        return TaskSet(source, split=split)

    def shuffled(self, seed: int) -> TaskSet:
        """The same tasks in another order, always the same for a seed; reads them all.

        Raises:
            ValueError: The set is infinite.
        """
        if self.is_infinite:
            raise ValueError(
                "An infinite task set cannot be shuffled. Its tasks are already drawn at random; "
                "give `generate` a size, or another seed."
            )
        tasks = list(self)
        random.Random(seed).shuffle(tasks)  # noqa: S311 - an order, not a secret
        return TaskSet(tasks, split=self.split)


@dataclass(frozen=True, slots=True)
class _Generated:
    make: MakeTask
    size: int | None
    seed: int
    split: str = ""

    @property
    def is_infinite(self) -> bool:
        return self.size is None

    def __call__(self) -> Iterator[Task]:
        indexes = count() if self.size is None else range(self.size)
        return map(self._make_at, indexes)

    def __getitem__(self, index: int) -> Task:
        if index < 0 or (self.size is not None and index >= self.size):
            raise IndexError(index)
        return self._make_at(index)

    def get(self, key: str) -> Task:
        is_index = len(key) <= _MAX_INDEX_DIGITS and key.isascii() and key.isdigit()
        if not is_index or str(int(key)) != key:
            raise KeyError(key)
        try:
            return self[int(key)]
        except IndexError:
            raise KeyError(key) from None

    def _make_at(self, index: int) -> Task:
        rng = random.Random(derive_seed(self.seed, self.split, index))  # noqa: S311 - tasks, not secrets
        task = self.make(index, rng)
        return Task(str(index), task.prompt, task.reference, task.metadata, self.split)


def _size_of(source: object) -> int | None:
    if isinstance(source, _Generated):
        return source.size
    return len(source) if isinstance(source, Sequence) else None


def replace_split(task: Task, split: str) -> Task:
    """The same task as one of another split."""
    return Task(task.key, task.prompt, task.reference, task.metadata, split)
