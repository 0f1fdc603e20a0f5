"""What passes between a served environment and its client, as JSON; protocol ``strop.serve/1``."""

from __future__ import annotations

import traceback
from array import array
from typing import Any

from strop import errors
from strop.message_json import message_from_json, message_to_json
from strop.trajectory_json import (
    pack_numbers,
    sampling_from_json,
    sampling_to_json,
    unpack_numbers,
    usage_to_json,
)
from strop.types import JSON, Completion, ToolSpec, Usage

PROTOCOL = "strop.serve/1"


def completion_to_json(completion: Completion) -> dict[str, JSON]:
    """A completion as JSON, its numbers exact."""
    c = completion
    return {
        "message": message_to_json(c.message),
        "finish_reason": c.finish_reason,
        "usage": None if c.usage is None else usage_to_json(c.usage),
        "prompt_token_ids": _packed(c.prompt_token_ids),
        "token_ids": _packed(c.token_ids),
        "logprobs": _packed(c.logprobs),
        "model": c.model,
        "latency_s": c.latency_s,
        "policy_version": c.policy_version,
        "sampling": None if c.sampling is None else sampling_to_json(c.sampling),
        "raw": c.raw,
    }


def completion_from_json(value: dict[str, Any]) -> Completion:
    """Read what `completion_to_json` gave."""
    sampling = value.get("sampling")
    return Completion(
        message=message_from_json(value["message"]),
        finish_reason=value["finish_reason"],
        usage=None if value["usage"] is None else Usage(**value["usage"]),
        prompt_token_ids=_unpacked("i", value["prompt_token_ids"]),
        token_ids=_unpacked("i", value["token_ids"]),
        logprobs=_unpacked("f", value["logprobs"]),
        model=value["model"],
        latency_s=value["latency_s"],
        policy_version=value["policy_version"],
        sampling=None if sampling is None else sampling_from_json(sampling),
        raw=value["raw"],
    )


def tool_to_json(tool: ToolSpec) -> dict[str, JSON]:
    """A tool as JSON; ``ToolSpec(**value)`` reads it."""
    return {"name": tool.name, "description": tool.description, "parameters": tool.parameters}


def error_to_json(error: Exception) -> dict[str, JSON]:
    """An error as JSON, with where it came from."""
    text = "".join(traceback.format_exception(error, limit=-8))
    return {"type": type(error).__name__, "message": str(error), "traceback": text}


def error_from_json(value: dict[str, Any]) -> errors.StropError:
    """The error that `error_to_json` was given; a foreign one is the environment's fault."""
    error = _made(value)
    if value.get("traceback"):
        error.add_note(f"Over there:\n{value['traceback']}")
    return error


def _made(value: dict[str, Any]) -> errors.StropError:
    kind = getattr(errors, str(value["type"]), None)
    message = str(value["message"])
    if isinstance(kind, type) and issubclass(kind, errors.StropError):
        try:
            return kind(message)
        except TypeError:
            pass
    return errors.EnvironmentFaultError(f"{value['type']}: {message}")


def _packed(numbers: array[Any] | None) -> JSON:
    return None if numbers is None else pack_numbers(numbers)


def _unpacked(typecode: str, text: str | None) -> array[Any] | None:
    return None if text is None else unpack_numbers(typecode, text)
