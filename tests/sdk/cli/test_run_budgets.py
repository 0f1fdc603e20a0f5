"""Budgets of requests and tokens of a run file, held against a real server's log."""

from __future__ import annotations

import asyncio
import textwrap
from collections.abc import Sequence
from pathlib import Path

import pytest

from tests.model_server import Call, Fault, ModelServer
from tests.sdk.cli.command import Finished, strop

CODE = """
    import os, time
    from strop import Environment, Episode, Task, reward

    class Stamped(Episode):
        async def setup(self):
            with open(os.environ["STAMPS"], "a") as file:
                file.write(f"{self.task.key} {time.monotonic()!r}\\n")

    @reward(range=(0, 1), inline=True)
    def heard(trajectory):
        return float(trajectory.text == trajectory.task.key[::-1])

    def load_environment():
        tasks = [Task(f"key-{index:02}", f"key-{index:02}") for index in range(100)]
        return Environment(tasks=tasks, rewards=[heard], episode=Stamped)
"""

RUN = """
[[environments]]
ref = "first-env"
[model]
name = "tiny"
base_url = "{base_url}"
{budget}
retry = {{ base_s = 0.001 }}
[run]
tasks = {tasks}
concurrency = {concurrency}
"""

SLACK_S = 0.01
"""What two clocks of one machine and a timer that strikes may be apart."""


class Budgeted:
    """Runs files against a server; tells when each task's attempt was set up."""

    def __init__(self, folder: Path, server: ModelServer) -> None:
        self._folder = folder
        self._server = server

    async def run(self, budget: str, *, tasks: int, concurrency: int) -> Finished:
        path = self._folder / "run.toml"
        address = self._server.base_url
        path.write_text(
            RUN.format(base_url=address, budget=budget, tasks=tasks, concurrency=concurrency)
        )
        command = ("eval", "run", "--config", path, "--json")
        stamps = str(self._folder / "stamps")
        return await asyncio.to_thread(lambda: strop(*command, STAMPS=stamps))

    @property
    def set_up_s(self) -> dict[str, float]:
        lines = (self._folder / "stamps").read_text().splitlines()
        return {key: float(at) for key, at in (line.split() for line in lines)}


@pytest.fixture
def folder(site: Path, tmp_path: Path) -> Path:
    (site / "first_env.py").write_text(textwrap.dedent(CODE))
    return tmp_path


def key_of(call: Call) -> str:
    key: str = call.document["messages"][-1]["content"]
    return key


def most_at_once(calls: Sequence[Call], set_up_s: dict[str, float], rate_per_s: float) -> float:
    """The largest excess over the rate, of any window.

    A window begins when an attempt was set up, which is before its calls were sent, and ends when
    a call arrived, which is after it was sent: so that no delay of either process shows as a burst.
    """
    starts = {key_of(call): set_up_s[key_of(call)] for call in calls}
    return max(
        sum(starts[key_of(call)] >= begin and call.at_s <= last.at_s for call in calls)
        - rate_per_s * (last.at_s - begin + SLACK_S)
        for begin in starts.values()
        for last in calls
        if last.at_s > begin
    )


async def test_requests_and_their_further_tries_stay_in_the_budget_in_every_window(
    folder: Path,
) -> None:
    async with ModelServer() as server:
        budgeted = Budgeted(folder, server)
        server.faults.extend([Fault(503)] * 4)
        finished = await budgeted.run("requests_per_s = 4.0", tasks=12, concurrency=4)

    assert finished.document["mean_reward"] == 1.0, finished.stderr
    assert len(server.calls) == 16
    # A burst of one second's worth, as the model is when nobody has asked it for a while.
    assert most_at_once(server.calls, budgeted.set_up_s, 4.0) <= 4


async def test_tokens_stay_in_the_budget_in_every_window(folder: Path) -> None:
    async with ModelServer() as server:
        budgeted = Budgeted(folder, server)
        finished = await budgeted.run("tokens_per_s = 50.0", tasks=8, concurrency=1)

    assert finished.document["mean_reward"] == 1.0, finished.stderr
    used = [len(each.prompt_ids) + len(each.ids) for each in server.sampled]
    assert sum(used) > 150
    set_up_s = budgeted.set_up_s
    for first, begin in enumerate(server.calls):
        for last, end in enumerate(server.calls[first:], first):
            # Those before the last: a call's tokens are charged to what follows.
            allowed = 50.0 * (1.0 + end.at_s - set_up_s[key_of(begin)] + SLACK_S)
            assert sum(used[first:last]) <= allowed
