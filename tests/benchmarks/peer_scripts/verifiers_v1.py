"""A trivial single turn through `verifiers` (v1 API): COUNT, CONCURRENCY [together | long].

Prints ms CPU each, and the peak of the resident set.

Its harness and its model run in this process, so that no program is started for a rollout; the
call still goes through its interception server, which is the only way that its trace is filled.
"""

import asyncio
import json
import sys
import tempfile
import time
from pathlib import Path
from types import ModuleType

import aiohttp
import verifiers.v1 as vf
from memory import Gate, allow_connections, peak_rss_kb
from verifiers.v1.cli.eval.runner import run_eval
from verifiers.v1.clients import EvalClientConfig
from verifiers.v1.configs.cli.eval import EvalConfig
from verifiers.v1.interception import server as interception

COUNT, CONCURRENCY = int(sys.argv[1]), int(sys.argv[2])
PEER = "reverse_peer"
GATE = Gate(COUNT)


class Reverser(vf.Client):
    """A model without latency."""

    async def get_response(self, dialect, body, sampling, **more):
        await GATE.wait()
        answer = body["messages"][-1]["content"].removeprefix("Reverse: ")[::-1]
        raw = {
            "id": "x",
            "object": "chat.completion",
            "created": 0,
            "model": "m",
            "choices": [
                {
                    "index": 0,
                    "finish_reason": "stop",
                    "message": {"role": "assistant", "content": answer},
                }
            ],
            "usage": {"prompt_tokens": 5, "completion_tokens": 3, "total_tokens": 8},
        }
        response = dialect.parse_response(dialect.validate_response(raw))
        response.raw = raw
        return response


class ReverseData(vf.TaskData):
    """A task's own fields."""

    answer: str


class ReverseTask(vf.Task[ReverseData, vf.State, vf.TaskConfig]):
    """The task with its reward."""

    @vf.reward(weight=1.0)
    async def exact(self, trace: vf.Trace) -> float:
        """1 for the reversed text."""
        return float(trace.last_reply == self.data.answer)


class ReverseTaskset(vf.Taskset[ReverseTask, vf.TasksetConfig]):
    """As many tasks as rollouts."""

    def load(self):
        for n in range(COUNT):
            data = ReverseData(prompt=f"Reverse: {n}", answer=str(n)[::-1])
            yield ReverseTask(data, self.config.task)


class DirectHarness(vf.Harness[vf.HarnessConfig]):
    """One call from this process, over one session for all rollouts."""

    EXECUTES_CODE = False
    NEEDS_CONTAINER = False
    http: aiohttp.ClientSession

    async def launch(self, ctx, trace, runtime, endpoint, secret, mcp_urls, data, *more, **named):
        """Ask once."""
        async with DirectHarness.http.post(
            f"{endpoint}/chat/completions",
            json={"model": "m", "messages": [{"role": "user", "content": data.prompt}]},
            headers={"authorization": f"Bearer {secret}"},
        ) as reply:
            reply.raise_for_status()
            await reply.read()
        return vf.ProgramResult(exit_code=0, stdout="", stderr="")


def plug_in() -> None:
    """Make the classes above what `reverse_peer` names, and the model the only one."""
    module = ModuleType(PEER)
    module.ReverseTaskset, module.DirectHarness = ReverseTaskset, DirectHarness
    module.__all__ = ["DirectHarness", "ReverseTaskset"]
    sys.modules[PEER] = module
    interception.resolve_client = lambda config: Reverser()


async def measure(folder: Path) -> float:
    """Seconds of CPU for one whole run."""
    config = EvalConfig(
        env={"taskset": {"id": PEER}, "agent": {"runtime": {"type": "subprocess"}}},
        model="m",
        client=EvalClientConfig(base_url="http://127.0.0.1:9/v1", api_key_var="NO_KEY"),
        max_concurrent=CONCURRENCY,
        push=False,
        rich=None,
        output_dir=folder,
    )
    connector = aiohttp.TCPConnector(limit=0)
    async with aiohttp.ClientSession(connector=connector) as DirectHarness.http:
        started = time.process_time()
        episodes = await run_eval(config)
        used_s = time.process_time() - started
    rewards = [trace.reward for episode in episodes for trace in episode.traces]
    if len(rewards) != COUNT or set(rewards) != {1.0}:
        raise SystemExit("wrong results")
    return used_s


def main() -> None:
    """Run once: its start is a small part."""
    plug_in()
    allow_connections()
    with tempfile.TemporaryDirectory() as folder:
        used_s = asyncio.run(measure(Path(folder)))
    print(json.dumps({"cpu_ms": used_s / COUNT * 1_000, "peak_rss_kb": peak_rss_kb()}))


if __name__ == "__main__":
    main()
