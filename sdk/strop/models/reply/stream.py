"""Fold the events of a streamed chat or text completion into the reply that it would be whole."""

from __future__ import annotations

from typing import Any

_JOINED = ("content", "reasoning_content", "reasoning", "refusal", "text")
"""Members of a delta that come in pieces."""


class ChatFold:
    """Collects the first choice; an end mark is what tells a whole stream from a cut one."""

    def __init__(self) -> None:
        self._document: dict[str, Any] = {}
        self._choice: dict[str, Any] = {}
        self._pieces: dict[str, list[str]] = {}
        self._message: dict[str, Any] = {}
        self._calls: dict[int, dict[str, Any]] = {}
        self._has_choice = False
        self._is_ended = False

    def take(self, event: dict[str, Any]) -> None:
        """Add one event."""
        if "[DONE]" in event:
            self._is_ended = True
            return
        for name, value in event.items():
            if name != "choices" and value is not None:
                self._document[name] = value
        for choice in event.get("choices") or ():
            if isinstance(choice, dict) and not choice.get("index"):
                self._take_choice(choice)

    def finish(self) -> dict[str, Any] | None:
        """The reply as if it had come whole; None when it was cut."""
        is_cut = self._has_choice and self._choice.get("finish_reason") is None
        if not self._is_ended or is_cut:
            return None
        if not self._has_choice:
            return {**self._document, "choices": []}
        joined = {name: "".join(pieces) for name, pieces in self._pieces.items()}
        choice = dict(self._choice)
        if "text" in joined:
            choice["text"] = joined.pop("text")
        message = {**self._message, **joined}
        if self._calls:
            message["tool_calls"] = [self._whole_call(index) for index in sorted(self._calls)]
        choice["message"] = message
        return {**self._document, "choices": [choice]}

    def _take_choice(self, choice: dict[str, Any]) -> None:
        self._has_choice = True
        for name, value in choice.items():
            if value is None or name == "delta":
                continue
            if name == "token_ids":
                self._choice.setdefault(name, []).extend(value)
            elif name == "logprobs":
                self._take_logprobs(value)
            elif name == "text":
                self._pieces.setdefault(name, []).append(value)
            else:
                self._choice[name] = value
        delta = choice.get("delta")
        if isinstance(delta, dict):
            self._take_delta(delta)

    def _take_logprobs(self, found: dict[str, Any]) -> None:
        kept = self._choice.setdefault("logprobs", {})
        for name, value in found.items():
            if isinstance(value, list):
                kept.setdefault(name, []).extend(value)

    def _take_delta(self, delta: dict[str, Any]) -> None:
        for name, value in delta.items():
            if value is None:
                continue
            if name == "tool_calls":
                for call in value:
                    self._take_call(call)
            elif name in _JOINED and isinstance(value, str):
                self._pieces.setdefault(name, []).append(value)
            else:
                self._message[name] = value

    def _take_call(self, call: dict[str, Any]) -> None:
        kept = self._calls.setdefault(self._index_of(call), {"arguments": []})
        function = call.get("function") or {}
        if call.get("id") and "id" not in kept:
            kept["id"] = call["id"]
        if function.get("name") and "name" not in kept:
            kept["name"] = function["name"]
        if isinstance(function.get("arguments"), str):
            kept["arguments"].append(function["arguments"])

    def _index_of(self, call: dict[str, Any]) -> int:
        index = call.get("index")
        if isinstance(index, int):
            return index
        # Without an index, an id begins another call and its absence continues the last one.
        newest = max(self._calls, default=-1)
        is_new = newest < 0 or call.get("id") not in (None, "", self._calls[newest].get("id"))
        return newest + 1 if is_new else newest

    def _whole_call(self, index: int) -> dict[str, Any]:
        kept = self._calls[index]
        arguments = "".join(kept["arguments"])
        return {
            "id": kept.get("id"),
            "function": {"name": kept.get("name"), "arguments": arguments},
        }
