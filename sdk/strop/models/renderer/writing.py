"""How the plain renderers write what is more than text: thoughts, tools and calls."""

from __future__ import annotations

import json
from collections.abc import Sequence

from strop.errors import RendererError
from strop.types import Message, ToolCall, ToolSpec

_TOOLS = """\
You may call functions. Their signatures stand between <tools></tools>:
<tools>
{signatures}
</tools>
For each call write an object with the function's name and arguments:
<tool_call>
{{"name": "the name", "arguments": {{}}}}
</tool_call>"""


def with_tools(messages: Sequence[Message], tools: Sequence[ToolSpec]) -> list[Message]:
    """The conversation, its system message telling about `tools`."""
    if not tools:
        return list(messages)
    described = _TOOLS.format(signatures="\n".join(map(write_tool, tools)))
    if messages and messages[0].role == "system":
        text = f"{text_of(messages[0])}\n\n{described}"
        return [Message("system", text), *messages[1:]]
    return [Message("system", described), *messages]


def write_tool(tool: ToolSpec) -> str:
    """A tool's signature in one line of JSON."""
    function = {
        "name": tool.name,
        "description": tool.description,
        "parameters": tool.parameters,
    }
    return json.dumps({"type": "function", "function": function}, ensure_ascii=False)


def write_message(message: Message) -> str:
    """Everything that a message says, as text that `read_text` reads back."""
    text = text_of(message)
    if message.tool_calls:
        calls = "\n".join(map(_write_call, message.tool_calls))
        text = f"{text}\n{calls}" if text else calls
    if message.reasoning is not None:
        text = f"<think>\n{message.reasoning}\n</think>\n\n{text}"
    return text


def text_of(message: Message) -> str:
    """The text of a message that holds nothing else.

    Raises:
        RendererError: It holds an image or audio.
    """
    if not isinstance(message.content, str):
        kinds = {part.kind for part in message.content} - {"text"}
        if kinds:
            raise RendererError(
                f"a {message.role} message holds {' and '.join(sorted(kinds))}, which has no token"
                " ids here. Use a chat client, whose engine encodes it."
            )
    return message.text


def _write_call(call: ToolCall) -> str:
    name = json.dumps(call.name, ensure_ascii=False)
    return f'<tool_call>\n{{"name": {name}, "arguments": {call.arguments}}}\n</tool_call>'
