"""TLS: authorities from the environment, and strangers refused."""

from __future__ import annotations

import ssl
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
import trustme

from strop.errors import ModelAuthError, ModelRequestError, ModelUnavailableError
from strop.models.http import HttpPool, Limits, Proxies, Request, Url
from tests.model_server import Fault, ModelServer
from tests.sdk.models.http.peers import listening, ok, saying, telling_why


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


def demanding(authority: trustme.CA, version: ssl.TLSVersion) -> ssl.SSLContext:
    """A server's TLS that lets in only those with a certificate of the authority."""
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    authority.issue_cert("127.0.0.1").configure_cert(context)
    authority.configure_trust(context)
    context.verify_mode = ssl.CERT_REQUIRED
    context.maximum_version = version
    return context


def showing(authority: trustme.CA, issuer: trustme.CA | None) -> HttpPool:
    """A client that trusts `authority` and has a certificate of `issuer`, or none."""
    context = ssl.create_default_context()
    authority.configure_trust(context)
    if issuer is not None:
        issuer.issue_cert("client.test").configure_cert(context)
    return HttpPool(proxies=Proxies(), tls=context)


VERSIONS = [ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3]


@pytest.mark.parametrize("version", VERSIONS, ids=str)
async def test_a_server_that_says_why_it_refuses_a_client_ends_all_tries(
    authority: trustme.CA, version: ssl.TLSVersion
) -> None:
    with telling_why(demanding(authority, version), ok(b"{}")) as port:
        url = Url.parse(f"https://127.0.0.1:{port}/")
        async with showing(authority, authority) as pool:
            assert (await pool.fetch(Request("GET", url))).status == 200
        for issuer, alert in (
            (None, r"HANDSHAKE_FAILURE|CERTIFICATE_REQUIRED"),
            (trustme.CA(), "UNKNOWN_CA"),
        ):
            async with showing(authority, issuer) as pool:
                with pytest.raises(ModelAuthError, match=rf"\(({alert})\).*cert_file") as caught:
                    await pool.fetch(Request("GET", url))
            assert not caught.value.is_retryable


@pytest.mark.parametrize("version", VERSIONS, ids=str)
async def test_a_server_that_hangs_up_on_a_client_without_certificate_is_told_with_what_to_set(
    authority: trustme.CA, version: ssl.TLSVersion
) -> None:
    async with ModelServer(tls=demanding(authority, version)) as server:
        async with showing(authority, authority) as pool:
            assert (await pool.fetch(models_of(server))).status == 200
        async with showing(authority, None) as pool:
            with pytest.raises(ModelUnavailableError, match="cert_file, with its key in key_file"):
                await pool.fetch(models_of(server))


async def test_no_certificate_is_spoken_of_where_one_cannot_help(
    tls_server: ModelServer, authority: trustme.CA
) -> None:
    tls_server.faults.append(Fault(body={"data": []}, cut_at=0.5))
    async with showing(authority, None) as pool, ModelServer() as plain:
        plain.faults.append(Fault(is_closed=True))
        for server in (plain, tls_server):
            with pytest.raises(ModelUnavailableError) as caught:
                await pool.fetch(models_of(server))

            assert "cert_file" not in str(caught.value)
