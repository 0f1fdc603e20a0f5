"""Programs that play episodes: short scripts that speak with a provider's own client or by hand."""

import sys
import textwrap
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

from strop import Environment, ScriptedModel, Task, Trajectory, reward
from strop.limits import TimeLimits
from strop.serve.intercept import AgentEpisode, Program

TASK = Task("1", "Say hello.", split="train")

# What a program needs to call by hand, with the standard library alone.
BY_HAND = """
import http.client, json, os, sys, time, urllib.parse

def call(text, headers=(), is_read=True, key=None, connection=None, timeout=120, **fields):
    address = urllib.parse.urlsplit(os.environ["OPENAI_BASE_URL"])
    connection = connection or http.client.HTTPConnection(address.netloc, timeout=timeout)
    key = os.environ["OPENAI_API_KEY"] if key is None else key
    messages = text if isinstance(text, list) else [{"role": "user", "content": text}]
    body = json.dumps({"model": "any", "messages": messages, **fields})
    headers = {"authorization": f"Bearer {key}", **dict(headers)}
    connection.request("POST", address.path + "/chat/completions", body, headers)
    if not is_read:
        return connection
    response = connection.getresponse()
    return response.status, json.loads(response.read())

def wait_for(path):
    while not os.path.exists(path):
        time.sleep(0.01)

def say(reply):
    return reply[1]["choices"][0]["message"]["content"]
"""


class Scripted(AgentEpisode):
    """Runs the Python program of its class."""

    text: ClassVar[str]
    options: ClassVar[Mapping[str, Any]]

    def program(self) -> Program:
        argv = [sys.executable, "-c", self.text]
        return Program(argv, **{"limit_s": 240.0, **self.options})


def environment_of(
    text: str,
    *,
    rewards: Sequence[Any] = (),
    max_turns: int = 100,
    turns_s: float | None = None,
    base: type[Scripted] = Scripted,
    **options: Any,
) -> Environment:
    """An environment whose episodes run a Python program."""
    fields = {"text": BY_HAND + textwrap.dedent(text), "options": options}
    return Environment(
        tasks=[TASK],
        rewards=[*rewards, one],
        episode=type("Scripted", (base,), fields),
        max_turns=max_turns,
        time_limits=TimeLimits(turns_s=turns_s),
    )


@reward
def one(trajectory: Trajectory) -> float:
    """The same for everything."""
    return 1.0


def echo() -> ScriptedModel:
    """Says the last words again, and how long the conversation was."""
    return ScriptedModel(lambda messages: f"{messages[-1].text}/{len(messages)}")


def counter() -> ScriptedModel:
    """Says how often it was asked, whatever the question."""
    count = 0

    def policy(messages: Any) -> str:
        nonlocal count
        count += 1
        return f"answer {count}"

    return ScriptedModel(policy)


async def play(environment: Environment, model: ScriptedModel | None = None) -> Trajectory:
    """One rollout of the one task."""
    async with environment:
        return await environment.rollout(TASK, model or echo())


def texts(trajectory: Trajectory) -> list[str]:
    """What the model said, in the order in which it did."""
    return [each.messages[0].text for each in trajectory.segments if each.kind == "completion"]


def output(trajectory: Trajectory) -> str:
    """What the program printed."""
    return str(trajectory.outcome["output"]).strip()
