"""The providers' own Python packages, and a real agent, play episodes unchanged."""

import json
import os
import subprocess
import venv
from typing import Any

import pytest

from strop import (
    Completion,
    Environment,
    Message,
    ScriptedModel,
    Task,
    ToolCall,
    Trajectory,
    reward,
)
from strop.models.openai import OpenAIModel
from strop.serve.intercept import AgentEpisode, Program
from strop.serve.intercept.session import repeated_seed
from tests.model_server import ModelServer
from tests.sdk.serve.intercept.programs import TASK, environment_of, output, play, texts

WEATHER = {"type": "object", "properties": {"city": {"type": "string"}}}

OPENAI = """
import openai
client = openai.OpenAI()
tools = [{"type": "function", "function": {"name": "weather", "parameters": WEATHER}}]
messages = [{"role": "user", "content": "How is it in Oslo?"}]
for is_streaming in (False, True):
    if is_streaming:
        stream = client.chat.completions.create(
            model="m", messages=messages, stream=True, stream_options={"include_usage": True})
        chunks = list(stream)
        print("".join(c.choices[0].delta.content or "" for c in chunks if c.choices))
        print(chunks[-2].choices[0].finish_reason)
    else:
        message = client.chat.completions.create(
            model="m", messages=messages, tools=tools).choices[0].message
        call = message.tool_calls[0]
        print(call.function.name, json.loads(call.function.arguments))
        messages.append(message.model_dump(exclude_none=True))
        messages.append({"role": "tool", "tool_call_id": call.id, "content": "Rain."})
print([model.id for model in client.models.list()])
"""

ANTHROPIC = """
import anthropic
client = anthropic.Anthropic()
tools = [{"name": "weather", "input_schema": WEATHER}]
messages = [{"role": "user", "content": "How is it in Oslo?"}]
message = client.messages.create(model="m", max_tokens=99, system="Be brief.", messages=messages,
                                 tools=tools)
use = message.content[-1]
print(use.name, use.input)
messages.append({"role": "assistant", "content": message.content})
result = {"type": "tool_result", "tool_use_id": use.id, "content": "Rain."}
messages.append({"role": "user", "content": [result]})
with client.messages.stream(model="m", max_tokens=99, system="Be brief.", messages=messages,
                            tools=tools) as stream:
    print("".join(stream.text_stream))
    print(stream.get_final_message().stop_reason)
print([model.id for model in client.models.list()])
"""


RESPONSES = """
import openai
client = openai.OpenAI()
tools = [{"type": "function", "name": "weather", "parameters": WEATHER, "strict": False}]
items = [{"role": "user", "content": "How is it in Oslo?"}]
response = client.responses.create(
    model="m", instructions="Be brief.", input=items, tools=tools, max_output_tokens=99)
call = response.output[-1]
print(call.name, json.loads(call.arguments))
items += response.output
items.append({"type": "function_call_output", "call_id": call.call_id, "output": "Rain."})
with client.responses.stream(
    model="m", instructions="Be brief.", input=items, tools=tools) as stream:
    print("".join(e.delta for e in stream if e.type == "response.output_text.delta"))
    final = stream.get_final_response()
    print(final.status, final.output_text)
print([model.id for model in client.models.list()])
"""

KEPT = """
import openai
client = openai.OpenAI()
tools = [{"type": "function", "name": "weather", "parameters": WEATHER, "strict": False}]
first = client.responses.create(model="m", input="How is it in Oslo?", tools=tools)
call = first.output[-1]
print(call.name, json.loads(call.arguments))
answer = {"type": "function_call_output", "call_id": call.call_id, "output": "Rain."}
events = list(client.responses.create(
    model="m", previous_response_id=first.id, input=[answer], tools=tools, stream=True))
print(events[-1].response.output_text)
print([model.id for model in client.models.list()])
"""


def _weather(messages: Any, tools: Any) -> Message:
    """Calls the tool first, with thoughts and an odd spelling of its arguments."""
    if messages[-1].role == "tool":
        return Message("assistant", f"It is: {messages[-1].text}")
    call = ToolCall("call_1", tools[0].name, '{ "city":"Oslo" }')
    return Message("assistant", "", tool_calls=(call,), reasoning="I do not know.")


@pytest.mark.parametrize(
    "text",
    [OPENAI, ANTHROPIC, RESPONSES, KEPT],
    ids=["openai", "anthropic", "responses", "kept-responses"],
)
async def test_a_providers_package_plays_with_tools_and_streams(text: str) -> None:
    text = f"WEATHER = {WEATHER}\n{text}"
    trajectory = await play(environment_of(text), ScriptedModel(_weather))
    assert trajectory.failure is None
    assert output(trajectory).splitlines()[:2] == [
        "weather {'city': 'Oslo'}",
        "It is: Rain.",
    ]
    assert output(trajectory).splitlines()[-1] == "['policy']"
    # What the client left out of the history, thoughts and spelling, is no fork.
    assert len(list(trajectory.leaves())) == 1
    spoken = [each for each in trajectory.messages() if each.role != "system"]
    assert [each.role for each in spoken] == ["user", "assistant", "tool", "assistant"]
    assert spoken[1].reasoning == "I do not know."
    assert spoken[2].name == "weather"


@pytest.mark.parametrize(
    ("client", "fields"),
    [
        ("openai.OpenAI|chat.completions", {"messages": [{"role": "user", "content": "a"}]}),
        ("openai.OpenAI|responses", {"input": "a"}),
        (
            "anthropic.Anthropic|messages",
            {"messages": [{"role": "user", "content": "a"}], "max_tokens": 9},
        ),
    ],
    ids=["openai", "responses", "anthropic"],
)
async def test_a_packages_own_retries_count_once(client: str, fields: dict[str, Any]) -> None:
    name, _, method = client.partition("|")
    text = f"""
    import {name.partition(".")[0]}
    client = {name}(timeout=0.5, max_retries=8)
    client.{method}.create(model="m", **{fields!r})
    """

    async def slow(messages: Any) -> str:
        import asyncio

        await asyncio.sleep(2)
        return "late"

    trajectory = await play(environment_of(text), ScriptedModel(slow))
    assert trajectory.failure is None
    assert texts(trajectory) == ["late"]


async def test_the_engines_tokens_are_kept_exactly() -> None:
    text = """
    import openai
    client = openai.OpenAI()
    messages = [{"role": "user", "content": "abc"}]
    for word in ("def", "ghi"):
        reply = client.chat.completions.create(model="m", messages=messages)
        messages.append(reply.choices[0].message.model_dump(exclude_none=True))
        messages.append({"role": "user", "content": word})
    """
    async with ModelServer() as server:
        model = OpenAIModel("tiny", server.url, engine="vllm")
        environment = environment_of(text)
        async with environment:
            trajectory = await environment.rollout(TASK, model)
        await model.close()
    assert trajectory.failure is None
    assert trajectory.turn_count == 2
    samples = trajectory.to_samples()
    assert samples
    assert sum(sum(sample.mask) for sample in samples) == trajectory.usage.completion_tokens


async def test_a_call_that_is_made_again_reaches_the_engine_with_a_seed_of_its_own() -> None:
    async with ModelServer() as server:
        model = OpenAIModel("tiny", server.url)
        environment = environment_of("for _ in range(6): call('same')")
        async with environment:
            attempt = environment.attempt(TASK)
            trajectory = await environment.rollout(TASK, model, attempt=attempt)
        await model.close()
    assert trajectory.failure is None
    sent = [each.document["seed"] for each in server.calls]
    own = [repeated_seed(attempt.sampling_seed, count) for count in range(6)]
    assert any(seed >= 2**63 for seed in own)
    assert sent == [seed % 2**63 for seed in own]
    assert len(set(sent)) == 6


async def test_every_path_holds_what_the_engine_saw_when_conversations_interleave() -> None:
    text = """
    heads = {name: [{"role": "user", "content": name}] for name in ("a", "b")}
    for number in range(3):
        for head in heads.values():
            head.append({"role": "assistant", "content": say(call(head))})
            head.append({"role": "user", "content": f"more {number}"})
    edited = heads["a"][:3] + [{"role": "assistant", "content": "edited"}]
    call(edited + [{"role": "user", "content": "last"}])
    """
    seen: list[Completion] = []

    class Watched(OpenAIModel):
        async def complete(self, messages: Any, tools: Any, sampling: Any) -> Completion:
            seen.append(await super().complete(messages, tools, sampling))
            return seen[-1]

    async with ModelServer() as server:
        model = Watched("tiny", server.url, engine="vllm")
        environment = environment_of(text)
        async with environment:
            trajectory = await environment.rollout(TASK, model)
        await model.close()
    assert trajectory.turn_count == len(seen) == 7
    sampled = [i for i, each in enumerate(trajectory.segments) if each.kind == "completion"]
    for index, completion in zip(sampled, seen, strict=True):
        ids = [token for part in trajectory.path(index) for token in part.token_ids or ()]
        assert completion.prompt_token_ids is not None
        assert completion.token_ids is not None
        assert ids == [*completion.prompt_token_ids, *completion.token_ids]
    trained = sum(sum(sample.mask) for sample in trajectory.to_samples())
    assert trained == trajectory.usage.completion_tokens
    assert len(list(trajectory.leaves())) == 3


class MiniSwe(AgentEpisode):
    """mini-swe-agent, from the package index, on one small repair."""

    command = ""

    async def prepare(self) -> None:
        (self.folder / "sums.py").write_text("def add(a, b):\n    return a - b\n")

    def program(self) -> Program:
        argv = [self.command, "--yolo", "--exit-immediately", "--cost-limit", "0"]
        argv += ["--model", "openai/policy", "--task", self.task.prompt[0].text]
        env = {
            "MSWEA_CONFIGURED": "true",
            "MSWEA_COST_TRACKING": "ignore_errors",
            "MSWEA_GLOBAL_CONFIG_DIR": str(self.folder / "config"),
            "LITELLM_LOCAL_MODEL_COST_MAP": "True",
        }
        return Program(argv, env, limit_s=600.0)

    async def collect(self) -> None:
        self.outcome["sums"] = (self.folder / "sums.py").read_text()


@reward(range=(0, 1))
def repaired(trajectory: Trajectory) -> float:
    return float("a + b" in str(trajectory.outcome["sums"]))


@pytest.fixture(scope="session")
def mini_swe_agent(tmp_path_factory: pytest.TempPathFactory) -> str:
    """The command `mini` of an environment of its own; MINI_SWE_AGENT names one that is there."""
    if ready := os.environ.get("MINI_SWE_AGENT"):
        return ready
    folder = tmp_path_factory.mktemp("mini-swe-agent")
    venv.create(folder, with_pip=True, symlinks=True)
    # What it imports is compiled when it first runs: that is a small part of all.
    install = [str(folder / "bin" / "python"), "-m", "pip", "install", "-q", "--no-compile"]
    if subprocess.run([*install, "mini-swe-agent"], capture_output=True).returncode:
        pytest.skip("mini-swe-agent is not to be had: allow the package index, and try again")
    return str(folder / "bin" / "mini")


@pytest.mark.slow
@pytest.mark.timeout(1800)
async def test_a_real_coding_agent_repairs_a_file(mini_swe_agent: str) -> None:
    commands = [
        "cat sums.py",
        "sed -i 's/a - b/a + b/' sums.py",
        "echo COMPLETE_TASK_AND_SUBMIT_FINAL_OUTPUT",
    ]

    def policy(messages: Any, tools: Any) -> Message:
        turn = sum(message.role == "assistant" for message in messages)
        command = commands[turn]
        if not tools:
            return Message("assistant", f"THOUGHT: on.\n\n```mswea_bash_command\n{command}\n```")
        call = ToolCall(f"call_{turn}", tools[0].name, json.dumps({"command": command}))
        return Message("assistant", "On.", tool_calls=(call,))

    environment = Environment(
        tasks=[Task("1", "Repair add in sums.py.")],
        rewards=[repaired],
        episode=type("Mini", (MiniSwe,), {"command": mini_swe_agent}),
    )
    async with environment:
        trajectory = await environment.rollout(environment.tasks["train"][0], ScriptedModel(policy))
    assert trajectory.failure is None
    assert trajectory.reward == 1.0
    assert trajectory.turn_count == len(commands)
    assert len(list(trajectory.leaves())) == 1
