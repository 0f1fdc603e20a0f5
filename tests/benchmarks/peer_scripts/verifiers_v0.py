"""A trivial single turn through `verifiers` (v0 API): COUNT, CONCURRENCY [together | long].

Prints ms CPU each, and the peak of the resident set.
"""

import asyncio
import json
import sys
import tempfile
import time
from pathlib import Path

import verifiers as vf
from datasets import Dataset
from memory import Gate, peak_rss_kb
from verifiers.clients.client import Client
from verifiers.types import Response, ResponseMessage

COUNT, CONCURRENCY = int(sys.argv[1]), int(sys.argv[2])
ROUNDS = ("warm", "measured") if len(sys.argv) == 3 else ("measured",)
GATE = Gate(COUNT)


def text_of(message):
    """A message's text, of either form."""
    return message["content"] if isinstance(message, dict) else message.content


class Reverser(Client):
    """A model without latency."""

    def __init__(self):
        super().__init__(object())

    def setup_client(self, config):
        return object()

    async def to_native_tool(self, tool):
        return tool

    async def to_native_prompt(self, messages):
        return messages, {}

    async def get_native_response(self, prompt, model, sampling_args, tools=None, **more):
        await GATE.wait()
        return prompt

    async def raise_from_native_response(self, response):
        pass

    async def from_native_response(self, response):
        answer = text_of(response[-1]).removeprefix("Reverse: ")[::-1]
        message = ResponseMessage(content=answer, finish_reason="stop", is_truncated=False)
        return Response(id="x", created=0, model="m", usage=None, message=message)

    async def close(self):
        pass


def exact(completion, answer, **more):
    """1 for the reversed text."""
    return float(text_of(completion[-1]) == answer)


async def main():
    """Run; where time is measured, the first of two fills the caches."""
    rows = [{"question": f"Reverse: {n}", "answer": str(n)[::-1]} for n in range(COUNT)]
    tasks = Dataset.from_list(rows)
    environment = vf.SingleTurnEnv(
        dataset=tasks, eval_dataset=tasks, rubric=vf.Rubric(funcs=[exact])
    )
    with tempfile.TemporaryDirectory() as folder:
        for name in ROUNDS:
            started = time.process_time()
            results = await environment.evaluate(
                Reverser(),
                "m",
                max_concurrent=CONCURRENCY,
                results_path=Path(folder) / name,
                save_results=True,
                on_progress=lambda *_: None,
            )
            used_s = time.process_time() - started
    rewards = [output["reward"] for output in results["outputs"]]
    if len(rewards) != COUNT or set(rewards) != {1.0}:
        raise SystemExit("wrong results")
    print(json.dumps({"cpu_ms": used_s / COUNT * 1_000, "peak_rss_kb": peak_rss_kb()}))


asyncio.run(main())
