"""Whose address a request has, as far as trusted proxies say so."""

import pytest
from starlette.types import Message, Receive, Scope, Send

from strop.errors import ConfigError
from strop_hub.http.proxies import ProxyMiddleware


async def address_of(peer: str | None, forwarded: list[str], *trusted: str) -> str | None:
    """The address that the hub sees."""
    seen: list[str | None] = []

    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        seen.append(scope["client"][0] if scope["client"] else None)

    async def nothing() -> Message:
        return {"type": "http.request"}

    async def ignore(message: Message) -> None:
        return None

    headers = [(b"x-forwarded-for", text.encode("latin-1")) for text in forwarded]
    client = None if peer is None else (peer, 1)
    scope = {"type": "http", "client": client, "headers": headers}
    await ProxyMiddleware(app, trusted)(scope, nothing, ignore)
    return seen[0]


@pytest.mark.parametrize(
    ("peer", "forwarded", "trusted", "address"),
    [
        pytest.param("10.0.0.1", ["203.0.113.9"], (), "10.0.0.1", id="nobody is trusted"),
        pytest.param("10.0.0.1", ["203.0.113.9"], ("10.0.0.1",), "203.0.113.9", id="one proxy"),
        pytest.param(
            "10.0.0.1",
            ["1.2.3.4, 203.0.113.9, 10.0.0.2"],
            ("10.0.0.0/8",),
            "203.0.113.9",
            id="what stands before the last stranger is hearsay",
        ),
        pytest.param(
            "10.0.0.1",
            ["203.0.113.9", "10.0.0.2"],
            ("10.0.0.0/8",),
            "203.0.113.9",
            id="two headers are one list",
        ),
        pytest.param("192.0.2.1", ["203.0.113.9"], ("10.0.0.0/8",), "192.0.2.1", id="a stranger"),
        pytest.param("10.0.0.1", [], ("10.0.0.0/8",), "10.0.0.1", id="no header"),
        pytest.param("10.0.0.1", ["<script>"], ("10.0.0.0/8",), "10.0.0.1", id="no address"),
        pytest.param("10.0.0.1", ["10.0.0.3"], ("10.0.0.0/8",), "10.0.0.3", id="all are trusted"),
        pytest.param("::1", ["2001:db8::5"], ("::1",), "2001:db8::5", id="version 6"),
        pytest.param(None, ["203.0.113.9"], ("10.0.0.0/8",), None, id="no peer"),
    ],
)
async def test_the_address_is_the_last_that_no_trusted_proxy_has(
    peer: str | None, forwarded: list[str], trusted: tuple[str, ...], address: str | None
) -> None:
    assert await address_of(peer, forwarded, *trusted) == address


def test_a_setting_that_is_no_address_is_refused() -> None:
    with pytest.raises(ConfigError, match=r"'proxy\.example'"):
        ProxyMiddleware(lambda *_: None, ["proxy.example"])  # type: ignore[arg-type]
