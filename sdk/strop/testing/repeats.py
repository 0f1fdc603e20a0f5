"""Whether the same seed gives the same: twice in one process, and in another (step: check)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from strop.canonical import json_digest
from strop.environment import Environment
from strop.task import Task
from strop.testing.plays import digest_of, label_of, play, samples
from strop.testing.policies import scripted_policy

REPEAT_COUNT = 4
"""Tasks of each split that are played a second time in one process."""
_POLICIES = ("oracle", "random")

Fingerprint = dict[str, str]
"""What was done, to the sha256 of what came of it; equal in every process, if deterministic."""


def task_digests(environment: Environment) -> Fingerprint:
    """Of the tasks that are played."""
    tasks = [task for each in samples(environment).values() for task in each]
    return {f"task {task.key[:80]!a} of {task.split!a}": _digest_of(task) for task in tasks}


async def fingerprint(environment: Environment, count: int | None = None) -> Fingerprint:
    """Digests of the tasks that are played, and of what policies find there.

    Args:
        environment: Opened and closed here.
        count: Tasks of each split that are played; None for all.
    """
    found = task_digests(environment)
    names = [name for name in _POLICIES if name != "oracle" or environment.oracle is not None]
    async with environment:
        for tasks in samples(environment).values():
            for task in tasks[:count]:
                for name in names:
                    model = scripted_policy(name, environment)
                    trajectory = await play(environment, task, model)
                    found[label_of(task, name)] = digest_of(trajectory)
    return found


def first_difference(before: Mapping[str, str], after: Mapping[str, str]) -> str | None:
    """What of `after` was another thing before; None when nothing was.

    What a policy did not play before, since its check stopped at a fault, is no difference.
    """
    unplayed = set(_unplayed(before, after))
    return next(
        (name for name in after if name not in unplayed and after[name] != before.get(name)), None
    )


def not_compared(before: Mapping[str, str], after: Mapping[str, str]) -> str | None:
    """That, and why, not all of `after` was there to be compared with; None when all was."""
    unplayed = next(_unplayed(before, after), None)
    if unplayed is None:
        return None
    return (
        f"Nothing differs as far as was played, but {unplayed} was not: the check of that policy "
        "stopped before. Mend what it found, then check again."
    )


def _unplayed(before: Mapping[str, str], after: Mapping[str, str]) -> Iterator[str]:
    # A task's own name ends with its split, in quotes.
    return (name for name in after if name not in before and name.endswith(" policy"))


def _digest_of(task: Task) -> str:
    try:
        return json_digest(task.to_json())
    except (TypeError, ValueError) as error:
        return f"unwritable: {type(error).__name__}"
