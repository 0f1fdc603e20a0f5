"""Token ids, log-probabilities and counts, wherever an engine puts them."""

from __future__ import annotations

import math
from array import array
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from strop.errors import ModelReplyError
from strop.types import Usage

_ID_PREFIX = "token_id:"
_MAX_COUNT = 2**53


@dataclass(frozen=True, slots=True)
class Tokens:
    """What an engine tells about the tokens of one completion; None for what it hides."""

    prompt_ids: array[int] | None
    ids: array[int] | None
    logprobs: array[float] | None
    """As many as `ids` where both are there; None when one of them is no finite number."""


def read_tokens(document: Mapping[str, Any], choice: Mapping[str, Any], where: str) -> Tokens:
    """Find ids and logprobs in a reply of the chat or text completions kind.

    Source:
        vLLM ``return_token_ids`` and ``return_tokens_as_token_ids``; SGLang
        ``return_prompt_token_ids``, ``return_token_ids`` and ``return_meta_info``; llama.cpp
        ``logprobs.content[].id`` and ``return_tokens`` with ``verbose``.

    Raises:
        ModelReplyError: What stands where token ids belong is no list of integers.
    """
    prompt_ids = choice.get("prompt_token_ids") or document.get("prompt_token_ids")
    ids, logprobs = _sampled(choice)
    if choice.get("token_ids") is None and not _is_all(document.get("usage"), logprobs):
        # A stream of llama.cpp has no entry for the token that ended the completion.
        ids = logprobs = None
    if ids is None:
        verbose = document.get("__verbose")
        ids = verbose.get("tokens") if isinstance(verbose, dict) else None
        ids = ids or None
    packed_ids = _pack_ids(ids, where)
    packed_logprobs = _pack_logprobs(logprobs)
    if packed_ids is not None and len(packed_ids) != len(packed_logprobs or packed_ids):
        packed_logprobs = None
    return Tokens(_pack_ids(prompt_ids, where), packed_ids, packed_logprobs)


def read_usage(counts: Any, tokens: Tokens | None = None) -> Usage | None:
    """The tokens that were counted, never negative; from the ids when the engine does not count.

    Takes the names of OpenAI's chat completions and of its Responses.
    """
    if not isinstance(counts, dict) or not counts:
        if tokens is None or tokens.prompt_ids is None or tokens.ids is None:
            return None
        return Usage(len(tokens.prompt_ids), len(tokens.ids))
    prompt_count = count_of(counts.get("prompt_tokens", counts.get("input_tokens")))
    details = counts.get("prompt_tokens_details") or counts.get("input_tokens_details")
    cached = details.get("cached_tokens") if isinstance(details, dict) else None
    if cached is None:
        cached = counts.get("prompt_cache_hit_tokens")
    return Usage(
        prompt_count,
        count_of(counts.get("completion_tokens", counts.get("output_tokens"))),
        min(count_of(cached), prompt_count),
    )


def count_of(value: Any) -> int:
    """A count that an engine sent, ≥ 0; 0 for what is no number, or beyond every real count."""
    is_count = isinstance(value, int | float) and 0 <= value <= _MAX_COUNT
    return int(value) if is_count else 0


def _is_all(counts: Any, entries: Sequence[Any] | None) -> bool:
    """Whether there is an entry for every token that was counted, as far as anybody counted."""
    count = counts.get("completion_tokens") if isinstance(counts, dict) else None
    return entries is None or not isinstance(count, int) or count == len(entries)


def _sampled(choice: Mapping[str, Any]) -> tuple[Sequence[Any] | None, Sequence[Any] | None]:
    ids: Sequence[Any] | None = choice.get("token_ids")
    ids_beside, logprobs = _from_logprobs(choice.get("logprobs"))
    meta = choice.get("meta_info")
    triples = meta.get("output_token_logprobs") if isinstance(meta, dict) else None
    if triples:
        ids_beside, logprobs = [entry[1] for entry in triples], [entry[0] for entry in triples]
    return (ids_beside if ids is None else ids), logprobs


def _from_logprobs(found: Any) -> tuple[Sequence[Any] | None, Sequence[Any] | None]:
    if not isinstance(found, dict):
        return None, None
    entries = found.get("content")
    if isinstance(entries, list):
        ids = [_id_of(entry) for entry in entries]
        is_complete = bool(ids) and None not in ids
        return (ids if is_complete else None), [entry.get("logprob") for entry in entries]
    # The text completions of OpenAI and its followers keep parallel lists.
    names = found.get("tokens") or ()
    ids = [_id_of({"token": name}) for name in names]
    is_complete = bool(ids) and None not in ids
    return (ids if is_complete else None), found.get("token_logprobs")


def _id_of(entry: Mapping[str, Any]) -> int | None:
    for name in ("id", "token_id"):
        if isinstance(entry.get(name), int):
            return int(entry[name])
    token = entry.get("token")
    if isinstance(token, str) and token.startswith(_ID_PREFIX):
        text = token[len(_ID_PREFIX) :]
        return int(text) if text.isdecimal() else None
    return None


def _pack_ids(ids: Any, where: str) -> array[int] | None:
    if ids is None:
        return None
    try:
        return array("i", ids)
    except (TypeError, OverflowError) as error:
        raise ModelReplyError(f"{where} sent token ids that are no integers: {error}") from error


def _pack_logprobs(logprobs: Sequence[Any] | None) -> array[float] | None:
    if not logprobs:
        return None
    try:
        packed = array("f", logprobs)
    except (TypeError, OverflowError):
        return None
    return packed if all(map(math.isfinite, packed)) else None
