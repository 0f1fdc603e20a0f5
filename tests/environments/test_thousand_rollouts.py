"""Every environment of this repository under load, with policies that need no model."""

import asyncio
import json
import os
import resource
import subprocess
import sys

import pytest

from strop import Environment, RunPlan, Trajectory, run
from strop.canonical import json_digest
from strop.hub.manifest import read_project
from strop.message_json import message_to_json
from strop.testing import scripted_policy
from tests.architecture.tree import ROOT
from tests.environments.conftest import FOLDER, Load

NAMES = sorted(path.parent.name for path in FOLDER.glob("*/pyproject.toml"))
POLICIES = ("oracle", "random", "mixed")
"""Always right, hardly ever, and in seven of ten attempts."""
CONCURRENCY = 64
DAILY_COUNTS = {"none": 64, "process": 16, "container": 16}
"""Rollouts of each policy in the daily tests, by the sandbox that the manifest names."""

pytestmark = pytest.mark.parametrize("name", NAMES)


def daily_count(name: str) -> int:
    """How many rollouts the daily tests can afford."""
    return DAILY_COUNTS[read_project(FOLDER / name).sandbox]


def cpu_s() -> float:
    """CPU seconds that this process and its ended children have taken."""
    usages = map(resource.getrusage, (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))
    return sum(usage.ru_utime + usage.ru_stime for usage in usages)


def some_keys(environment: Environment, count: int) -> tuple[str, ...]:
    """Keys of so many tasks; a finite split begins anew, as other visits of its tasks."""
    keys: list[str] = []
    while len(keys) < count:
        for task, _ in environment.tasks["train"].draws():
            keys.append(task.key)
            if len(keys) == count:
                break
    return tuple(keys)


async def play(environment: Environment, policy: str, count: int) -> list[Trajectory]:
    """As many rollouts as asked for, in the order in which they ended."""
    trajectories: list[Trajectory] = []
    async with environment:
        keys = some_keys(environment, count)
        plan = RunPlan(split="train", keys=keys, concurrency=CONCURRENCY)
        model = scripted_policy(policy, environment)
        await run(environment, model, plan, on_trajectory=trajectories.append)
    return trajectories


async def mean_of_faultless_play(environment: Environment, policy: str, count: int) -> float:
    """The mean reward, after every attempt has been found accounted for and scored."""
    before = cpu_s()
    trajectories = await play(environment, policy, count)
    used_ms = (cpu_s() - before) / count * 1_000
    assert [each.failure for each in trajectories if each.failure is not None] == []
    assert len({each.attempt for each in trajectories}) == count
    rewards = [each.reward for each in trajectories if each.reward is not None]
    assert len(rewards) == count
    mean = sum(rewards) / count
    print(f"{policy:7} {count} rollouts, {used_ms:8.2f} ms CPU each, mean reward {mean:.3f}")
    return mean


async def hold_up(environment: Environment, count: int) -> None:
    """Play every policy: no attempt fails, and each policy earns what it deserves."""
    means = {each: await mean_of_faultless_play(environment, each, count) for each in POLICIES}
    assert means["oracle"] == pytest.approx(1)
    assert means["random"] < means["mixed"] < means["oracle"]


def digest_of(trajectories: list[Trajectory]) -> str:
    """What was seen, said and earned, in whatever order it ended."""
    records = sorted(
        [
            [each.attempt.task_key, each.attempt.visit, each.task.digest],
            [message_to_json(m) for segment in each.segments for m in segment.messages],
            [each.reward, each.stop_reason, each.outcome],
        ]
        for each in trajectories
    )
    return json_digest(json.loads(json.dumps(records)))


async def test_rollouts_at_once_never_fail(name: str, load: Load) -> None:
    await hold_up(load(name), daily_count(name))


@pytest.mark.slow
@pytest.mark.timeout(7200)
async def test_a_thousand_rollouts_at_concurrency_64_never_fail(name: str, load: Load) -> None:
    print(f"\n{name} at concurrency {CONCURRENCY}")
    await hold_up(load(name), 1_000)


def digest_of_another_process(name: str, count: int, import_path: str) -> str:
    """What `digest_of` gives of the same rollouts in a process with other hashes."""
    code = (
        f"import asyncio, {name}\n"
        f"from {__name__} import digest_of, play\n"
        f"played = asyncio.run(play({name}.load_environment(), 'mixed', {count}))\n"
        "print(digest_of(played))"
    )
    path = os.pathsep.join([str(ROOT), import_path])
    return subprocess.run(
        [sys.executable, "-c", code],
        check=True,
        stdout=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONPATH": path, "PYTHONHASHSEED": "7"},
    ).stdout.strip()


async def test_another_process_sees_says_and_earns_the_same(
    name: str, load: Load, import_path: str
) -> None:
    count = daily_count(name)
    other = await asyncio.to_thread(digest_of_another_process, name, count, import_path)
    assert other == digest_of(await play(load(name), "mixed", count))
