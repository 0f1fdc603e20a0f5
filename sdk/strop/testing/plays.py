"""What policies show about an environment: best, floor, odd replies, groups (step: check)."""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import islice

from strop.canonical import json_digest
from strop.environment import Environment
from strop.errors import StropError
from strop.mixture import Mixture
from strop.models.scripted import ScriptedModel
from strop.reward_function import Reward
from strop.task import Task
from strop.testing.fuzz import REPLIES, Fuzzer, shown
from strop.testing.policies import json_equal, scripted_policy
from strop.testing.report import Finding, Verdict
from strop.trajectory import Trajectory
from strop.trajectory_json import decode_line, encode_line, to_json
from strop.types import Model

FLOOR = ("empty", "constant", "random")
"""Policies that must not earn the maximum."""
SAMPLE_COUNT = 16
"""Tasks of each split that are played."""
_GROUP_SIZE = 2
_VARYING = ("timing", "started_at_s")
_MOST_ATTEMPTS = 200
"""In which the hostile calls of one task are sent."""
_ADVICE = {
    "reward": "Give a number within the range for whatever a model writes.",
    "tool": "Answer whatever a model calls; raise ToolError for what it should hear.",
    "environment": "Answer whatever a model writes; End() what cannot go on.",
    "sandbox": "Look at `strop sandbox doctor`, and at what the environment asks of the sandbox.",
    "model": "Let the environment work without models of its own by default.",
}


def samples(environment: Environment) -> dict[str, list[Task]]:
    """The tasks that are played, by split."""
    return {split: list(islice(ts, SAMPLE_COUNT)) for split, ts in environment.tasks.items()}


def parts_of(environment: Environment) -> dict[str, Environment]:
    """The environments that a mixture is made of, by the path of their names; else it alone."""
    if not isinstance(environment, Mixture):
        return {"": environment}
    return {
        f"{name}:{path}": part
        for name, each in environment.environments.items()
        for path, part in parts_of(each).items()
    }


def summed(environment: Environment) -> list[Reward]:
    """The functions whose values are in the reward, which is the first seat's."""
    main = (None, next(iter(environment.seats)))
    rewards = environment.rubric.rewards
    return [each for each in rewards if not each.is_turn and each.seat in main]


def limits(environment: Environment) -> tuple[float, float]:
    """The least and the most that the weighted rewards of a part can sum up to."""
    ends = [_limits(part) for part in parts_of(environment).values()]
    return min(low for low, _ in ends), max(high for _, high in ends)


def _limits(environment: Environment) -> tuple[float, float]:
    ends = [
        (each.weight * low, each.weight * high)
        for each in summed(environment)
        for low, high in [each.range or (0.0, 1.0)]
    ]
    return math.fsum(map(min, ends)), math.fsum(map(max, ends))


async def play(environment: Environment, task: Task, model: Model) -> Trajectory:
    """One rollout; where members are compared, the first of a group."""
    if environment.has_group_rewards:
        return (await environment.rollout_group(task, model, _GROUP_SIZE))[0]
    return await environment.rollout(task, model)


@dataclass(frozen=True, slots=True)
class Plays:
    """An open environment with the tasks that are played."""

    environment: Environment
    tasks: Sequence[Task]
    bounds: tuple[float, float] | None
    """Of the total reward; None checks it for being finite only."""
    digests: dict[str, str] = field(default_factory=dict)
    """Of what each policy found on each task, by `label_of`."""

    @property
    def best(self) -> float:
        """The reward that is the maximum."""
        return self.bounds[1] if self.bounds else limits(self.environment)[1]

    async def oracle(self) -> Finding:
        """Whether the declared oracle earns the maximum."""
        if self.environment.oracle is None:
            return Finding(
                "oracle",
                "warning",
                "No oracle is declared, so nothing shows that the maximum can be reached. "
                "Give Environment(oracle=f), f(task) returning the right reply or replies.",
            )
        rewards: list[float] = []
        doubt: str | None = None
        for task in self.tasks:
            trajectory = await self._play("oracle", task)
            fault = self._fault("oracle", task, trajectory)
            reward = trajectory.reward
            if fault is None and (reward is None or reward < self.best):
                fault = (
                    f"{on_task(task)} the oracle scores {reward}, not {self.best:g}. "
                    "Mend the oracle, the reference or the reward."
                )
                if self.environment.has_group_rewards:
                    # Equal members may share what only the better one of two would get.
                    doubt, fault = doubt or fault, None
            if fault is not None:
                return failed("oracle", fault)
            rewards.append(reward or 0.0)
        if doubt is not None:
            return Finding("oracle", "warning", doubt, _mean(rewards))
        message = f"The oracle scores the maximum on {len(self.tasks)} tasks"
        return Finding("oracle", "ok", message, _mean(rewards))

    async def floor(self, name: str) -> Finding:
        """Whether a policy that knows nothing earns less than the maximum."""
        check, rewards = f"floor_{name}", []
        for task in self.tasks:
            trajectory = await self._play(name, task)
            if (fault := self._fault(name, task, trajectory)) is not None:
                return failed(check, fault)
            rewards.append(trajectory.reward or 0.0)
        mean = _mean(rewards)
        if mean >= self.best or (name == "empty" and max(rewards) >= self.best):
            message = (
                f"The {name} policy scores {mean:.3g}, as much as is possible. Mend the rewards."
            )
            return Finding(check, "failed", message, mean)
        verdict: Verdict = "ok" if mean < self.best / 2 else "warning"
        return Finding(check, verdict, f"The {name} policy scores {mean:.3g} on average", mean)

    async def fuzz(self) -> Finding:
        """Whether odd replies are scored: all of them on one task, some on each of the others."""
        for number, task in enumerate(self.tasks):
            replies = REPLIES if number == 0 else (REPLIES[number % len(REPLIES)],)
            for reply in replies:
                trajectory = await self._play("fuzz", task, ScriptedModel.constant(reply))
                fault = self._fault("fuzz", task, trajectory, f"with the reply {shown(reply)}")
                if fault is not None:
                    return failed("fuzz", fault)
        return Finding("fuzz", "ok", f"{len(REPLIES)} odd replies are scored within the range")

    async def fuzz_calls(self) -> Finding:
        """Whether hostile tool calls are answered: all on one task, an attempt on each other."""
        sent = 0
        for number, task in enumerate(self.tasks):
            # Others begin further on, so that all of a mixture's tools meet all kinds.
            start = 0 if number == 0 else number * 7
            for _ in range(_MOST_ATTEMPTS if number == 0 else 1):
                fuzzer = Fuzzer(start)
                trajectory = await self._play("fuzz", task, fuzzer)
                fault = self._fault("fuzz", task, trajectory, fuzzer.last)
                if fault is not None:
                    return failed("fuzz_calls", fault)
                sent += (fuzzer.place or 0) - start
                start = fuzzer.place or 0
                if start >= len(fuzzer.turns or ()):
                    break
        return Finding("fuzz_calls", "ok", f"{sent} hostile tool calls are answered")

    async def group(self) -> Finding:
        """Whether the members of a group begin alike."""
        openings = []
        for member in range(_GROUP_SIZE):
            attempt = self.environment.attempt(self.tasks[0], member=member)
            async with self.environment.start(self.tasks[0], attempt=attempt) as episode:
                openings.append((episode.seed, tuple(episode.messages), tuple(episode.tools)))
        if openings[0] != openings[1]:
            what = ("seeds", "messages", "tools")
            pairs = zip(what, *openings, strict=True)
            differing = " and ".join(name for name, left, right in pairs if left != right)
            return failed(
                "group",
                f"{on_task(self.tasks[0])} two members of one group begin with different "
                f"{differing}. Take chance from `self.rng` only, which the group shares.",
            )
        return Finding("group", "ok", "A group shares its seed and its beginning")

    async def round_trip(self) -> Finding:
        """Whether trajectories come back from disk as they were."""
        trajectory = await self._play("guessing", self.tasks[0], ScriptedModel.constant("1"))
        try:
            line = encode_line(trajectory)
            is_exact = json_equal(to_json(decode_line(line)), json.loads(line))
        except (StropError, TypeError, ValueError) as error:
            return failed(
                "trajectory", f"The trajectory cannot be written: {error}. Is `outcome` JSON?"
            )
        if not is_exact:
            message = "The trajectory changes on disk. Keep only JSON in `outcome`."
            return failed("trajectory", message)
        return Finding("trajectory", "ok", "Trajectories come back from disk as they were")

    async def _play(self, name: str, task: Task, model: Model | None = None) -> Trajectory:
        try:
            chosen = model or scripted_policy(name, self.environment)
            trajectory = await play(self.environment, task, chosen)
        except (Exception, SystemExit) as error:
            told = f"{type(error).__name__}: {error}"
            raise RuntimeError(f"{on_task(task)}, for the {name} policy: {told}") from error
        if model is None:
            self.digests[label_of(task, name)] = digest_of(trajectory)
        return trajectory

    def _fault(self, policy: str, task: Task, trajectory: Trajectory, how: str = "") -> str | None:
        """What is wrong with an attempt whatever it earned; None when nothing is."""
        where = " ".join(part for part in (on_task(task), f"the {policy} policy", how) if part)
        if (failure := trajectory.failure) is not None:
            advice = _ADVICE.get(failure.boundary, "")
            return f"{where} makes the attempt fail: {failure.message} {advice}".strip()
        for name, seat in trajectory.seats.items():
            is_main = name == trajectory.main_seat
            if seat.reward is None and is_main:
                return f"{where} gets no reward. Declare a reward function for it."
            bounds = self.bounds if is_main else None
            if seat.reward is not None and not _is_within(seat.reward, bounds):
                ends = f"{bounds[0]:g} to {bounds[1]:g}" if bounds else "finite numbers"
                return (
                    f"{where} scores {seat.reward}, outside the manifest's reward-range, {ends}. "
                    "Mend one of them."
                )
        return None


def label_of(task: Task, policy: str) -> str:
    """How a task as a policy plays it is called."""
    return f"task {task.key[:80]!a} of {task.split!a} under the {policy} policy"


def digest_of(trajectory: Trajectory) -> str:
    """sha256 over all of a trajectory but the time that it took."""
    record = to_json(trajectory)
    for name in _VARYING:
        del record[name]
    # A traceback names places on this machine.
    record["failure"] = None if trajectory.failure is None else trajectory.failure.message
    try:
        return json_digest(record)
    except (TypeError, ValueError) as error:
        return f"unwritable: {type(error).__name__}"


def failed(check: str, message: str) -> Finding:
    """A finding that fails the check."""
    return Finding(check, "failed", message)


def on_task(task: Task) -> str:
    """How a message about a task begins."""
    return f"On task {task.key[:80]!a} of {task.split!a}"


def _mean(rewards: Sequence[float]) -> float:
    return math.fsum(rewards) / len(rewards)


def _is_within(reward: float, bounds: tuple[float, float] | None) -> bool:
    return math.isfinite(reward) and (bounds is None or bounds[0] <= reward <= bounds[1])
