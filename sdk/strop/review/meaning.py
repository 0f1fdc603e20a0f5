"""What the fields of a trajectory mean together, which no schema can say."""

from __future__ import annotations

import math
from base64 import b64decode
from binascii import Error as Base64Error
from collections.abc import Iterator
from typing import Any

from strop.attempt import Attempt
from strop.review.schema import Problem, field_name
from strop.trajectory import TRUNCATING

_ITEM_BYTES = 4
_USAGE = ("prompt_tokens", "completion_tokens", "cached_tokens")


def meaning_problems(value: dict[str, Any]) -> Iterator[Problem]:
    """Contradictions in a JSON value that has the shape of a trajectory."""
    yield from _identity_problems(value)
    yield from _end_problems(value)
    yield from _usage_problems(value)
    for index, segment in enumerate(value["segments"]):
        for field, message in _segment_problems(segment, index, value["seats"]):
            yield f"segments[{index}].{field}", message
    yield from _reward_problems(value)


def _identity_problems(value: dict[str, Any]) -> Iterator[Problem]:
    given = value["attempt"]
    attempt = Attempt(**{name: given[name] for name in Attempt.__dataclass_fields__})
    seeds = {"environment": attempt.environment_seed, "sampling": attempt.sampling_seed}
    for name, seed in seeds.items():
        if value["seeds"][name] != seed:
            yield f"seeds.{name}", f"is {value['seeds'][name]}, but the attempt gives {seed}"
    key = value["task"]["key"]
    # A mixture's keys are those of its environments with a name before them.
    if attempt.task_key != key and not attempt.task_key.endswith(f":{key}"):
        yield "task.key", "is another than that of the attempt"


def _end_problems(value: dict[str, Any]) -> Iterator[Problem]:
    reason = value["stop_reason"]
    for name, expected in (
        ("is_terminated", reason == "ended"),
        ("is_truncated", reason in TRUNCATING),
    ):
        if value[name] != expected:
            yield name, f"contradicts the stop reason {reason}"
    if reason == "failure" and value["failure"] is None:
        yield "failure", "is missing, although a failure ended the attempt"


def _usage_problems(value: dict[str, Any]) -> Iterator[Problem]:
    counted = [s["usage"] for s in value["segments"] if s.get("usage") is not None]
    for name in _USAGE:
        total = sum(usage[name] for usage in counted)
        if value["usage"][name] != total:
            yield f"usage.{name}", f"is {value['usage'][name]}, but the completions sum to {total}"


def _segment_problems(
    segment: dict[str, Any], index: int, seats: dict[str, Any]
) -> Iterator[Problem]:
    parent = segment["parent"]
    if parent is not None and parent >= index:
        yield "parent", f"is {parent}: parents stand before children"
    if segment["seat"] not in seats:
        yield "seat", "names none of the seats"
    counts = {}
    for name in ("token_ids", "logprobs"):
        if (text := segment.get(name)) is not None:
            counts[name] = _count(text)
            if counts[name] is None:
                yield name, "is no base64 of 4-byte numbers"
    if len(set(counts.values())) > 1:
        yield "logprobs", f"are {counts['logprobs']} for {counts['token_ids']} tokens"
    if segment["kind"] == "messages":
        for name in ("logprobs", "sampling"):
            if name in segment:
                yield name, "is there, although nobody sampled these messages"
        return
    temperature = segment.get("sampling", {}).get("temperature")
    if temperature is not None and not 0 <= temperature < math.inf:
        yield "sampling.temperature", f"is {temperature}, at which nothing can be sampled"
    messages = segment["messages"]
    if len(messages) != 1 or messages[0]["role"] != "assistant":
        yield "messages", "are not the one message of an assistant that a completion is"


def _count(text: str) -> int | None:
    try:
        size = len(b64decode(text, validate=True))
    except Base64Error:
        return None
    return None if size % _ITEM_BYTES else size // _ITEM_BYTES


def _reward_problems(value: dict[str, Any]) -> Iterator[Problem]:
    seats = value["seats"]
    if not seats:
        yield "seats", "are none"
        return
    main = next(iter(seats.values()))["reward"]
    if not _is_equal(value["reward"], main):
        yield "reward", f"is {value['reward']}, but the first seat's is {main}"
    for name, seat in seats.items():
        where = field_name("seats", name)
        yield from _seat_problems(seat, where, value)
    yield from _turn_problems(value)


def _turn_problems(value: dict[str, Any]) -> Iterator[Problem]:
    rewards, parts = value["turn_rewards"], value.get("turn_values", {})
    turn_count = sum(segment["kind"] == "completion" for segment in value["segments"])
    if rewards is not None and len(rewards) != turn_count:
        yield "turn_rewards", f"are {len(rewards)} for {turn_count} turns"
        return
    for name, part in parts.items():
        where = field_name("turn_values", name)
        numbers = part["values"]
        if numbers is not None and len(numbers) != turn_count:
            yield f"{where}.values", f"are {len(numbers)} for {turn_count} turns"
            return
        for number in [None] if numbers is None else numbers:
            yield from _part_problems({**part, "value": number}, where)
    if not parts:
        return
    is_due = value["failure"] is None and None not in [part["values"] for part in parts.values()]
    if rewards is None:
        if is_due:
            yield "turn_rewards", "are null, although every function gave numbers"
        return
    if not is_due:
        yield "turn_rewards", "are there, although the attempt failed or a function gave none"
        return
    for turn, reward in enumerate(rewards):
        total = _total({name: {**p, "value": p["values"][turn]} for name, p in parts.items()})
        if not _is_equal(reward, total):
            yield f"turn_rewards[{turn}]", f"is {reward}, but the weighted sum is {total}"


def _seat_problems(seat: dict[str, Any], where: str, value: dict[str, Any]) -> Iterator[Problem]:
    parts = seat["rewards"]
    for name, part in parts.items():
        yield from _part_problems(part, field_name(f"{where}.rewards", name))
        recorded = value["metrics"].get(name)
        if part["weight"] == 0 and recorded is not None and not _is_equal(recorded, part["value"]):
            yield field_name("metrics", name), f"is {recorded}, but the seat's is {part['value']}"
    reward = seat["reward"]
    values = [part["value"] for part in parts.values()]
    if value["failure"] is not None:
        if reward is not None:
            yield f"{where}.reward", "is a number, although the attempt failed"
    elif reward is not None:
        if None in values:
            yield f"{where}.reward", "is a number, although a reward function gave none"
        elif not _is_equal(reward, total := _total(parts)):
            yield f"{where}.reward", f"is {reward}, but the weighted sum is {total}"
    elif values and None not in values and math.isfinite(_total(parts)):
        yield f"{where}.reward", "is null, although every reward function gave a number"


def _part_problems(part: dict[str, Any], where: str) -> Iterator[Problem]:
    number, bounds = part["value"], part["range"]
    if number is None:
        if part["error"] is None:
            yield f"{where}.error", "is null, although there is no value"
    elif not math.isfinite(number):
        yield f"{where}.value", f"is {number}, which is not finite"
    elif bounds is not None and not bounds[0] <= number <= bounds[1]:
        yield f"{where}.value", f"is {number}, outside its range {bounds}"


def _total(parts: dict[str, Any]) -> float:
    # In the order and way in which a rubric sums.
    total = 0.0
    for part in parts.values():
        total += part["weight"] * part["value"]
    return total


def _is_equal(left: float | None, right: float | None) -> bool:
    if left is None or right is None:
        return left is right
    return math.isclose(left, right, rel_tol=1e-9, abs_tol=1e-12)
