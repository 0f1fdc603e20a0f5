"""Client of OpenAI's Responses."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Unpack

from strop.errors import ModelReplyError, ModelRequestError
from strop.models.endpoint import Connecting, Reply
from strop.models.endpoint_model import EndpointModel, completed
from strop.models.openai import bearer_endpoint, root_of
from strop.models.part import encode_response_part
from strop.models.reply.tokens import read_usage
from strop.types import JSON, Completion, Message, Sampling, ToolCall, ToolSpec

_READ = frozenset({"object", "model", "output", "usage", "error", "created_at", "status"})


class ResponsesModel(EndpointModel):
    """A model behind ``POST {base_url}/responses``; nothing is kept at the provider.

    Responses tells no token ids and takes neither a seed nor stop sequences: `Sampling.seed` is
    left out, `Sampling.stop` refused.

    Args:
        name: As the provider calls the model.
        base_url: ``/v1`` is added to an address without a path.
        body: Further fields of every request, such as ``reasoning``; `Sampling.extra` wins.
        **connecting: See `Connecting`.
    """

    def __init__(
        self,
        name: str,
        base_url: str = "https://api.openai.com",
        *,
        body: Mapping[str, JSON] | None = None,
        is_streaming: bool = False,
        **connecting: Unpack[Connecting],
    ) -> None:
        url = f"{root_of(base_url, '/responses')}/responses"
        fixed = {"store": False, **(body or {})}
        fold = ResponseFold if is_streaming else None
        super().__init__(name, bearer_endpoint(url, connecting), fixed, fold)

    async def complete(
        self, messages: Sequence[Message], tools: Sequence[ToolSpec], sampling: Sampling
    ) -> Completion:
        """Sample one completion.

        Raises:
            ModelError: As `strop.errors` says, after the retries that the policy allows.
        """
        items: list[JSON] = [item for message in messages for item in _encode_message(message)]
        fields: dict[str, JSON] = {"input": items}
        if tools:
            fields["tools"] = [_encode_tool(tool) for tool in tools]
        fields |= _encode_sampling(sampling)
        limit = (self._fixed | fields).get("max_output_tokens")

        def read(reply: Reply) -> Completion:
            return read_reply(reply, limit if isinstance(limit, int) else None)

        return await self._call(fields, read, sampling.seed)


def read_reply(reply: Reply, limit: int | None = None) -> Completion:
    """The completion in a reply.

    Args:
        reply: The whole of it.
        limit: How many tokens were allowed, for servers that do not tell what was cut.

    Raises:
        ModelReplyError: There is none.
    """
    document = reply.document
    output = document.get("output")
    if not isinstance(output, list):
        raise ModelReplyError(f"{reply.where} sent no output: {output!r}")
    message = _read_output([item for item in output if isinstance(item, dict)])
    usage = read_usage(document.get("usage"))
    finish = _finish_name(document)
    # llama.cpp calls everything completed. What has all the tokens that it may have was cut, or,
    # far less likely, ended at that very token.
    is_told = "incomplete_details" in document
    if finish == "stop" and not is_told and usage is not None and limit is not None:
        finish = "length" if usage.completion_tokens >= limit else finish
    return completed(reply, message, usage, ("status", finish), _READ)


class ResponseFold:
    """Waits for the event that carries the whole response: the last one of a stream."""

    def __init__(self) -> None:
        self._document: dict[str, Any] | None = None

    def take(self, event: dict[str, Any]) -> None:
        """Add one event."""
        kind = event.get("type")
        if kind in ("response.completed", "response.incomplete", "response.failed"):
            self._document = event.get("response")
        elif kind == "error":
            self._document = {"error": event}

    def finish(self) -> dict[str, Any] | None:
        """The reply as if it had come whole; None when it was cut."""
        return self._document


def _finish_name(document: Mapping[str, Any]) -> Any:
    details = document.get("incomplete_details")
    if isinstance(details, dict) and details.get("reason"):
        return details["reason"]
    return "stop" if document.get("status") == "completed" else document.get("status")


def _read_output(items: Sequence[dict[str, Any]]) -> Message:
    thoughts = [
        str(part.get("text") or "")
        for item in items
        if item.get("type") == "reasoning"
        for part in [*(item.get("content") or ()), *(item.get("summary") or ())]
    ]
    parts = [
        part
        for item in items
        if item.get("type") == "message"
        for part in item.get("content") or ()
        if isinstance(part, dict)
    ]
    calls = [item for item in items if item.get("type") == "function_call"]
    return Message(
        "assistant",
        "".join(str(part.get("text") or part.get("refusal") or "") for part in parts),
        tool_calls=tuple(
            ToolCall(
                str(call.get("call_id") or call.get("id")),
                str(call.get("name")),
                str(call.get("arguments") or "{}"),
            )
            for call in calls
        ),
        reasoning="\n\n".join(thoughts) or None,
    )


def _encode_message(message: Message) -> list[JSON]:
    content: JSON = message.content if isinstance(message.content, str) else None
    if not isinstance(message.content, str):
        content = [encode_response_part(part) for part in message.content]
    if message.role == "tool":
        return [
            {
                "type": "function_call_output",
                "call_id": message.tool_call_id,
                "output": content,
            }
        ]
    items: list[JSON] = []
    if message.role == "assistant" and isinstance(message.content, str) and message.content:
        # In the form in which it was said: llama.cpp reads no other.
        said: JSON = {"type": "output_text", "text": message.content}
        items.append({"type": "message", "role": "assistant", "content": [said]})
    elif message.content:
        items.append({"role": message.role, "content": content})
    for call in message.tool_calls:
        items.append(
            {
                "type": "function_call",
                "call_id": call.id,
                "name": call.name,
                "arguments": call.arguments,
            }
        )
    return items


def _encode_tool(tool: ToolSpec) -> dict[str, JSON]:
    return {
        "type": "function",
        "name": tool.name,
        "description": tool.description,
        "parameters": tool.parameters,
        "strict": False,
    }


def _encode_sampling(sampling: Sampling) -> dict[str, JSON]:
    if sampling.stop:
        raise ModelRequestError(
            "Responses takes no stop sequences: leave `stop` empty, or use chat completions"
        )
    body: dict[str, JSON] = {}
    if sampling.temperature is not None:
        body["temperature"] = sampling.temperature
    if sampling.top_p is not None:
        body["top_p"] = sampling.top_p
    if sampling.max_tokens is not None:
        body["max_output_tokens"] = sampling.max_tokens
    return body | sampling.extra
