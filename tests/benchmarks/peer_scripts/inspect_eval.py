"""A trivial single turn through `inspect-ai`: COUNT, CONCURRENCY [together | long].

Prints ms CPU each, and the peak of the resident set.
"""

import json
import sys
import tempfile
import time

from inspect_ai import Task
from inspect_ai import eval as run_tasks
from inspect_ai.dataset import MemoryDataset, Sample
from inspect_ai.model import ModelOutput, ModelUsage, get_model
from inspect_ai.scorer import Score, accuracy, scorer
from inspect_ai.solver import generate, solver
from memory import Gate, peak_rss_kb

COUNT, CONCURRENCY = int(sys.argv[1]), int(sys.argv[2])


def answer(messages, tools, tool_choice, config):
    """The reversed text; with its usage, since counting tokens would download a table."""
    output = ModelOutput.from_content(
        "mockllm/model", messages[-1].text.removeprefix("Reverse: ")[::-1]
    )
    output.usage = ModelUsage(input_tokens=5, output_tokens=3, total_tokens=8)
    return output


@solver
def together():
    """Wait until all samples are here."""
    gate = Gate(COUNT)

    async def solve(state, generate):
        await gate.wait()
        return state

    return solve


@scorer(metrics=[accuracy()])
def exact():
    """1 for the reversed text."""

    async def score(state, target):
        return Score(value=float(state.output.completion == target.text))

    return score


def main():
    """Run once: its start is a small part."""
    rows = [Sample(input=f"Reverse: {n}", target=str(n)[::-1], id=n + 1) for n in range(COUNT)]
    task = Task(dataset=MemoryDataset(rows), solver=[together(), generate()], scorer=exact())
    with tempfile.TemporaryDirectory() as folder:
        started = time.process_time()
        (log,) = run_tasks(
            task,
            model=get_model("mockllm/model", custom_outputs=answer),
            max_samples=CONCURRENCY,
            max_connections=CONCURRENCY,
            log_dir=folder,
            display="none",
        )
        used_s = time.process_time() - started
    if log.status != "success" or log.results.scores[0].metrics["accuracy"].value != 1.0:
        raise SystemExit("wrong results")
    print(json.dumps({"cpu_ms": used_s / COUNT * 1_000, "peak_rss_kb": peak_rss_kb()}))


main()
