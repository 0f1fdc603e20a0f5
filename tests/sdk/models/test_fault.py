"""Refusals become the error that says what may be done about them."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime
from typing import Any

import pytest

from strop.errors import (
    ContextOverflowError,
    ModelAuthError,
    ModelError,
    ModelReplyError,
    ModelRequestError,
    ModelUnavailableError,
)
from strop.models.fault import embedded_refusal, read_document, read_retry_after, refusal

WHERE = "POST http://model.test/v1/chat/completions"


def refuse(status: int, body: Any, **headers: str) -> ModelError:
    content = body if isinstance(body, bytes) else json.dumps(body).encode()
    return refusal(status, headers, content, WHERE)


def error(message: str, **members: Any) -> dict[str, Any]:
    return {"error": {"message": message, **members}}


OVERFLOWS = {
    "OpenAI": "This model's maximum context length is 8192 tokens. However, your messages resulted"
    " in 9001 tokens.",
    "OpenAI Responses": "Your input exceeds the context window of this model.",
    "Anthropic": "prompt is too long: 213462 tokens > 200000 maximum",
    "Anthropic with max_tokens": "input length and `max_tokens` exceed context limit: 190000 +"
    " 20000 > 200000, decrease input length or `max_tokens` and try again",
    "Google": "The input token count (1200000) exceeds the maximum number of tokens allowed"
    " (1048576).",
    "vLLM": "This model's maximum context length is 4096 tokens. However, you requested 5000",
    "vLLM, decoder prompt": "The decoder prompt (length 9000) is longer than the maximum model"
    " length of 4096. Make sure that `max_model_len` is no smaller",
    "vLLM, max_tokens": "'max_tokens' is too large: 5000. This model's maximum context length is"
    " 4096 tokens and your request has 10 input tokens",
    "vLLM, context only": "You passed 5000 input tokens. However, the model's context length is"
    " only 4096 tokens.",
    "SGLang": "The input (5000 tokens) is longer than the model's context length (4096 tokens).",
    "SGLang, requested": "Requested token count exceeds the model's maximum context length of"
    " 131072 tokens.",
    "SGLang, length": "Input length (5000 tokens) exceeds the maximum allowed length (4090 tokens)."
    " Use a shorter input or enable --allow-auto-truncate.",
    "llama.cpp": "request (9412 tokens) exceeds the available context size (8192 tokens), try"
    " increasing it",
    "llama.cpp, older": "the request exceeds the available context size. try increasing the context"
    " size or enable context shift",
    "llama.cpp, half-way": "Context size has been exceeded.",
}
"""What each engine says when a prompt does not fit."""


@pytest.mark.parametrize("message", OVERFLOWS.values(), ids=OVERFLOWS.keys())
@pytest.mark.parametrize("status", [400, 413, 422, 500])
@pytest.mark.parametrize("wrapper", ["error", "bare", "list", "detail", "text"])
def test_an_overflow_is_recognised_however_it_is_wrapped(
    message: str, status: int, wrapper: str
) -> None:
    body: Any = {
        "error": error(message, code=status),
        "bare": {"object": "error", "message": message},
        "list": [error(message)],
        "detail": {"detail": message},
        "text": message.encode(),
    }[wrapper]

    assert isinstance(refuse(status, body), ContextOverflowError)


@pytest.mark.parametrize(
    "members", [{"code": "context_length_exceeded"}, {"type": "exceed_context_size_error"}]
)
def test_an_overflow_is_recognised_by_its_code_alone(members: dict[str, Any]) -> None:
    assert isinstance(refuse(400, error("Too much.", **members)), ContextOverflowError)


@pytest.mark.parametrize(
    "body",
    [
        error("Invalid value for 'temperature'."),
        error("`max_tokens` must be at least 1"),
        error("max_tokens: 100000 > 8192, which is the maximum allowed number of output tokens"),
        b"<html>413 Request Entity Too Large</html>",
        b"",
    ],
)
def test_other_refusals_are_no_overflow(body: Any) -> None:
    assert type(refuse(400, body)) is ModelRequestError


@pytest.mark.parametrize(
    ("status", "kind"),
    [
        (301, ModelRequestError),
        (400, ModelRequestError),
        (401, ModelAuthError),
        (403, ModelAuthError),
        (404, ModelRequestError),
        (408, ModelUnavailableError),
        (409, ModelRequestError),
        (422, ModelRequestError),
        (425, ModelUnavailableError),
        (429, ModelUnavailableError),
        (500, ModelUnavailableError),
        (503, ModelUnavailableError),
        (529, ModelUnavailableError),
    ],
)
def test_the_status_decides_what_may_be_done(status: int, kind: type[ModelError]) -> None:
    caught = refuse(status, error("because"), location="http://there.test/")

    assert type(caught) is kind
    assert str(status) in str(caught)
    assert caught.is_retryable is (kind is ModelUnavailableError)


def test_a_message_names_the_address_and_the_cause() -> None:
    assert str(refuse(404, error("model `x` does not exist"))).startswith(
        f"{WHERE} answered 404: model `x` does not exist. Check"
    )


def test_a_long_page_is_shortened() -> None:
    assert len(str(refuse(502, b"<html>" + b"x" * 100_000))) < 700


@pytest.mark.parametrize(
    ("problem", "kind"),
    [
        ({"type": "overloaded_error", "message": "busy"}, ModelUnavailableError),
        ({"type": "authentication_error", "message": "who?"}, ModelAuthError),
        ({"type": "invalid_request_error", "message": "bad"}, ModelRequestError),
        ({"type": "any_error", "message": "prompt is too long: 9"}, ContextOverflowError),
        ({"code": 429, "message": "slow"}, ModelUnavailableError),
        ({"code": 401, "message": "who?"}, ModelAuthError),
        ({"code": "rate_limit_exceeded"}, ModelUnavailableError),
        ("it broke", ModelUnavailableError),
    ],
)  # fmt: skip
def test_an_error_inside_a_good_status_is_an_error(problem: Any, kind: type[ModelError]) -> None:
    assert type(embedded_refusal(problem, WHERE)) is kind


def test_retry_after_is_read_in_every_form() -> None:
    soon = format_datetime(datetime.now(UTC) + timedelta(seconds=30), usegmt=True)

    assert read_retry_after({"retry-after": "7"}) == 7.0
    assert read_retry_after({"retry-after": "0.5"}) == 0.5
    assert read_retry_after({"retry-after-ms": "250", "retry-after": "9"}) == 0.25
    assert read_retry_after({"retry-after": "-3"}) == 0.0
    assert 25.0 < (read_retry_after({"retry-after": soon}) or 0.0) <= 30.0
    assert read_retry_after({"retry-after": "Mon, 01 Jan 2001 00:00:00 GMT"}) == 0.0
    assert read_retry_after({"retry-after": "soon"}) is None
    assert read_retry_after({}) is None


@pytest.mark.parametrize("body", [b"", b"{", b"<!doctype html>", b"[]", b"[" * 100_000, b"\xff"])
def test_what_is_no_object_is_no_reply(body: bytes) -> None:
    with pytest.raises(ModelReplyError):
        read_document(body, {}, WHERE)
