"""Proxies from the environment: which address goes through which, and how."""

from __future__ import annotations

import base64
import ssl

import pytest
import trustme

from strop.errors import ConfigError, ModelAuthError, ModelUnavailableError
from strop.models.http import HttpPool, Proxies, Request, Url
from strop.models.http.proxy import Proxy
from strop.models.openai import OpenAIModel
from strop.models.retry import NO_RETRIES
from tests.model_server import ModelServer
from tests.sdk.models.conftest import ask
from tests.sdk.models.http.peers import ProxyServer, listening, saying


@pytest.fixture(autouse=True)
def no_proxies(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "NO_PROXY"):
        monkeypatch.delenv(name, raising=False)
        monkeypatch.delenv(name.lower(), raising=False)


async def test_plain_calls_go_through_the_proxy(
    server: ModelServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    proxy = ProxyServer(server.port)
    async with listening(proxy.talk) as port:
        monkeypatch.setenv("HTTP_PROXY", f"http://127.0.0.1:{port}")
        async with HttpPool() as pool:
            response = await pool.fetch(Request("GET", Url.parse("http://model.test/v1/models")))

    assert response.status == 200
    assert proxy.requests == ["GET http://model.test/v1/models HTTP/1.1"]
    assert server.calls[0].headers["host"] == "model.test"


async def test_encrypted_calls_go_through_a_tunnel(monkeypatch: pytest.MonkeyPatch) -> None:
    authority = trustme.CA()
    served, trusted = (
        ssl.create_default_context(ssl.Purpose.CLIENT_AUTH),
        ssl.create_default_context(),
    )
    authority.issue_cert("model.test").configure_cert(served)
    authority.configure_trust(trusted)
    async with ModelServer(tls=served) as server:
        proxy = ProxyServer(server.port)
        async with listening(proxy.talk) as port:
            monkeypatch.setenv("HTTPS_PROXY", f"http://127.0.0.1:{port}")
            async with HttpPool(tls=trusted) as pool:
                model = OpenAIModel("tiny", "https://model.test/v1", pool=pool)
                for _ in range(2):
                    assert (await model.complete(*ask())).text == "olleh"

    assert proxy.requests == ["CONNECT model.test:443 HTTP/1.1"]


@pytest.mark.parametrize("scheme", ["http", "https"])
async def test_the_proxys_password_is_sent_and_asked_for(
    server: ModelServer, monkeypatch: pytest.MonkeyPatch, scheme: str
) -> None:
    secret = "Basic " + base64.b64encode(b"ada:p@ss").decode()
    proxy = ProxyServer(server.port, authorization=secret)
    async with listening(proxy.talk) as port:
        monkeypatch.setenv("HTTP_PROXY", f"http://ada:p%40ss@127.0.0.1:{port}")
        monkeypatch.setenv("HTTPS_PROXY", f"http://127.0.0.1:{port}")
        async with HttpPool() as pool:
            request = Request("GET", Url.parse(f"{scheme}://model.test/"))
            if scheme == "http":
                assert (await pool.fetch(request)).status == 200
            else:
                with pytest.raises(ModelAuthError, match="user and password"):
                    await pool.fetch(request)


@pytest.mark.parametrize(
    ("answer", "cause"),
    [
        (b"HTTP/1.1 502 Bad Gateway\r\n\r\n", "answered CONNECT with 502"),
        (b"SSH-2.0-OpenSSH\r\n\r\n", "does not answer in HTTP"),
        (b"", "closed the connection"),
    ],
)
async def test_a_proxy_that_opens_no_tunnel_is_named(
    monkeypatch: pytest.MonkeyPatch, answer: bytes, cause: str
) -> None:
    async with listening(saying(answer)) as port:
        monkeypatch.setenv("HTTPS_PROXY", f"http://127.0.0.1:{port}")
        async with HttpPool() as pool:
            with pytest.raises(ModelUnavailableError, match=cause):
                await pool.fetch(Request("GET", Url.parse("https://model.test/")))

            assert pool.open_count == 0


async def test_a_proxy_that_is_down_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    async with listening(ProxyServer(0).talk) as port:
        pass
    monkeypatch.setenv("ALL_PROXY", f"http://127.0.0.1:{port}")
    model = OpenAIModel("tiny", "https://model.test", retry=NO_RETRIES)
    try:
        with pytest.raises(
            ModelUnavailableError, match=f"through the proxy http://127.0.0.1:{port}"
        ):
            await model.complete(*ask())
    finally:
        await model.close()


@pytest.mark.parametrize(
    ("address", "is_direct"),
    [
        ("http://127.0.0.1:8000/", True),
        ("http://[::1]:8000/", True),
        ("http://localhost/", True),
        ("https://model.internal/", True),
        ("https://a.model.internal/", True),
        ("https://notmodel.internal/", False),
        ("http://10.1.2.3/", True),
        ("http://11.1.2.3/", False),
        ("http://model.test:8080/", True),
        ("http://model.test:8081/", False),
        ("https://dotted.example/", True),
        ("https://sub.dotted.example/", True),
    ],
)
def test_exceptions_name_hosts_suffixes_ports_and_networks(
    monkeypatch: pytest.MonkeyPatch, address: str, is_direct: bool
) -> None:
    monkeypatch.setenv("ALL_PROXY", "proxy.test:3128")
    monkeypatch.setenv("NO_PROXY", "model.internal, 10.0.0.0/8, model.test:8080, .dotted.example")

    assert (Proxies.from_environment().of(Url.parse(address)) is None) is is_direct


def test_a_star_excepts_everything(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HTTPS_PROXY", "http://proxy.test:3128")
    monkeypatch.setenv("NO_PROXY", "*")

    assert Proxies.from_environment().of(Url.parse("https://model.test/")) is None


@pytest.mark.parametrize("text", ["socks5://proxy.test:1080", "http://", "ftp://proxy.test"])
def test_a_proxy_of_another_kind_is_refused(text: str) -> None:
    with pytest.raises(ConfigError, match="HTTPS_PROXY"):
        Proxy.parse(text)
