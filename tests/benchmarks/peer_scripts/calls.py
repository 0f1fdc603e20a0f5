"""What every client of the benchmark asks: BASE_URL, IN_FLIGHT, ROUNDS; prints ms CPU a call."""

import asyncio
import gc
import json
import sys
import time

SYSTEM = "You are a careful assistant. Answer with the reversed text and nothing else. " * 4
MOST_TOKENS = 256


def measure(open_client):
    """Measure `ask(system, text) -> reply` of the client that `open_client(base_url)` gives."""
    base_url, in_flight, rounds = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])

    async def work():
        ask, close = open_client(base_url)
        try:
            # Over open connections, as in a long run.
            await run(ask, in_flight, 1)
            return await run(ask, in_flight, rounds)
        finally:
            await close()

    print(json.dumps({"cpu_ms": asyncio.run(work())}))


async def run(ask, in_flight, rounds):
    """Milliseconds of CPU a call; a wrong reply ends the program."""

    async def worker(first):
        for number in range(first, first + rounds):
            text = f"request {number} of this run, please"
            reply = await ask(SYSTEM, text)
            if reply != text[::-1]:
                raise SystemExit(f"wrong reply to {text!r}: {reply!r}")

    gc.collect()
    began = time.process_time()
    await asyncio.gather(*(worker(n * rounds) for n in range(in_flight)))
    return (time.process_time() - began) / (in_flight * rounds) * 1_000
