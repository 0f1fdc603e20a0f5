"""The checks that need nothing but a loaded environment (step: check)."""

from __future__ import annotations

import asyncio
import json
import math
from collections.abc import Iterable, Iterator, Sequence
from itertools import islice

from strop.canonical import json_digest
from strop.environment import Environment
from strop.errors import StropError
from strop.models.scripted import ScriptedModel
from strop.reward_function import Reward
from strop.task import Task
from strop.testing.policies import FUZZ, json_equal, scripted_policy
from strop.testing.report import Finding, Verdict
from strop.trajectory import Trajectory
from strop.trajectory_json import decode_line, encode_line, to_json
from strop.types import JSON, Model

SAMPLE_COUNT = 16
"""Tasks of each split that are played."""
KEY_COUNT = 2_000
"""Tasks of each split whose keys are compared."""
_VARYING = ("timing", "started_at_s")


async def check_environment(
    environment: Environment, *, reward_range: tuple[float, float] | None = None
) -> list[Finding]:
    """Hold an environment against the contract: tasks, rewards, oracle, floor, seeds.

    Args:
        environment: A fresh one; opened and closed here.
        reward_range: What the total reward may be; the manifest's. None checks it for
            being finite only.
    """
    findings = [_keys(environment), _serialising(environment)]
    if reward_range is not None:
        findings.append(_bounds(environment, reward_range))
    async with environment:
        played = [task for tasks in _samples(environment).values() for task in tasks]
        if not played:
            return [*findings, Finding("tasks", "failed", "No split has a task. Add some.")]
        top = reward_range[1] if reward_range else None
        findings.append(await _oracle(environment, played, top))
        findings.extend([await _floor(environment, played, name, top) for name in _FLOOR])
        findings.append(await _fuzz(environment, played[0], reward_range))
        findings.append(await _group(environment, played[0]))
        findings.append(await _round_trip(environment, played[0]))
    return findings


def _bounds(environment: Environment, reward_range: tuple[float, float]) -> Finding:
    check, rewards = "reward_range", _summed(environment)
    open_ended = [each.name for each in rewards if each.range is None and each.weight]
    if open_ended or not rewards:
        names = ", ".join(f"`{name}`" for name in open_ended)
        message = f"{names or 'No function'} declares no range, so that the total's is not known"
        return Finding(check, "skipped", message)
    low, high = _least(environment), _most(environment)
    if low < reward_range[0] or high > reward_range[1]:
        return Finding(
            check,
            "warning",
            f"The reward functions' ranges and weights allow {low:g} to {high:g}, the manifest's "
            f"reward-range {reward_range[0]:g} to {reward_range[1]:g}. Widen it, or mend a range.",
        )
    return Finding(check, "ok", f"The rewards keep within {low:g} to {high:g}")


async def fingerprint(environment: Environment) -> str:
    """sha256 over tasks, observations and rewards: equal in every process, if deterministic."""
    records: list[JSON] = []
    async with environment:
        for split, tasks in _samples(environment).items():
            for task in tasks:
                records.append([split, task.to_json()])
                for model in (*_scripted(environment), ScriptedModel.constant("1")):
                    records.append(_steady(await environment.rollout(task, model)))
    return json_digest(records)


_FLOOR = ("empty", "constant", "random")


def _samples(environment: Environment) -> dict[str, list[Task]]:
    return {split: list(islice(ts, SAMPLE_COUNT)) for split, ts in environment.tasks.items()}


def _keys(environment: Environment) -> Finding:
    count = 0
    for split, tasks in environment.tasks.items():
        seen: set[str] = set()
        for task in islice(tasks, KEY_COUNT):
            if task.key in seen:
                return Finding(
                    "keys",
                    "failed",
                    f"The key {task.key!r} stands twice in the split {split!r}. Give each task "
                    "a key of its own that stays the same over runs.",
                )
            seen.add(task.key)
        count += len(seen)
    return Finding("keys", "ok", f"{count} keys are unique within their splits")


def _serialising(environment: Environment) -> Finding:
    for tasks in _samples(environment).values():
        for task in tasks:
            try:
                written = task.to_json()
                again = Task.from_json(json.loads(json.dumps(written)))
                is_exact = json_equal(again.to_json(), written)
            except (TypeError, ValueError) as error:
                is_exact, written = False, {"error": str(error)}
            if not is_exact:
                return Finding(
                    "tasks_serialise",
                    "failed",
                    f"Task {task.key!r} of {task.split!r} changes when it is written as JSON and "
                    "read back. Use only str, int, float, bool, None, list and dict with str keys "
                    f"({written.get('error', 'a tuple, a set or another key type')}).",
                )
    return Finding("tasks_serialise", "ok", "Tasks come back from JSON as they were")


async def _oracle(environment: Environment, tasks: Sequence[Task], top: float | None) -> Finding:
    if environment.oracle is None:
        return Finding(
            "oracle",
            "warning",
            "No oracle is declared, so nothing shows that the maximum can be reached. "
            "Give Environment(oracle=f), f(task) returning the right reply or replies.",
        )
    for task in tasks:
        trajectory = await environment.rollout(task, scripted_policy("oracle", environment))
        best = top if top is not None else _most(environment)
        if trajectory.failure is not None:
            return _failed("oracle", f"On task {task.key!r}: {trajectory.failure.message}")
        if trajectory.reward is None or trajectory.reward < best:
            return _failed(
                "oracle",
                f"On task {task.key!r} the oracle scores {trajectory.reward}, not {best}. "
                "Mend the oracle, the reference or the reward.",
            )
        if top is not None and trajectory.reward > top:
            return _failed(
                "oracle",
                f"On task {task.key!r} the oracle scores {trajectory.reward}, above the "
                f"manifest's reward-range, which ends at {top}. Mend one of them.",
            )
    return Finding("oracle", "ok", f"The oracle scores the maximum on {len(tasks)} tasks")


async def _floor(
    environment: Environment, tasks: Sequence[Task], name: str, top: float | None
) -> Finding:
    check = f"floor_{name}"
    model = scripted_policy(name, environment)
    rewards = []
    for task in tasks:
        trajectory = await environment.rollout(task, model)
        if trajectory.failure is not None:
            return _failed(check, f"On task {task.key!r}: {trajectory.failure.message}")
        rewards.append(trajectory.reward or 0.0)
    best = top if top is not None else _most(environment)
    mean = math.fsum(rewards) / len(rewards)
    if mean >= best or (name == "empty" and max(rewards) >= best):
        return _failed(
            check, f"The {name} policy scores {mean:.3g}, as much as is possible. Mend the rewards."
        )
    verdict: Verdict = "ok" if mean < best / 2 else "warning"
    return Finding(check, verdict, f"The {name} policy scores {mean:.3g} on average")


async def _fuzz(
    environment: Environment, task: Task, reward_range: tuple[float, float] | None
) -> Finding:
    for reply in FUZZ:
        trajectory = await environment.rollout(task, ScriptedModel.constant(reply))
        shown = reply if len(reply) <= 40 else f"{reply[:40]}…"
        if trajectory.failure is not None:
            return _failed("fuzz", f"The reply {shown!r} fails: {trajectory.failure.message}")
        reward = trajectory.reward
        if reward is None or not _is_within(reward, reward_range):
            return _failed(
                "fuzz", f"The reply {shown!r} scores {reward}, outside {reward_range}. Mend it."
            )
    return Finding("fuzz", "ok", f"{len(FUZZ)} odd replies are scored within the range")


async def _group(environment: Environment, task: Task) -> Finding:
    openings = []
    for member in range(2):
        attempt = environment.attempt(task, member=member)
        async with environment.start(task, attempt=attempt) as episode:
            openings.append((episode.seed, tuple(episode.messages)))
    if openings[0] != openings[1]:
        return _failed(
            "group",
            "Two members of one group begin differently. Take chance from `self.rng` only, "
            "which the group shares.",
        )
    return Finding("group", "ok", "A group shares its seed and its beginning")


async def _round_trip(environment: Environment, task: Task) -> Finding:
    trajectory = await environment.rollout(task, ScriptedModel.constant("1"))
    try:
        line = encode_line(trajectory)
        is_exact = json_equal(to_json(decode_line(line)), json.loads(line))
    except (StropError, TypeError, ValueError) as error:
        return _failed(
            "trajectory", f"The trajectory cannot be written: {error}. Is `outcome` JSON?"
        )
    if not is_exact:
        return _failed("trajectory", "The trajectory changes on disk. Keep only JSON in `outcome`.")
    return Finding("trajectory", "ok", "Trajectories come back from disk as they were")


def _scripted(environment: Environment) -> Iterator[Model]:
    names: Iterable[str] = _FLOOR if environment.oracle is None else ("oracle", *_FLOOR)
    return (scripted_policy(name, environment) for name in names)


def _steady(trajectory: Trajectory) -> JSON:
    record = to_json(trajectory)
    for name in _VARYING:
        del record[name]
    # A traceback names places on this machine.
    record["failure"] = None if trajectory.failure is None else trajectory.failure.message
    return record


def _most(environment: Environment) -> float:
    return math.fsum(max(bounds) for bounds in _weighted(environment))


def _least(environment: Environment) -> float:
    return math.fsum(min(bounds) for bounds in _weighted(environment))


def _summed(environment: Environment) -> list[Reward]:
    """The functions whose values are in the reward."""
    return [each for each in environment.rubric.rewards if not each.is_turn]


def _weighted(environment: Environment) -> Iterator[tuple[float, float]]:
    for each in _summed(environment):
        low, high = each.range or (0.0, 1.0)
        yield each.weight * low, each.weight * high


def _is_within(reward: float, bounds: tuple[float, float] | None) -> bool:
    return math.isfinite(reward) and (bounds is None or bounds[0] <= reward <= bounds[1])


def _failed(check: str, message: str) -> Finding:
    return Finding(check, "failed", message)


def run_probes(
    environment: Environment, reward_range: tuple[float, float] | None
) -> tuple[list[Finding], str]:
    """All findings and the fingerprint, for callers without an event loop."""

    async def probe() -> tuple[list[Finding], str]:
        findings = await check_environment(environment, reward_range=reward_range)
        return findings, await fingerprint(environment)

    return asyncio.run(probe())
