"""The same raw completion, read by the engine's chat API and by the renderer: the same calls."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from strop import Message, OpenAIModel, Sampling, ToolCall
from strop.models.local import LocalServer
from strop.models.renderer import TemplateRenderer
from strop.models.renderer.files import read_gguf
from strop.types import Completion, ToolSpec
from tests.sdk.models.renderer.templates import HERMES

pytestmark = pytest.mark.xdist_group("local-model")

PARAMETERS: dict[str, Any] = {
    "type": "object",
    "properties": {"direction": {"type": "string"}, "count": {"type": "integer"}},
    "required": ["direction", "count"],
}
MOVE = ToolSpec("move", "Move some squares.", PARAMETERS)


@pytest.fixture(scope="module")
def renderer(weights: Path) -> TemplateRenderer:
    found = read_gguf(weights)
    return TemplateRenderer(found.tokenizer, HERMES, stop_ids=found.stop_ids)


def moved(index: int, direction: str, count: int) -> list[Message]:
    """A turn that shows the model what to do."""
    call = ToolCall(f"c{index}", "move", json.dumps({"direction": direction, "count": count}))
    return [
        Message("user", f"Move {direction} {count} squares."),
        Message("assistant", "", tool_calls=(call,)),
        Message("tool", "moved", tool_call_id=call.id, name="move"),
    ]


PROMPT = [*moved(0, "left", 2), *moved(1, "down", 1), Message("user", "Move up 3 squares.")]


def calls_of(message: Message) -> list[tuple[str, Any]]:
    return [(call.name, json.loads(call.arguments)) for call in message.tool_calls]


async def sample(server: LocalServer, seeds: range) -> list[Completion]:
    model = OpenAIModel("smollm2", server.base_url, engine="llama.cpp")
    sampled = [
        await model.complete(PROMPT, [MOVE], Sampling(temperature=0.8, max_tokens=48, seed=seed))
        for seed in seeds
    ]
    await model.close()
    return sampled


async def test_calls_and_stop_are_the_same_on_both_paths(
    calling: LocalServer, renderer: TemplateRenderer
) -> None:
    completions = await sample(calling, range(8))

    whole = [each for each in completions if each.finish_reason != "length"]
    assert any(each.message.tool_calls for each in whole)
    for completion in whole:
        assert completion.token_ids is not None
        message = renderer.parse(completion.token_ids, [MOVE])
        assert calls_of(message) == calls_of(completion.message)
        assert (completion.finish_reason == "tool_calls") == bool(message.tool_calls)
        assert completion.token_ids[-1] in renderer.stop_ids


async def test_the_prompt_with_tools_is_the_engines_id_by_id(
    calling: LocalServer, renderer: TemplateRenderer
) -> None:
    (completion,) = await sample(calling, range(1))

    assert completion.prompt_token_ids is not None
    rendered = renderer.render(PROMPT, [MOVE])
    assert list(completion.prompt_token_ids) == rendered
