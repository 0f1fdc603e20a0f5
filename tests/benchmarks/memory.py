"""Memory of long and of wide runs: ``python -m tests.benchmarks.memory [--json] [--peers]``.

``rss_slope_kb_per_1000``: how the resident set grows per 1,000 rollouts, between the
10,000th and the 100,000th of one run over an endless task set, trajectories on disk.
``rss_mb_20000_in_flight``: the resident set with 20,000 rollouts waiting for their model.
With ``--peers`` the same of others, in runs that they finish in bearable time: the growth is
that of the peak between runs of 2,000 and 6,000 rollouts, the width 2,000. Ours is measured so too.
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
from tests.benchmarks.peers import ROLLOUT, ask

ROLLOUT_COUNT = 100_000
WARM_COUNT = 10_000
IN_FLIGHT_COUNT = 20_000
PEER_COUNTS = (2_000, 6_000)
PEER_IN_FLIGHT_COUNT = 2_000
CONCURRENCY = 256


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
        plan = strop.RunPlan(task_count=rollout_count, concurrency=CONCURRENCY)
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


def measure_peers() -> dict[str, float]:
    """The smaller runs of peers and, first, of ours; prints each."""
    few, many = PEER_COUNTS
    print(f"growth of the peak from {few} to {many} rollouts, KB per 1,000; MB with", end=" ")
    print(f"{PEER_IN_FLIGHT_COUNT} in flight:", flush=True)
    result = {}
    peers = {key.removesuffix("_cpu_ms"): peer for key, peer in ROLLOUT.items()}
    for name, peer in {"ours": None, **peers}.items():
        figures = _smaller_runs(peer)
        if figures is None:
            continue
        slope_kb, wide_mb = figures
        print(f"  {name:18} {slope_kb:8.1f} KB  {wide_mb:8.1f} MB", flush=True)
        result[f"{name}_rss_slope_kb_per_1000"] = slope_kb
        result[f"{name}_rss_mb_{PEER_IN_FLIGHT_COUNT}_in_flight"] = wide_mb
    return result


def _smaller_runs(peer: tuple[str, str] | None) -> tuple[float, float] | None:
    """Growth per 1,000 rollouts in KB, and width in MB; None where a peer cannot be driven."""
    few, many = PEER_COUNTS
    peaks = []
    for count, concurrency, kind in (
        (few, CONCURRENCY, "long"),
        (many, CONCURRENCY, "long"),
        (PEER_IN_FLIGHT_COUNT, PEER_IN_FLIGHT_COUNT, "together"),
    ):
        if peer is None:
            told: dict[str, float] | None = _own_peak(count, kind)
        else:
            told = ask(*peer, str(count), str(concurrency), kind)
        if told is None:
            return None
        peaks.append(told["peak_rss_kb"])
    slope_kb = (peaks[1] - peaks[0]) / (many - few) * 1_000
    return round(slope_kb, 1), round(peaks[2] / 1_024, 1)


def _own_peak(count: int, kind: str) -> dict[str, float]:
    call = f"wide_run({count})" if kind == "together" else f"long_run({count}, {count // 2})"
    code = (
        "import resource; from tests.benchmarks.memory import *; "
        f"{call}; print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss)"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], check=True, stdout=subprocess.PIPE, text=True
    )
    return {"peak_rss_kb": float(done.stdout)}


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--peers", action="store_true", help="install and measure the peers too")
    arguments = parser.parse_args()
    started = time.perf_counter()
    result = measure()
    print(f"growth over {ROLLOUT_COUNT} rollouts  {result['rss_slope_kb_per_1000']} KB per 1,000")
    print(f"{IN_FLIGHT_COUNT} in flight               {result['rss_mb_20000_in_flight']} MB")
    if arguments.peers:
        result |= measure_peers()
    print(f"wall time: {time.perf_counter() - started:.1f} s")
    if arguments.json:
        print(json.dumps(result))


if __name__ == "__main__":
    main()
