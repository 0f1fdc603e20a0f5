"""How tokens look, and how they are read from a request."""

import base64

import pytest

from strop_hub.errors import InvalidTokenError
from strop_hub.tokens import digest_of, new_token, read_authorization, shown_prefix


def basic(user: str, password: str) -> str:
    return "Basic " + base64.b64encode(f"{user}:{password}".encode()).decode()


def test_tokens_differ_and_are_recognised_by_their_prefix() -> None:
    tokens = {new_token() for _ in range(100)}

    assert len(tokens) == 100
    assert all(token.startswith("strop_") for token in tokens)
    assert all(len(token) == len("strop_") + 43 + 6 for token in tokens)
    assert len({digest_of(token) for token in tokens}) == 100


def test_only_the_beginning_of_a_token_is_shown() -> None:
    token = new_token()

    assert token.startswith(shown_prefix(token))
    assert len(shown_prefix(token)) == 12


@pytest.mark.parametrize("scheme", ["Bearer ", "bearer  ", "BEARER "])
def test_a_bearer_token_is_read(scheme: str) -> None:
    token = new_token()

    assert read_authorization(f"{scheme}{token} ") == token


def test_packaging_clients_send_it_as_a_password() -> None:
    token = new_token()

    assert read_authorization(basic("__token__", token)) == token


@pytest.mark.parametrize(
    ("header", "hint"),
    [
        ("", "scheme"),
        ("Digest abc", "Bearer TOKEN"),
        ("Bearer", "mistyped"),
        ("Bearer hunter2", "mistyped"),
        (f"Bearer {new_token()[:-1]}", "mistyped"),
        ("Bearer strop_" + "x" * 49, "mistyped"),
        ("Basic ???", "base64"),
        ("Basic " + base64.b64encode(b"\xff:\xff").decode(), "base64"),
        (basic("ada", "secret"), "__token__"),
        (basic("__token__", "secret"), "mistyped"),
    ],
)
def test_what_is_no_token_is_refused_and_not_repeated(header: str, hint: str) -> None:
    with pytest.raises(InvalidTokenError, match=hint) as caught:
        read_authorization(header)

    assert "secret" not in str(caught.value)
    assert "hunter2" not in str(caught.value)
