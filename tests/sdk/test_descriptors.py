"""Few allowed files do not fail attempts: the limit is raised, or connections wait their turn."""

from __future__ import annotations

import asyncio
import json
import resource
import sys
from typing import Any

from tests.model_server import Fault, ModelServer

ATTEMPT_COUNT = 300
SOFT = 256
HARD = resource.getrlimit(resource.RLIMIT_NOFILE)[1]

CHILD = """
import asyncio, json, resource, sys

resource.setrlimit(resource.RLIMIT_NOFILE, (int(sys.argv[2]), int(sys.argv[3])))

from strop import Environment, Task
from strop.models.openai import OpenAIModel
from strop.models.retry import NO_RETRIES
from strop.rewards import exact

async def main():
    environment = Environment(tasks=[Task("1", "ab", "ba", split="train")], rewards=[exact()])
    model = OpenAIModel("tiny", sys.argv[1], retry=NO_RETRIES)
    task = environment.tasks["train"][0]
    async with environment:
        rollouts = [environment.rollout(task, model) for _ in range(int(sys.argv[4]))]
        made = await asyncio.gather(*rollouts)
    await model.close()
    print(json.dumps({
        "soft": resource.getrlimit(resource.RLIMIT_NOFILE)[0],
        "rewards": sum(each.reward or 0 for each in made),
        "failures": sorted({each.failure.message for each in made if each.failure}),
        "queue_s": max(each.timing.queue_s for each in made),
    }))

asyncio.run(main())
"""


async def attempts_under(hard: int) -> tuple[dict[str, Any], int]:
    """What a process says that makes attempts at once, and the connections that it opened."""
    async with ModelServer() as server:
        server.faults.extend([Fault(delay_s=0.5)] * ATTEMPT_COUNT)
        arguments = [server.base_url, str(SOFT), str(hard), str(ATTEMPT_COUNT)]
        child = await asyncio.create_subprocess_exec(
            *(sys.executable, "-c", CHILD, *arguments), stdout=asyncio.subprocess.PIPE
        )
        said, _ = await child.communicate()
        return json.loads(said), server.connection_count


async def test_more_attempts_at_once_than_open_files_are_allowed_raise_the_limit() -> None:
    said, _ = await attempts_under(HARD)

    assert said["failures"] == []
    assert said["rewards"] == ATTEMPT_COUNT
    assert said["soft"] > SOFT


async def test_attempts_wait_in_the_queue_where_the_limit_cannot_be_raised() -> None:
    said, connection_count = await attempts_under(SOFT)

    assert said["failures"] == []
    assert said["rewards"] == ATTEMPT_COUNT
    assert said["soft"] == SOFT
    assert connection_count <= SOFT // 2
    assert said["queue_s"] > 0
