"""CPU that interception adds to a call: ``python -m tests.benchmarks.interception [--peers]``.

A program makes 500 chat calls of a growing conversation over one connection. What is timed is
this process alone: HTTP, dialect, retries, episode, record; the program's CPU is its own. The
cost of a turn without any program, from `tests.benchmarks.rollout`, is part of the figure. With
``--peers`` the same program is put behind the interception of other frameworks.
"""

import argparse
import asyncio
import json
import statistics
import sys
import time

import strop
from strop.limits import TimeLimits
from strop.serve.intercept import AgentEpisode, Program
from tests.benchmarks.peers import INTERCEPTION, WITHOUT_INTERCEPTION, measure_peers

CALL_COUNT = 500
CONVERSATION_LENGTH = 20
ROUNDS = 5

_PROGRAM = f"""
import http.client, json, os, urllib.parse
address = urllib.parse.urlsplit(os.environ["OPENAI_BASE_URL"])
connection = http.client.HTTPConnection(address.netloc)
headers = {{"authorization": "Bearer " + os.environ["OPENAI_API_KEY"],
           "content-type": "application/json"}}
system = {{"role": "system", "content": "You are a careful assistant. " * 20}}
messages = []
for number in range({CALL_COUNT}):
    if number % {CONVERSATION_LENGTH} == 0:
        messages = [system]
    messages.append({{"role": "user", "content": f"request {{number}} of this run, please"}})
    body = json.dumps({{"model": "m", "messages": messages}})
    connection.request("POST", address.path + "/chat/completions", body, headers)
    reply = json.loads(connection.getresponse().read())
    messages.append(reply["choices"][0]["message"])
"""


class _Caller(AgentEpisode):
    def program(self) -> Program:
        return Program([sys.executable, "-c", _PROGRAM])


def _once() -> float:
    environment = strop.Environment(
        tasks=[strop.Task("1", "Call.")],
        rewards=[],
        episode=_Caller,
        max_turns=CALL_COUNT + 1,
        time_limits=TimeLimits(),
    )
    model = strop.ScriptedModel(lambda messages: messages[-1].text[::-1])

    async def work() -> tuple[strop.Trajectory, float]:
        async with environment:
            began = time.process_time()
            trajectory = await environment.rollout(environment.tasks["train"][0], model)
            return trajectory, time.process_time() - began

    trajectory, used_s = asyncio.run(work())
    if trajectory.failure is not None or trajectory.turn_count != CALL_COUNT:
        raise SystemExit(f"wrong result: {trajectory.failure} {trajectory.turn_count}")
    return used_s / CALL_COUNT * 1000


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--json", action="store_true", help="end with one JSON object")
    parser.add_argument("--peers", action="store_true", help="install and measure the peers too")
    arguments = parser.parse_args()
    # The first round warms caches and imports.
    rounds = [_once() for _ in range(ROUNDS + 1)][1:]
    figures = {"cpu_ms": round(statistics.median(rounds), 4)}
    print(f"{CALL_COUNT} calls of one program: {figures['cpu_ms']:.3f} ms CPU a call")
    if arguments.peers:
        figures |= measure_peers(INTERCEPTION, "1", "1", str(CALL_COUNT), _PROGRAM)
        for peer, cause in WITHOUT_INTERCEPTION.items():
            print(f"  {peer} cannot be driven: {cause}")
    if arguments.json:
        print(json.dumps(figures))


if __name__ == "__main__":
    main()
