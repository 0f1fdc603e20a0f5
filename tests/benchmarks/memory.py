"""Memory of long and of wide runs: ``python -m tests.benchmarks.memory [--json]``.

``rss_slope_kb_per_1000``: how the resident set grows per 1,000 rollouts, between the
10,000th and the 100,000th of one run over an endless task set, trajectories on disk.
``rss_mb_20000_in_flight``: the resident set with 20,000 rollouts waiting for their model.
"""

import argparse
import asyncio
import json
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

import strop
from strop.types import Completion, Message, Sampling, ToolSpec

ROLLOUT_COUNT = 100_000
WARM_COUNT = 10_000
IN_FLIGHT_COUNT = 20_000


def _make_task(index: int, rng: object) -> strop.Task:
    return strop.Task(str(index), f"Reverse: {index}", str(index)[::-1])


@strop.reward(range=(0, 1), inline=True)
def _is_exact(trajectory: strop.Trajectory) -> float:
    return float(trajectory.text == trajectory.task.reference)


def _environment() -> strop.Environment:
    return strop.Environment(tasks=strop.TaskSet.generate(_make_task), rewards=[_is_exact])


def _answer(messages: Sequence[Message]) -> str:
    return messages[0].text.removeprefix("Reverse: ")[::-1]


def _rss_kb() -> int:
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * resource.getpagesize() // 1024


def long_run(rollout_count: int, warm_count: int) -> float:
    """Kilobytes by which the resident set grows per 1,000 rollouts after the warm ones."""
    made = 0
    marks: list[tuple[int, int]] = []

    def count(_: strop.Trajectory) -> None:
        nonlocal made
        made += 1
        if made >= warm_count and made % 1_000 == 0:
            marks.append((made, _rss_kb()))

    with tempfile.TemporaryDirectory() as folder:
        plan = strop.RunPlan(task_count=rollout_count, concurrency=256)
        report = asyncio.run(
            strop.evaluate(
                _environment(),
                strop.ScriptedModel(_answer),
                plan,
                out=Path(folder),
                on_trajectory=count,
            )
        )
    if report.mean_reward != 1.0 or report.scored_count != rollout_count:
        raise SystemExit(f"wrong results: {report}")
    (first, before), (last, after) = marks[0], marks[-1]
    return (after - before) / (last - first) * 1_000


class _Gate:
    """A model that answers when as many calls as are wanted wait for it."""

    name = "gate"

    def __init__(self, wanted_count: int) -> None:
        self._wanted_count = wanted_count
        self._waiting_count = 0
        self._is_open = asyncio.Event()
        self.rss_kb = 0

    async def complete(
        self, messages: Sequence[Message], tools: Sequence[ToolSpec], sampling: Sampling
    ) -> Completion:
        """Wait for the others, then answer."""
        self._waiting_count += 1
        if self._waiting_count == self._wanted_count:
            self.rss_kb = _rss_kb()
            self._is_open.set()
        await self._is_open.wait()
        return Completion(Message("assistant", _answer(messages)))

    async def close(self) -> None:
        """Nothing to free."""


def wide_run(in_flight_count: int) -> float:
    """Megabytes of the resident set with so many rollouts in flight."""

    async def go() -> tuple[strop.Report, int]:
        model = _Gate(in_flight_count)
        plan = strop.RunPlan(task_count=in_flight_count, concurrency=in_flight_count)
        return await strop.evaluate(_environment(), model, plan), model.rss_kb

    report, rss_kb = asyncio.run(go())
    if report.mean_reward != 1.0 or report.scored_count != in_flight_count:
        raise SystemExit(f"wrong results: {report}")
    return rss_kb / 1024


def measure(
    rollout_count: int = ROLLOUT_COUNT,
    warm_count: int = WARM_COUNT,
    in_flight_count: int = IN_FLIGHT_COUNT,
) -> dict[str, float]:
    """Each in a fresh process, so that neither sees what the other left."""
    rows = {
        "rss_slope_kb_per_1000": f"long_run({rollout_count}, {warm_count})",
        "rss_mb_20000_in_flight": f"wide_run({in_flight_count})",
    }
    result = {}
    for name, call in rows.items():
        code = f"from tests.benchmarks.memory import *; print({call})"
        done = subprocess.run(
            [sys.executable, "-c", code], check=True, stdout=subprocess.PIPE, text=True
        )
        result[name] = round(float(done.stdout), 2)
    return result


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--json", action="store_true")
    arguments = parser.parse_args()
    started = time.perf_counter()
    result = measure()
    print(f"growth over {ROLLOUT_COUNT} rollouts  {result['rss_slope_kb_per_1000']} KB per 1,000")
    print(f"{IN_FLIGHT_COUNT} in flight               {result['rss_mb_20000_in_flight']} MB")
    print(f"wall time: {time.perf_counter() - started:.1f} s")
    if arguments.json:
        print(json.dumps(result))


if __name__ == "__main__":
    main()
