"""From an endpoint's refusal to the error that says what may be done about it."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from typing import Any

from strop.errors import (
    ContextOverflowError,
    ModelAuthError,
    ModelError,
    ModelReplyError,
    ModelRequestError,
    ModelUnavailableError,
)

_SHOWN_CHARS = 500

_OVERFLOW_CODES = frozenset({"context_length_exceeded", "exceed_context_size_error"})

_OVERFLOW = re.compile(
    r"maximum context length"  # OpenAI, vLLM, SGLang, DeepSeek, Mistral
    r"|context length is only"  # vLLM
    r"|longer than the maximum model length"  # vLLM
    r"|longer than the model's context length"  # SGLang
    r"|input length .*exceeds the maximum allowed"  # SGLang
    r"|exceeds the context window"  # OpenAI Responses
    r"|prompt is too long"  # Anthropic
    r"|exceed context limit"  # Anthropic: prompt and max_tokens together
    r"|input token count.* exceeds the maximum number of tokens"  # Google
    r"|exceeds? the available context size"  # llama.cpp
    r"|context size has been exceeded"  # llama.cpp, in the middle of a completion
    r"|maximum prompt length is"  # xAI
    r"|`inputs` tokens \+ `max_new_tokens` must be"  # Text Generation Inference
    r"|input is too long for requested model",  # Bedrock
    re.IGNORECASE | re.DOTALL,
)


def refusal(status: int, headers: Mapping[str, str], body: bytes, where: str) -> ModelError:
    """The error for a response whose status is not 2xx."""
    text, code = _read_problem(body)
    message = f"{where} answered {status}: {text or 'without a word'}"
    retry_after_s = read_retry_after(headers)
    if status in (401, 403):
        return ModelAuthError(f"{message}. Check the API key and what it may use")
    if status in (408, 425, 429):
        return ModelUnavailableError(message, retry_after_s=retry_after_s)
    if is_overflow(text, code):
        return ContextOverflowError(message)
    if status >= 500:
        return ModelUnavailableError(message, retry_after_s=retry_after_s)
    if status == 404:
        message += ". Check the model's name and the base URL, which mostly ends in /v1"
    elif status < 400:
        target = headers.get("location", "nowhere")
        message = f"{where} redirects to {target} ({status}): set the base URL to that"
    return ModelRequestError(message)


def embedded_refusal(problem: Any, where: str) -> ModelError:
    """The error for an ``error`` member inside a response with status 200, or in a stream."""
    members = problem if isinstance(problem, dict) else {"message": str(problem)}
    code = members.get("code")
    if isinstance(code, int) and 300 <= code < 600:
        return refusal(code, {}, json.dumps({"error": members}).encode(), where)
    text, name = _describe(members)
    if is_overflow(text, name):
        return ContextOverflowError(f"{where} reports: {text}")
    if name in ("authentication_error", "permission_error"):
        return ModelAuthError(f"{where} reports: {text}. Check the API key")
    if name == "invalid_request_error":
        return ModelRequestError(f"{where} reports: {text}")
    return ModelUnavailableError(f"{where} reports: {text or name or 'an error'}")


def read_document(body: bytes, headers: Mapping[str, str], where: str) -> dict[str, Any]:
    """The JSON object in a response with status 200.

    Raises:
        ModelReplyError: It is a web page, cut, or no object.
    """
    try:
        document = json.loads(body)
    except (ValueError, RecursionError) as error:
        is_page = "html" in headers.get("content-type", "") or body.lstrip()[:1] == b"<"
        what = "a web page" if is_page else f"no whole JSON ({error})"
        raise ModelReplyError(
            f"{where} answered 200 with {what}: {_shorten(body)!r}."
            " Check that the base URL is a model's endpoint"
        ) from error
    if not isinstance(document, dict):
        raise ModelReplyError(f"{where} answered 200 with JSON that is no object: {_shorten(body)}")
    return document


def is_overflow(text: str, code: str | None = None) -> bool:
    """Whether a refusal means that the prompt, or prompt and completion, do not fit.

    Knows the forms of OpenAI, Anthropic, Google, vLLM, SGLang, llama.cpp and some others.
    """
    return code in _OVERFLOW_CODES or _OVERFLOW.search(text) is not None


def read_retry_after(headers: Mapping[str, str]) -> float | None:
    """Seconds that ``retry-after-ms`` or ``retry-after`` asks to wait; None without one."""
    for name, scale in (("retry-after-ms", 0.001), ("retry-after", 1.0)):
        try:
            return max(0.0, float(headers[name]) * scale)
        except (KeyError, ValueError):
            continue
    try:
        until = parsedate_to_datetime(headers["retry-after"])
        if until.tzinfo is None:
            until = until.replace(tzinfo=UTC)
        return max(0.0, (until - datetime.now(UTC)).total_seconds())
    except (KeyError, ValueError, OverflowError):
        return None


def _read_problem(body: bytes) -> tuple[str, str | None]:
    try:
        document = json.loads(body)
    except (ValueError, RecursionError):
        return _shorten(body), None
    while isinstance(document, list) and document:  # Google wraps its errors in a list.
        document = document[0]
    if not isinstance(document, dict):
        return _shorten(body), None
    text, code = _describe(document.get("error", document))
    return text or _shorten(body), code


def _describe(problem: Any) -> tuple[str, str | None]:
    """An error's message, and the name of its kind."""
    if not isinstance(problem, dict):
        return str(problem), None
    text = problem.get("message") or problem.get("detail") or ""
    names = (problem.get("code"), problem.get("type"), problem.get("status"))
    name = next((each for each in names if isinstance(each, str)), None)
    if not isinstance(text, str):
        text = json.dumps(text)
    return text[: 4 * _SHOWN_CHARS], name


def _shorten(body: bytes) -> str:
    text = body[: 4 * _SHOWN_CHARS].decode(errors="replace").strip()
    return text if len(text) <= _SHOWN_CHARS else text[:_SHOWN_CHARS] + "…"
