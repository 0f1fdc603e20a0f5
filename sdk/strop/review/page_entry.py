"""A trajectory as the page's script reads it: harmless text, numbers that JavaScript can hold."""

from __future__ import annotations

import json
import math
from array import array
from base64 import b64encode
from typing import Any

from strop.review.escaping import how_it_ended, shorten, visible, visible_line
from strop.review.facts import odd_outcome, sampled_with, turn_facts
from strop.trajectory import Segment, Trajectory
from strop.types import JSON, Message, Part

_TEXT_CHARS = 2_000_000
_VALUE_CHARS = 20_000
_PICTURES = ("image/png", "image/jpeg", "image/gif", "image/webp")


class PageEntry:
    """One trajectory, prepared for the page."""

    def __init__(self, trajectory: Trajectory) -> None:
        self._trajectory = trajectory

    def row(self) -> list[JSON]:
        """What the list shows and filters by, in the order in which the script reads it."""
        t = self._trajectory
        attempt, failure = t.attempt, t.failure
        return [
            visible_line(attempt.environment),
            visible_line(attempt.split),
            visible_line(attempt.task_key),
            str(attempt.run_seed),
            attempt.visit,
            attempt.member,
            None if failure is not None else _number(t.reward),
            None if failure is None else visible_line(failure.type),
            t.is_truncated,
            t.turn_count,
            t.usage.completion_tokens,
        ]

    def token_ids(self) -> set[int]:
        """The ids that its completions sampled."""
        return {
            token_id
            for segment in self._trajectory.segments
            if segment.kind == "completion"
            for token_id in segment.token_ids or ()
        }

    def document(self) -> dict[str, JSON]:
        """All that is shown of it."""
        t = self._trajectory
        failure = t.failure
        return {
            "facts": self._facts(),
            "seats": {
                visible_line(name): {
                    "reward": _number(seat.reward),
                    "is_trainable": seat.is_trainable,
                    "rewards": [
                        {
                            "name": visible_line(function),
                            "value": _number(part.value),
                            "weight": _number(part.weight),
                            "range": None if part.range is None else str(list(part.range)),
                            "error": None if part.error is None else visible(part.error),
                        }
                        for function, part in seat.rewards.items()
                    ],
                }
                for name, seat in t.seats.items()
            },
            "failure": None
            if failure is None
            else {
                "title": visible_line(f"{failure.type} at the boundary {failure.boundary}"),
                "message": visible(failure.message),
                "traceback": visible(failure.traceback),
            },
            "stop": visible_line(how_it_ended(t.stop_reason, t.stop_detail)),
            "last": visible(shorten(t.text, _VALUE_CHARS)),
            "prompt": [visible(shorten(each.text, _VALUE_CHARS)) for each in t.task.prompt],
            "turn_rewards": None
            if t.turn_rewards is None
            else [_number(reward) for reward in t.turn_rewards],
            "segments": [_segment(segment) for segment in t.segments],
        }

    def _facts(self) -> list[JSON]:
        t = self._trajectory
        identity, timing = t.environment, t.timing
        facts: list[tuple[str, str]] = [
            ("stop", how_it_ended(t.stop_reason, t.stop_detail)),
            ("environment", f"{identity.full_name} {identity.version or ''} ({identity.state})"),
            ("digest", identity.digest or ""),
            ("run seed", str(t.attempt.run_seed)),
            ("prompt tokens", f"{t.usage.prompt_tokens:,}"),
            ("completion tokens", f"{t.usage.completion_tokens:,}"),
            ("seconds of turns", f"{timing.turns_s:.3g}"),
            ("seconds of tools", f"{timing.tools_s:.3g}"),
            ("forks", str(t.fork_count) if t.fork_count else ""),
            ("sandbox", t.isolation or ""),
            *((visible_line(name), told) for name, told in turn_facts(t)),
        ]
        values: dict[str, JSON] = {
            "reference": t.task.reference,
            "metadata": t.task.metadata,
            "outcome": t.outcome,
            "settings": t.settings,
            "stamps": t.stamps,
        }
        shown = [(name, _text(value)) for name, value in values.items() if value not in (None, {})]
        return [[name, visible(text)] for name, text in [*facts, *shown] if text.strip()]


def _segment(segment: Segment) -> dict[str, JSON]:
    document: dict[str, JSON] = {
        "kind": segment.kind,
        "seat": visible_line(segment.seat),
        "parent": segment.parent,
        "messages": [_message(message) for message in segment.messages],
    }
    if segment.kind == "completion":
        finish, outcome = segment.finish_reason or "", odd_outcome(segment)
        facts = [segment.model, finish, outcome, f"{segment.latency_s:.3g} s"]
        facts.append(sampled_with(segment.sampling))
        document["sampling"] = visible_line(" · ".join(fact for fact in facts if fact))
        for name, numbers in (("ids", segment.token_ids), ("logprobs", segment.logprobs)):
            if numbers is not None:
                document[name] = _packed(numbers)
    return document


def _message(message: Message) -> dict[str, JSON]:
    content = message.content
    document: dict[str, JSON] = {"role": message.role}
    if isinstance(content, str):
        document["text"] = visible(shorten(content, _TEXT_CHARS))
    else:
        document["parts"] = [_part(part) for part in content]
    if message.name:
        document["name"] = visible_line(message.name)
    if message.reasoning:
        document["reasoning"] = visible(shorten(message.reasoning, _TEXT_CHARS))
    if message.tool_calls:
        document["calls"] = [
            [
                visible_line(call.name),
                visible(shorten(call.arguments, _VALUE_CHARS)),
                visible_line(call.id),
            ]
            for call in message.tool_calls
        ]
    return document


def _part(part: Part) -> dict[str, JSON]:
    if part.kind == "text":
        return {"text": visible(shorten(part.text or "", _TEXT_CHARS))}
    url = part.url or ""
    # Pictures only, of kinds that run nothing; everything else is named and not loaded.
    if part.kind == "image" and url.startswith(tuple(f"data:{kind};base64," for kind in _PICTURES)):
        return {"picture": url}
    where = part.digest or url
    return {"other": visible_line(f"{part.kind} {part.media_type or ''} {where[:200]}")}


def _packed(numbers: array[Any]) -> str:
    # The script's arrays are little-endian, as the file's are.
    if array("H", [1]).tobytes() != b"\x01\x00":
        numbers = numbers[:]
        numbers.byteswap()
    return b64encode(numbers.tobytes()).decode("ascii")


def _number(value: float | None) -> float | str | None:
    return value if value is None or math.isfinite(value) else str(value)


def _text(value: JSON) -> str:
    text = value if isinstance(value, str) else json.dumps(value, indent=1, ensure_ascii=False)
    return shorten(text, _VALUE_CHARS)
