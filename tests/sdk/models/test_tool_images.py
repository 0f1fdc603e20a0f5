"""Images that tools show reach a model in the form of each dialect, and stay in the record."""

from __future__ import annotations

from typing import Any

import pytest

from strop import Environment, Episode, Message, Part, Sampling, ScriptedModel, Task, tool
from strop.errors import ToolFaultError
from strop.models.scripted import call
from strop.threads import Threads
from strop.tools import Tool
from strop.types import ToolCall
from tests.model_server import ModelServer
from tests.sdk.models.conftest import Connect

IMAGE = Part("image", url="data:image/png;base64,AAAA", media_type="image/png")
SHOWN = (Part("text", text="Look:"), IMAGE)
HISTORY = [
    Message("user", "Show me."),
    Message("assistant", "", tool_calls=(ToolCall("a", "show", "{}"),)),
    Message("tool", SHOWN, tool_call_id="a"),
]


def in_chat(document: Any) -> Any:
    return document["messages"][-1]["content"]


def in_messages(document: Any) -> Any:
    return document["messages"][-1]["content"][0]["content"]


def in_responses(document: Any) -> Any:
    return document["input"][-1]["output"]


@pytest.mark.parametrize(
    ("dialect", "find", "expected"),
    [
        (
            "chat",
            in_chat,
            [
                {"type": "text", "text": "Look:"},
                {"type": "image_url", "image_url": {"url": IMAGE.url}},
            ],
        ),
        (
            "anthropic",
            in_messages,
            [
                {"type": "text", "text": "Look:"},
                {
                    "type": "image",
                    "source": {"type": "base64", "media_type": "image/png", "data": "AAAA"},
                },
            ],
        ),
        (
            "responses",
            in_responses,
            [
                {"type": "input_text", "text": "Look:"},
                {"type": "input_image", "image_url": IMAGE.url},
            ],
        ),
    ],
)
async def test_an_image_of_a_tool_is_sent(
    dialect: str, find: Any, expected: Any, server: ModelServer, connect: Connect
) -> None:
    await connect(dialect).complete(HISTORY, (), Sampling())

    assert find(server.calls[0].document) == expected


class Gallery(Episode):
    @tool
    def show(self, count: int) -> Part | list[Part]:
        """Show pictures."""
        return IMAGE if count == 1 else [SHOWN[0], *[IMAGE] * count]


async def test_a_part_or_a_list_of_them_is_the_tools_message() -> None:
    environment = Environment(tasks=[Task("1", "Show me.")], rewards=[], episode=Gallery)
    replies: list[Any] = [call("show", count=1), call("show", count=2), "fine"]
    task = environment.tasks["train"][0]
    trajectory = await environment.rollout(task, ScriptedModel.replies(replies))

    shown = [each.content for each in trajectory.messages() if each.role == "tool"]
    assert shown == [(IMAGE,), (SHOWN[0], IMAGE, IMAGE)]


async def test_parts_among_other_things_are_the_authors_fault() -> None:
    async def mix() -> Any:
        return [IMAGE, "text"]

    with pytest.raises(ToolFaultError, match="a list of parts holds something else"):
        await Tool.of(mix).call(None, "{}", Threads())
