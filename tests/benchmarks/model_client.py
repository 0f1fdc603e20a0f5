"""CPU that one chat call costs the client, with 256 and with 4,096 calls in flight.

The server runs in a process of its own and its CPU does not count. Every call asks for something
else, and every reply is compared with what the engine must answer. With ``--peers`` the clients
of other frameworks make the same calls to the same server, 256 at a time.
"""

from __future__ import annotations

import argparse
import asyncio
import gc
import json
import resource
import statistics
import time

from strop.models.openai import OpenAIModel
from strop.types import Message, Sampling
from tests.benchmarks.peers import CLIENT, measure_peers
from tests.model_server import serve_in_a_process

SYSTEM = "You are a careful assistant. Answer with the reversed text and nothing else. " * 4


async def _worker(model: OpenAIModel, first: int, count: int) -> None:
    for number in range(first, first + count):
        text = f"request {number} of this run, please"
        messages = [Message("system", SYSTEM), Message("user", text)]
        completion = await model.complete(messages, (), Sampling(temperature=1.0, max_tokens=256))
        if completion.text != text[::-1] or completion.finish_reason != "stop":
            raise SystemExit(f"wrong reply to {text!r}: {completion}")


async def _measure(base_url: str, in_flight: int, rounds: int) -> tuple[float, float]:
    """CPU milliseconds a call: over open connections, and with opening them."""
    model = OpenAIModel("tiny", base_url)
    try:
        cold = await _run(model, in_flight, 1)
        return await _run(model, in_flight, rounds), cold
    finally:
        await model.close()


async def _run(model: OpenAIModel, in_flight: int, rounds: int) -> float:
    gc.collect()
    began = time.process_time()
    await asyncio.gather(*(_worker(model, n * rounds, rounds) for n in range(in_flight)))
    return (time.process_time() - began) / (in_flight * rounds) * 1000


def _allow_sockets(count: int) -> None:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft < count <= hard:
        resource.setrlimit(resource.RLIMIT_NOFILE, (count, hard))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--json", action="store_true", help="end with one JSON object")
    parser.add_argument("--repeats", type=int, default=3, help="the median of so many is given")
    parser.add_argument("--peers", action="store_true", help="install and measure the peers too")
    arguments = parser.parse_args()
    _allow_sockets(8192)
    figures = {}
    with serve_in_a_process() as base_url:
        for in_flight, rounds in ((256, 16), (4096, 2)):
            runs = [
                asyncio.run(_measure(base_url, in_flight, rounds)) for _ in range(arguments.repeats)
            ]
            warm, cold = (statistics.median(column) for column in zip(*runs, strict=True))
            figures[f"cpu_ms_{in_flight}"] = round(warm, 4)
            figures[f"cold_cpu_ms_{in_flight}"] = round(cold, 4)
            print(f"{in_flight:5} in flight: {warm:.3f} ms a call; {cold:.3f} ms with connecting")
        if arguments.peers:
            figures |= measure_peers(CLIENT, base_url, "256", "4")
    if arguments.json:
        print(json.dumps(figures))


if __name__ == "__main__":
    main()
