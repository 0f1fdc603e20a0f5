"""The written form of a trajectory, schema ``strop.trajectory/1`` (step: rollout).

`docs/reference/trajectory.md` describes every field. Token arrays are little-endian base64:
8,000 tokens take a tenth of the time and a third of the space of JSON numbers. The encoder is
the standard library's with ASCII escapes, which keeps lone surrogates, big integers and NaN.
"""

from __future__ import annotations

import json
import sys
from array import array
from base64 import b64decode, b64encode
from typing import Any, TypeVar

from strop.attempt import Attempt
from strop.blob_folder import BlobFolder
from strop.canonical import telling_what_is_unwritable
from strop.errors import TrajectoryFileError, UnwritableError
from strop.message_json import message_from_json, message_to_json
from strop.task import Task
from strop.trajectory import (
    SCHEMA,
    Failure,
    OutsideReply,
    RewardValue,
    Seat,
    Segment,
    Timing,
    Trajectory,
    TurnValues,
)
from strop.types import JSON, EnvironmentIdentity, Sampling, Usage

_encode = json.JSONEncoder(ensure_ascii=True, separators=(",", ":"), check_circular=False).encode
_ITEM_BYTES = 4
_Record = TypeVar("_Record")


def encode_line(
    trajectory: Trajectory, *, has_reference: bool = True, blobs: BlobFolder | None = None
) -> bytes:
    """One line of a trajectory file, its end included.

    Args:
        trajectory: A scored one.
        has_reference: Whether the task's reference is written; False keeps answers secret.
        blobs: Where large images and sounds go; None leaves them in the line.

    Raises:
        UnwritableError: A value, such as one of the task's metadata, is nothing that JSON holds.
    """
    value = to_json(trajectory, has_reference=has_reference)
    if blobs is not None:
        blobs.take_out(value)
    try:
        with telling_what_is_unwritable():
            return (_encode(value) + "\n").encode("ascii")
    except (TypeError, UnwritableError) as error:
        raise UnwritableError(
            f"The attempt at task {trajectory.task.key!r} cannot be written: "
            f"its `{_unwritable_place(value).removeprefix('.')}` is no JSON. {error}"
        ) from error


def _unwritable_place(value: Any, depth: int = 8) -> str:
    steps: list[tuple[str, Any]] = []
    if isinstance(value, dict):
        steps = [(f".{name}", part) for name, part in value.items()]
    elif isinstance(value, list | tuple):
        steps = [(f"[{index}]", part) for index, part in enumerate(value)]
    for step, part in steps if depth else ():
        try:
            _encode(part)
        except (TypeError, ValueError, RecursionError):
            return step + _unwritable_place(part, depth - 1)
    return ""


def decode_line(line: bytes, blobs: BlobFolder | None = None) -> Trajectory:
    """Read what `encode_line` gave.

    Args:
        line: Of a file.
        blobs: Where its large images and sounds are; without, they are known by digest alone.

    Raises:
        TrajectoryFileError: The line is no trajectory of this schema, or a blob of it is missing
            or damaged.
    """
    try:
        value = json.loads(line)
    except (ValueError, RecursionError) as error:
        raise TrajectoryFileError(f"The line is no JSON: {error}.") from error
    return from_json(value, blobs)


def to_json(trajectory: Trajectory, *, has_reference: bool = True) -> dict[str, JSON]:
    """The trajectory as JSON."""
    t = trajectory
    attempt = t.attempt
    task = t.task.to_json()
    if not has_reference:
        del task["reference"]
    return {
        "schema": SCHEMA,
        "attempt": attempt_to_json(attempt),
        "seeds": {"environment": attempt.environment_seed, "sampling": attempt.sampling_seed},
        "environment": identity_to_json(t.environment),
        "strop_version": t.strop_version,
        "settings": t.settings,
        "task": task,
        "segments": [_segment_to_json(segment) for segment in t.segments],
        "fork_count": t.fork_count,
        "seats": {name: _seat_to_json(seat) for name, seat in t.seats.items()},
        "reward": t.reward,
        "metrics": dict(t.metrics),
        "turn_rewards": None if t.turn_rewards is None else list(t.turn_rewards),
        **_turn_values_to_json(t.turn_values),
        "outcome": t.outcome,
        "replies": [_reply_to_json(reply) for reply in t.replies],
        "is_terminated": t.is_terminated,
        "is_truncated": t.is_truncated,
        "stop_reason": t.stop_reason,
        "stop_detail": t.stop_detail,
        "failure": None if t.failure is None else failure_to_json(t.failure),
        "usage": usage_to_json(t.usage),
        "timing": _timing_to_json(t.timing),
        "started_at_s": t.started_at_s,
        "isolation": t.isolation,
        "stamps": t.stamps,
    }


def from_json(value: dict[str, Any], blobs: BlobFolder | None = None) -> Trajectory:
    """Read what `to_json` gave; with `blobs`, what they took out of it is put back into it.

    Raises:
        TrajectoryFileError: `value` is no trajectory of this schema.
    """
    schema = value.get("schema") if isinstance(value, dict) else None
    if schema != SCHEMA:
        raise TrajectoryFileError(
            f"Expected a trajectory of schema {SCHEMA}, found {schema!r}. "
            "Read the file with the Strop that wrote it."
        )
    try:
        if blobs is not None:
            blobs.put_back(value)
        return _from_json(value)
    except (AttributeError, KeyError, TypeError, ValueError) as error:
        raise TrajectoryFileError(f"The trajectory is incomplete: {error!r}.") from error


def _from_json(value: dict[str, Any]) -> Trajectory:
    turn_rewards = value["turn_rewards"]
    segments = tuple(_segment_from_json(segment) for segment in value["segments"])
    _check_parents(segments)
    return Trajectory(
        attempt=_known(Attempt, value["attempt"]),
        task=Task.from_json({"reference": None, **value["task"]}),
        segments=segments,
        seats={name: _seat_from_json(seat) for name, seat in value["seats"].items()},
        outcome=value["outcome"],
        stop_reason=value["stop_reason"],
        stop_detail=value["stop_detail"],
        failure=None if value["failure"] is None else _known(Failure, value["failure"]),
        metrics=value["metrics"],
        turn_rewards=None if turn_rewards is None else tuple(turn_rewards),
        turn_values={
            name: _turns_from_json(each) for name, each in value.get("turn_values", {}).items()
        },
        replies=tuple(_reply_from_json(reply) for reply in value["replies"]),
        environment=_known(EnvironmentIdentity, value["environment"]),
        settings=value["settings"],
        fork_count=value["fork_count"],
        timing=_known(Timing, value["timing"]),
        started_at_s=value["started_at_s"],
        isolation=value["isolation"],
        strop_version=value["strop_version"],
        stamps=value["stamps"],
    )


def _check_parents(segments: tuple[Segment, ...]) -> None:
    # A parent that comes later would make a circle, in which a walk to the root never ends.
    for index, segment in enumerate(segments):
        parent: Any = segment.parent
        if parent is not None and not (type(parent) is int and 0 <= parent < index):
            raise ValueError(f"segment {index} has the parent {parent!r}, which is none before it")


def _known(kind: type[_Record], value: dict[str, Any]) -> _Record:
    # A later writer may have added fields within the schema.
    names: Any = kind.__dataclass_fields__  # type: ignore[attr-defined]
    return kind(**{name: value[name] for name in names if name in value})


def _segment_to_json(segment: Segment) -> dict[str, JSON]:
    value: dict[str, JSON] = {
        "kind": segment.kind,
        "seat": segment.seat,
        "parent": segment.parent,
        "messages": [message_to_json(message) for message in segment.messages],
    }
    if segment.token_ids is not None:
        value["token_ids"] = pack_numbers(segment.token_ids)
    if segment.kind == "completion":
        if segment.logprobs is not None:
            value["logprobs"] = pack_numbers(segment.logprobs)
        value["finish_reason"] = segment.finish_reason
        value["usage"] = None if segment.usage is None else usage_to_json(segment.usage)
        value["model"] = segment.model
        value["latency_s"] = segment.latency_s
        if segment.policy_version is not None:
            value["policy_version"] = segment.policy_version
        if segment.sampling is not None:
            value["sampling"] = sampling_to_json(segment.sampling)
        if segment.raw:
            value["raw"] = segment.raw
    return value


def _segment_from_json(value: dict[str, Any]) -> Segment:
    token_ids, logprobs, usage = (value.get(k) for k in ("token_ids", "logprobs", "usage"))
    sampling = value.get("sampling")
    return Segment(
        kind=value["kind"],
        seat=value["seat"],
        parent=value["parent"],
        messages=tuple(message_from_json(message) for message in value["messages"]),
        token_ids=None if token_ids is None else unpack_numbers("i", token_ids),
        logprobs=None if logprobs is None else unpack_numbers("f", logprobs),
        finish_reason=value.get("finish_reason"),
        usage=None if usage is None else _known(Usage, usage),
        model=value.get("model", ""),
        latency_s=value.get("latency_s", 0.0),
        policy_version=value.get("policy_version"),
        sampling=None if sampling is None else sampling_from_json(sampling),
        raw=value.get("raw", {}),
    )


def _seat_to_json(seat: Seat) -> dict[str, JSON]:
    return {
        "is_trainable": seat.is_trainable,
        "reward": seat.reward,
        "rewards": {
            name: {
                "value": reward.value,
                "weight": reward.weight,
                "range": None if reward.range is None else list(reward.range),
                "error": reward.error,
            }
            for name, reward in seat.rewards.items()
        },
    }


def _seat_from_json(value: dict[str, Any]) -> Seat:
    rewards = {
        name: RewardValue(
            reward["value"],
            reward["weight"],
            None if reward["range"] is None else tuple(reward["range"]),
            reward["error"],
        )
        for name, reward in value["rewards"].items()
    }
    return Seat(value["is_trainable"], value["reward"], rewards)


def _turn_values_to_json(turn_values: dict[str, TurnValues]) -> dict[str, JSON]:
    if not turn_values:
        return {}
    return {
        "turn_values": {
            name: {
                "values": None if each.values is None else list(each.values),
                "weight": each.weight,
                "range": None if each.range is None else list(each.range),
                "error": each.error,
            }
            for name, each in turn_values.items()
        }
    }


def _turns_from_json(value: dict[str, Any]) -> TurnValues:
    values, bounds = value["values"], value["range"]
    return TurnValues(
        None if values is None else tuple(values),
        value["weight"],
        None if bounds is None else tuple(bounds),
        value["error"],
    )


def _reply_to_json(reply: OutsideReply) -> dict[str, JSON]:
    return {
        "source": reply.source,
        "request": reply.request,
        "reply": reply.reply,
        "usage": None if reply.usage is None else usage_to_json(reply.usage),
    }


def _reply_from_json(value: dict[str, Any]) -> OutsideReply:
    usage = None if value["usage"] is None else _known(Usage, value["usage"])
    return OutsideReply(value["source"], value["request"], value["reply"], usage)


def attempt_to_json(attempt: Attempt) -> dict[str, JSON]:
    """An attempt's identity as JSON; ``Attempt(**value)`` reads it."""
    return {
        "run_seed": attempt.run_seed,
        "environment": attempt.environment,
        "split": attempt.split,
        "task_key": attempt.task_key,
        "visit": attempt.visit,
        "member": attempt.member,
    }


def identity_to_json(identity: EnvironmentIdentity) -> dict[str, JSON]:
    """An identity as JSON; ``EnvironmentIdentity(**value)`` reads it."""
    return {
        "name": identity.name,
        "owner": identity.owner,
        "version": identity.version,
        "digest": identity.digest,
        "state": identity.state,
    }


def failure_to_json(failure: Failure) -> dict[str, JSON]:
    """A failure as JSON; ``Failure(**value)`` reads it."""
    return {
        "type": failure.type,
        "boundary": failure.boundary,
        "message": failure.message,
        "traceback": failure.traceback,
    }


def usage_to_json(usage: Usage) -> dict[str, JSON]:
    """Counts as JSON; ``Usage(**value)`` reads them."""
    return {
        "prompt_tokens": usage.prompt_tokens,
        "completion_tokens": usage.completion_tokens,
        "cached_tokens": usage.cached_tokens,
    }


def sampling_to_json(sampling: Sampling) -> dict[str, JSON]:
    """What was set, as JSON; `sampling_from_json` gives an equal value back."""
    value: dict[str, JSON] = {}
    if sampling.temperature is not None:
        value["temperature"] = sampling.temperature
    if sampling.top_p is not None:
        value["top_p"] = sampling.top_p
    if sampling.max_tokens is not None:
        value["max_tokens"] = sampling.max_tokens
    if sampling.stop:
        value["stop"] = list(sampling.stop)
    if sampling.seed is not None:
        value["seed"] = sampling.seed
    if sampling.extra:
        value["extra"] = sampling.extra
    return value


def sampling_from_json(value: dict[str, Any]) -> Sampling:
    """Read what `sampling_to_json` gave; what is missing was left to the engine."""
    get = value.get
    return Sampling(
        get("temperature"),
        get("top_p"),
        get("max_tokens"),
        tuple(get("stop", ())),
        get("seed"),
        get("extra", {}),
    )


def _timing_to_json(timing: Timing) -> dict[str, JSON]:
    return {
        "queue_s": timing.queue_s,
        "setup_s": timing.setup_s,
        "turns_s": timing.turns_s,
        "tools_s": timing.tools_s,
        "score_s": timing.score_s,
    }


def pack_numbers(numbers: array[Any]) -> str:
    """An array of 4-byte numbers as little-endian base64."""
    if sys.byteorder == "big":
        numbers = numbers[:]
        numbers.byteswap()
    return b64encode(numbers.tobytes()).decode("ascii")


def unpack_numbers(typecode: str, text: str) -> array[Any]:
    """Read what `pack_numbers` gave."""
    numbers = array(typecode)
    if numbers.itemsize != _ITEM_BYTES:
        raise TrajectoryFileError("This platform's arrays are not 4 bytes wide.")
    numbers.frombytes(b64decode(text, validate=True))
    if sys.byteorder == "big":
        numbers.byteswap()
    return numbers
