"""Tool calls in a model's text, in the formats that open models are trained to write."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from typing import Literal, TypeAlias

from strop.models.renderer.json_text import end_of, members_of, skip_blank
from strop.types import JSON, ToolCall, ToolSpec

CallFormat: TypeAlias = Literal["hermes", "qwen", "llama", "none"]
"""``hermes``: JSON in ``<tool_call>``, of Hermes 2 and 3, Qwen 2.5 and Qwen 3. ``qwen``: the same,
and also the tags of Qwen 3 Coder. ``llama``: the whole answer is JSON, of Llama 3.1 and later.
"""

_OPEN, _CLOSE = "<tool_call>", "</tool_call>"
_PYTHON_TAG = "<|python_tag|>"
_FUNCTION = re.compile(r"<function=([^>\n]+)>(.*?)(?:</function>|\Z)", re.DOTALL)
_PARAMETER = re.compile(
    r"<parameter=([^>\n]+)>\n?(.*?)\n?(?:</parameter>|(?=<parameter=)|\Z)", re.DOTALL
)
_NAME = re.compile(r'"name"\s*:\s*"([^"\\]+)"')
_ARGUMENTS = re.compile(r'"(?:arguments|parameters)"\s*:\s*')


def read_calls(
    text: str, format: CallFormat, tools: Sequence[ToolSpec] = ()
) -> tuple[str, tuple[ToolCall, ...]]:
    """What a text says beside its calls, and the calls.

    A call that is closed and malformed is a call all the same, so that the model is told; one
    that was cut off is text. Arguments stay as they were written.
    """
    if format == "none":
        return text, ()
    content, found = _read_llama(text) if format == "llama" else _read_tagged(text, format, tools)
    calls = (
        ToolCall(f"call_{index}", name, arguments) for index, (name, arguments) in enumerate(found)
    )
    return content, tuple(calls)


_Found: TypeAlias = tuple[str, list[tuple[str, str]]]
"""The text beside calls, and each call's name and arguments."""


def _read_tagged(text: str, format: CallFormat, tools: Sequence[ToolSpec]) -> _Found:
    start = text.find(_OPEN)
    said = text[: max(start, 0)]
    calls: list[tuple[str, str]] = []
    while start >= 0:
        end, body = _body_at(text, start + len(_OPEN))
        call = _read_body(body, format, tools, is_closed=text[:end].endswith(_CLOSE))
        if call is None:
            return said + text[start:], calls
        calls.append(call)
        start = text.find(_OPEN, end)
        between = text[end : start if start >= 0 else len(text)]
        said += between if between.strip() else ""
    return (said.removesuffix("\n") if calls else text), calls


def _body_at(text: str, at: int) -> tuple[int, str]:
    """Where a call ends, and what is in it; JSON knows its own end, whatever its strings hold."""
    begin = skip_blank(text, at)
    end = end_of(text, begin)
    if end is not None:
        after = skip_blank(text, end)
        if text.startswith(_CLOSE, after):
            return after + len(_CLOSE), text[begin:end]
        if after == len(text) or text.startswith(_OPEN, after):
            return after, text[begin:end]
    close = text.find(_CLOSE, at)
    if close < 0:
        return len(text), text[begin:]
    return close + len(_CLOSE), text[begin:close].rstrip()


def _read_body(
    body: str, format: CallFormat, tools: Sequence[ToolSpec], *, is_closed: bool
) -> tuple[str, str] | None:
    call = _read_object(body)
    if call is None and format == "qwen" and (match := _FUNCTION.search(body)):
        call = _read_function(match[1].strip(), match[2], tools) if is_closed else None
        return call
    return _mend(body) if call is None and is_closed else call


def _read_object(text: str) -> tuple[str, str] | None:
    """The name and arguments in a JSON object; None where it is none, or names nothing."""
    members = members_of(text)
    if members is None or "name" not in members:
        return None
    name = json.loads(members["name"])
    written = members.get("arguments", members.get("parameters", "{}"))
    if not isinstance(name, str):
        return None
    # Some models write the arguments as a string that holds JSON.
    arguments = json.loads(written) if written.startswith('"') else written
    return name, arguments


def _mend(body: str) -> tuple[str, str]:
    """What can be told of a malformed call: whoever runs it answers with what is wrong."""
    name, arguments = _NAME.search(body), _ARGUMENTS.search(body)
    rest = body[arguments.end() :].removesuffix("}") if arguments else body
    return (name[1] if name else ""), rest


def _read_function(name: str, body: str, tools: Sequence[ToolSpec]) -> tuple[str, str]:
    schema = next((tool.parameters for tool in tools if tool.name == name), {})
    properties = schema.get("properties")
    arguments = {
        parameter.strip(): _typed(value, properties, parameter.strip())
        for parameter, value in _PARAMETER.findall(body)
    }
    return name, json.dumps(arguments, ensure_ascii=False)


def _typed(value: str, properties: JSON, name: str) -> JSON:
    """A value that was written without quotes, as its schema wants it; otherwise as text."""
    schema = properties.get(name) if isinstance(properties, dict) else None
    if not isinstance(schema, dict) or schema.get("type") == "string":
        return value
    try:
        found: JSON = json.loads(value)
    except ValueError:
        return value
    return found


def _read_llama(text: str) -> _Found:
    said, tag, written = text.rpartition(_PYTHON_TAG)
    calls: list[tuple[str, str]] = []
    at = skip_blank(written, 0)
    while at < len(written):
        end = end_of(written, at)
        call = None if end is None else _read_object(written[at:end])
        if end is None or call is None:
            if not tag:
                # A model may answer in JSON; only the tag says that it was a call.
                return (written[at:] if calls else text), calls
            return said, [*calls, _mend(written[at:].rstrip())]
        calls.append(call)
        at = skip_blank(written, end)
        if written[at : at + 1] in (";", ","):
            at = skip_blank(written, at + 1)
    return said, calls
