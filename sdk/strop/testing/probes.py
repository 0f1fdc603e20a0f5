"""The checks that need nothing but a loaded environment (step: check)."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable
from functools import partial
from itertools import islice

from strop.environment import Environment
from strop.task import Task
from strop.testing.plays import FLOOR, Plays, failed, limits, parts_of, samples, summed
from strop.testing.policies import json_equal
from strop.testing.purity import purity, watching
from strop.testing.repeats import (
    REPEAT_COUNT,
    Fingerprint,
    fingerprint,
    first_difference,
    not_compared,
    task_digests,
)
from strop.testing.report import Finding

KEY_COUNT = 2_000
"""Tasks of each split whose keys are compared."""

Probe = Callable[[], Awaitable[Finding]]


async def check_environment(
    environment: Environment, *, reward_range: tuple[float, float] | None = None
) -> list[Finding]:
    """Hold an environment against the contract: tasks, rewards, oracle, floor, seeds.

    Args:
        environment: A fresh one; opened and closed here.
        reward_range: What the total reward may be; the manifest's. None checks it for
            being finite only.
    """
    findings, _ = await _probed(environment, reward_range)
    return findings


async def probe_environment(
    environment: Environment, reward_range: tuple[float, float] | None, *, is_deterministic: bool
) -> tuple[list[Finding], Fingerprint]:
    """All findings, and what another process must find as well."""
    findings, prints = await _probed(environment, reward_range)
    if not is_deterministic:
        return findings, {}

    async def repeated() -> Finding:
        again = await fingerprint(environment, REPEAT_COUNT)
        differing = first_difference(prints, again)
        if differing is None:
            gap = not_compared(prints, again)
            if gap is not None:
                return Finding("repeats", "skipped", gap)
            return Finding("repeats", "ok", "The same seed twice gives the same")
        return failed(
            "repeats",
            f"The same seed twice in one process gives another result, first on {differing}. "
            "Keep what an attempt changes in its episode, and take chance from `self.rng` only.",
        )

    return [*findings, await _guarded("repeats", repeated)], prints


async def _probed(
    environment: Environment, reward_range: tuple[float, float] | None
) -> tuple[list[Finding], Fingerprint]:
    findings = [await _guarded("keys", partial(_keys, environment))]
    findings.append(await _guarded("tasks_serialise", partial(_serialising, environment)))
    if reward_range is not None:
        findings.append(_bounds(environment, reward_range))
    try:
        played = [task for tasks in samples(environment).values() for task in tasks]
        prints = task_digests(environment)
    except (Exception, SystemExit):  # noqa: BLE001 - told by the two checks above
        return findings, {}
    if not played:
        return [*findings, failed("tasks", "No split has a task. Add some.")], {}
    try:
        async with environment:
            plays = Plays(environment, played, reward_range, prints)
            with watching(environment) as rubrics:
                for name, probe in _probes(plays).items():
                    findings.append(await _guarded(name, probe))
            findings.append(purity(rubrics))
    except (Exception, SystemExit) as error:  # noqa: BLE001 - the boundary of author code
        message = f"Opening or closing the environment raised {_told(error)}. Mend it."
        findings.append(failed("setup", message))
    return findings, prints


def run_probes(
    environment: Environment, reward_range: tuple[float, float] | None, *, is_deterministic: bool
) -> tuple[list[Finding], Fingerprint]:
    """As `probe_environment`, for callers without an event loop."""
    return asyncio.run(
        probe_environment(environment, reward_range, is_deterministic=is_deterministic)
    )


def run_fingerprint(environment: Environment) -> Fingerprint:
    """What another process must find as well."""
    return asyncio.run(fingerprint(environment))


def _probes(plays: Plays) -> dict[str, Probe]:
    floors: dict[str, Probe] = {f"floor_{name}": partial(plays.floor, name) for name in FLOOR}
    return {
        "oracle": plays.oracle,
        **floors,
        "fuzz": plays.fuzz,
        "fuzz_calls": plays.fuzz_calls,
        "group": plays.group,
        "trajectory": plays.round_trip,
    }


async def _guarded(name: str, probe: Probe) -> Finding:
    try:
        return await probe()
    except (Exception, SystemExit) as error:  # noqa: BLE001 - the boundary of author code
        return failed(name, f"It could not be tried to its end: {_told(error)}. Mend what raised.")


def _told(error: BaseException) -> str:
    return f"{type(error).__name__}: {error}"


def _bounds(environment: Environment, reward_range: tuple[float, float]) -> Finding:
    check, parts = "reward_range", parts_of(environment)
    open_ended = [
        f"`{path}{each.name}`"
        for path, part in parts.items()
        for each in summed(part)
        if each.range is None and each.weight
    ]
    if open_ended or not all(map(summed, parts.values())):
        names = ", ".join(open_ended)
        message = f"{names or 'No function'} declares no range, so that the total's is not known"
        return Finding(check, "skipped", message)
    low, high = limits(environment)
    if low < reward_range[0] or high > reward_range[1]:
        return Finding(
            check,
            "warning",
            f"The reward functions' ranges and weights allow {low:g} to {high:g}, the manifest's "
            f"reward-range {reward_range[0]:g} to {reward_range[1]:g}. Widen it, or mend a range.",
        )
    return Finding(check, "ok", f"The rewards keep within {low:g} to {high:g}")


async def _keys(environment: Environment) -> Finding:
    count = 0
    for path, part in parts_of(environment).items():
        for split, tasks in part.tasks.items():
            seen: set[str] = set()
            for task in islice(tasks, KEY_COUNT):
                if task.key in seen:
                    return failed(
                        "keys",
                        f"The key {path + task.key!r} stands twice in the split {split!r}. Give "
                        "each task a key of its own that stays the same over runs.",
                    )
                seen.add(task.key)
            count += len(seen)
    return Finding("keys", "ok", f"{count} keys are unique within their splits")


async def _serialising(environment: Environment) -> Finding:
    for tasks in samples(environment).values():
        for task in tasks:
            try:
                written = task.to_json()
                again = Task.from_json(json.loads(json.dumps(written)))
                is_exact = json_equal(again.to_json(), written)
            except (TypeError, ValueError) as error:
                is_exact, written = False, {"error": str(error)}
            if not is_exact:
                return failed(
                    "tasks_serialise",
                    f"Task {task.key!r} of {task.split!r} changes when it is written as JSON and "
                    "read back. Use only str, int, float, bool, None, list and dict with str keys "
                    f"({written.get('error', 'a tuple, a set or another key type')}).",
                )
    return Finding("tasks_serialise", "ok", "Tasks come back from JSON as they were")
