"""CPU time of one rollout: ``python -m tests.benchmarks.rollout [--json] [--peers]``.

2,000 rollouts at concurrency 256 against a model without latency, trajectories written to
disk, through `strop.evaluate` with its defaults. The first row is the headline; the others
are threads, tools, and long trajectories.
"""

import argparse
import asyncio
import json
import statistics
import tempfile
import time
from array import array
from collections.abc import Callable, Sequence
from pathlib import Path

import strop
from strop.models.scripted import call
from strop.trajectory import Segment
from strop.trajectory_file import TrajectoryWriter
from strop.types import Message, ToolCall
from tests.benchmarks.peers import ROLLOUT, measure_peers

ROLLOUT_COUNT = 2_000
CONCURRENCY = 256
ROUNDS = 5
TOOL_TURNS = 4
LONG_TOKENS = 8_000


def _make_task(index: int, rng: object) -> strop.Task:
    return strop.Task(str(index), f"Reverse: {index}", str(index)[::-1])


def _is_exact(trajectory: strop.Trajectory) -> float:
    return float(trajectory.text == trajectory.task.reference)


def _reverse(messages: Sequence[Message]) -> str:
    return messages[0].text.removeprefix("Reverse: ")[::-1]


class _Counter(strop.Episode):
    """Count with a tool, then answer."""

    async def setup(self) -> None:
        self.count = 0

    @strop.tool(inline=True)
    def add(self, amount: int) -> str:
        """Add to the count."""
        self.count += amount
        return str(self.count)


class _ThreadedCounter(_Counter):
    @strop.tool
    def add(self, amount: int) -> str:
        """Add to the count."""
        self.count += amount
        return str(self.count)


def _count_then_answer(messages: Sequence[Message]) -> str | ToolCall:
    if len(messages) < 2 * TOOL_TURNS - 1:
        return call("add", amount=1)
    return _reverse(messages)


def _environment(*, inline: bool, episode: type[strop.Episode] | None) -> strop.Environment:
    return strop.Environment(
        tasks=strop.TaskSet.generate(_make_task),
        rewards=[strop.reward(range=(0, 1), inline=inline)(_is_exact)],
        episode=episode or strop.Episode,
    )


def cpu_ms(make: Callable[[], strop.Environment], model: strop.Model, turns: int) -> float:
    """CPU milliseconds a rollout in one run, process-wide; what came out is checked."""
    plan = strop.RunPlan(task_count=ROLLOUT_COUNT, concurrency=CONCURRENCY)
    with tempfile.TemporaryDirectory() as folder:
        environment = make()
        started = time.process_time()
        report = asyncio.run(strop.evaluate(environment, model, plan, out=Path(folder)))
        used_s = time.process_time() - started
        trajectories = strop.read_trajectories(Path(folder) / "trajectories.jsonl")
    if report.mean_reward != 1.0 or len(trajectories) != ROLLOUT_COUNT:
        raise SystemExit(f"wrong results: {report}")
    if any(trajectory.turn_count != turns for trajectory in trajectories):
        raise SystemExit("wrong number of turns")
    return used_s / ROLLOUT_COUNT * 1_000


def tokens_ms() -> float:
    """CPU milliseconds to write a trajectory of 8,000 sampled tokens with their logprobs."""
    environment = _environment(inline=True, episode=None)
    model = strop.ScriptedModel.constant("0")
    short = asyncio.run(environment.rollout(environment.tasks["train"][0], model))
    segment = Segment(
        "completion",
        "policy",
        0,
        (Message("assistant", "word " * 6_000),),
        array("i", range(LONG_TOKENS)),
        array("f", [-0.5]) * LONG_TOKENS,
        "stop",
    )
    trajectory = strop.Trajectory(
        short.attempt, short.task, (short.segments[0], segment), short.seats, {}, "ended"
    )
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "trajectories.jsonl"
        with TrajectoryWriter(path) as writer:
            started = time.process_time()
            for _ in range(100):
                writer.write(trajectory)
            used_s = time.process_time() - started
        if strop.read_trajectories(path)[-1].segments[1].token_ids != segment.token_ids:
            raise SystemExit("the tokens changed on disk")
    return used_s / 100 * 1_000


def measure(round_count: int = ROUNDS) -> dict[str, float]:
    """Medians of several interleaved rounds, milliseconds of CPU."""
    answer = strop.ScriptedModel(_reverse)
    count = strop.ScriptedModel(_count_then_answer)
    rows: dict[str, Callable[[], float]] = {
        "cpu_ms": lambda: cpu_ms(lambda: _environment(inline=True, episode=None), answer, 1),
        "def_cpu_ms": lambda: cpu_ms(lambda: _environment(inline=False, episode=None), answer, 1),
        "tool_cpu_ms": lambda: cpu_ms(
            lambda: _environment(inline=True, episode=_Counter), count, TOOL_TURNS
        ),
        "tool_def_cpu_ms": lambda: cpu_ms(
            lambda: _environment(inline=False, episode=_ThreadedCounter), count, TOOL_TURNS
        ),
        "tokens_8k_ms": tokens_ms,
    }
    rounds = [{name: row() for name, row in rows.items()} for _ in range(round_count + 1)]
    # The first round warms caches and imports.
    return {name: round(statistics.median(r[name] for r in rounds[1:]), 4) for name in rows}


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--peers", action="store_true", help="install and measure the peers too")
    arguments = parser.parse_args()
    wall = time.perf_counter()
    result: dict[str, float] = measure()
    print(
        f"{ROLLOUT_COUNT} rollouts at concurrency {CONCURRENCY}, ms CPU each, median of {ROUNDS}:"
    )
    for name, value in result.items():
        print(f"  {name:18} {value:8.4f}")
    if arguments.peers:
        peers = measure_peers(ROLLOUT, str(ROLLOUT_COUNT), str(CONCURRENCY))
        for name, value in peers.items():
            print(f"  {name:28} {value / result['cpu_ms']:8.1f} x ours")
        result |= peers
    print(f"wall time of the whole benchmark: {time.perf_counter() - wall:.1f} s")
    if arguments.json:
        print(json.dumps(result))


if __name__ == "__main__":
    main()
