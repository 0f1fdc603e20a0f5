"""Attempts beside 200 sleeping tools: ``python -m tests.benchmarks.sleepers [--json]``.

A run of 456 attempts at concurrency 256, each with one tool call on a thread: the tools of the
first 200 sleep for 2 s, the others' answer at once. ``others_s``: seconds until the last of the
others has ended, and ``others_alone_s``: the same in a run where nobody sleeps. ``delay_s``: what
the sleepers cost the others, at most 1 s.
"""

import argparse
import asyncio
import json
import statistics
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

import strop
from strop.models.scripted import call
from strop.types import Message, ToolCall

SLEEPER_COUNT = 200
OTHER_COUNT = 256
CONCURRENCY = 256
NAP_S = 2.0
ROUNDS = 5


class _Napping(strop.Episode):
    @strop.tool
    def nap(self, seconds: float) -> str:
        """Sleep."""
        time.sleep(seconds)
        return "awake"


@strop.reward(range=(0, 1))
def _is_awake(trajectory: strop.Trajectory) -> float:
    return float(trajectory.messages()[2].text == "awake")


def others_s(nap_s: float) -> float:
    """Seconds until the last of those that do not sleep has ended, in a run of its own."""

    def policy(messages: Sequence[Message]) -> str | ToolCall:
        is_sleeper = int(messages[0].text) < SLEEPER_COUNT
        return "done" if len(messages) > 1 else call("nap", seconds=nap_s if is_sleeper else 0.0)

    ended: list[float] = []

    def note(trajectory: strop.Trajectory) -> None:
        if int(trajectory.task.key) >= SLEEPER_COUNT:
            ended.append(time.perf_counter())

    tasks = [strop.Task(str(n), str(n)) for n in range(SLEEPER_COUNT + OTHER_COUNT)]
    environment = strop.Environment(tasks=tasks, rewards=[_is_awake], episode=_Napping)
    plan = strop.RunPlan(concurrency=CONCURRENCY)
    with tempfile.TemporaryDirectory() as folder:
        started = time.perf_counter()
        report = asyncio.run(
            strop.evaluate(
                environment,
                strop.ScriptedModel(policy),
                plan,
                out=Path(folder),
                on_trajectory=note,
            )
        )
    if report.mean_reward != 1.0 or len(ended) != OTHER_COUNT:
        raise SystemExit(f"wrong results: {report}")
    return ended[-1] - started


def measure(round_count: int = ROUNDS) -> dict[str, float]:
    """Medians of several interleaved rounds; the first one warms caches and imports."""
    rounds = [(others_s(0.0), others_s(NAP_S)) for _ in range(round_count + 1)][1:]
    alone, beside = (statistics.median(each) for each in zip(*rounds, strict=True))
    return {
        "others_alone_s": round(alone, 3),
        "others_s": round(beside, 3),
        "delay_s": round(beside - alone, 3),
    }


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--json", action="store_true")
    arguments = parser.parse_args()
    result = measure()
    print(f"{OTHER_COUNT} attempts, seconds until the last has ended, median of {ROUNDS}:")
    print(f"  nobody sleeps             {result['others_alone_s']:8.3f}")
    print(f"  {SLEEPER_COUNT} others sleep {NAP_S:.0f} s      {result['others_s']:8.3f}")
    print(f"  delay, aim at most 1 s    {result['delay_s']:8.3f}")
    if arguments.json:
        print(json.dumps(result))


if __name__ == "__main__":
    main()
