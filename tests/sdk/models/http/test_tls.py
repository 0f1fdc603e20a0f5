"""TLS: authorities from the environment, and strangers refused."""

from __future__ import annotations

import ssl
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
import trustme

from strop.errors import ModelRequestError, ModelUnavailableError
from strop.models.http import HttpPool, Limits, Proxies, Request, Url
from tests.model_server import ModelServer
from tests.sdk.models.http.peers import listening, saying


@pytest.fixture
def authority() -> trustme.CA:
    return trustme.CA()


@pytest.fixture
async def tls_server(authority: trustme.CA) -> AsyncIterator[ModelServer]:
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    authority.issue_cert("127.0.0.1", "model.test").configure_cert(context)
    async with ModelServer(tls=context) as server:
        yield server


def models_of(server: ModelServer) -> Request:
    return Request("GET", Url.parse(f"{server.base_url}/models"))


async def test_an_authority_named_in_the_environment_is_trusted(
    tls_server: ModelServer,
    authority: trustme.CA,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    authority.cert_pem.write_to_path(str(tmp_path / "ca.pem"))
    monkeypatch.setenv("SSL_CERT_FILE", str(tmp_path / "ca.pem"))

    async with HttpPool(proxies=Proxies()) as pool:
        for _ in range(3):
            assert (await pool.fetch(models_of(tls_server))).status == 200

    assert tls_server.connection_count == 1


async def test_a_stranger_is_refused_with_what_to_do(
    tls_server: ModelServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("SSL_CERT_FILE", raising=False)
    async with HttpPool(proxies=Proxies()) as pool:
        with pytest.raises(ModelRequestError, match="SSL_CERT_FILE"):
            await pool.fetch(models_of(tls_server))

        assert pool.open_count == 0


async def test_a_certificate_for_another_name_is_refused(authority: trustme.CA) -> None:
    served = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    authority.issue_cert("other.test").configure_cert(served)
    trusted = ssl.create_default_context()
    authority.configure_trust(trusted)
    pool = HttpPool(proxies=Proxies(), tls=trusted)
    async with ModelServer(tls=served) as server, pool:
        with pytest.raises(ModelRequestError, match="not trusted"):
            await pool.fetch(models_of(server))


async def test_https_to_a_plain_port_is_said(authority: trustme.CA) -> None:
    pool = HttpPool(Limits(connect_s=1), proxies=Proxies())
    async with listening(saying(b"HTTP/1.1 400 Bad\r\n\r\n")) as port, pool:
        with pytest.raises(ModelUnavailableError, match=r"https://127\.0\.0\.1"):
            await pool.fetch(Request("GET", Url.parse(f"https://127.0.0.1:{port}/")))
