"""What a request asks of the sampling, read off its body in any dialect."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from strop.types import JSON, Sampling

_LIMITS = ("max_tokens", "max_completion_tokens", "max_output_tokens")
_STOPS = ("stop", "stop_sequences")

_OTHERS = frozenset(
    {"model", "messages", "prompt", "input", "system", "instructions", "tools", "store"}
    | {"stream", "stream_options", "logprobs", "top_logprobs", "verbose", "return_tokens"}
    | {"return_token_ids", "return_prompt_token_ids", "return_meta_info"}
)
"""Fields that say what is asked and what is told, and not how it is drawn."""


def read_sampling(body: Mapping[str, JSON]) -> Sampling:
    """How a request with this body samples; fields without a place of their own are `extra`."""
    fields: dict[str, JSON] = {
        name: value for name, value in body.items() if name not in _OTHERS and value is not None
    }

    def take(names: tuple[str, ...], *kinds: type) -> Any:
        for name in names:
            if type(fields.get(name)) in kinds:
                return fields.pop(name)
        return None

    stop = take(_STOPS, str, list) or ()
    return Sampling(
        take(("temperature",), float, int),
        take(("top_p",), float, int),
        take(_LIMITS, int),
        (stop,) if isinstance(stop, str) else tuple(str(each) for each in stop),
        take(("seed",), int),
        fields,
    )
