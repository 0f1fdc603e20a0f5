"""Whatever goes wrong is answered as problem+json with the request's id, and tells no more."""

import json
from pathlib import Path

import httpx
import pytest
from fastapi import FastAPI
from sqlalchemy.exc import OperationalError

from strop.hub.refs import EnvRef
from strop_hub.app import create_app
from strop_hub.errors import InvalidPackageError
from strop_hub.migration import migrate
from strop_hub.settings import Settings
from tests.factories import an_upload
from tests.hub_server.running_hub import RunningHub
from tests.hub_server.test_push import assert_refused


@pytest.fixture
def app(tmp_path: Path) -> FastAPI:
    """A hub whose extra routes fail in ways that no route of its own should."""
    app = create_app(Settings.read({}, data=tmp_path / "hub"))
    migrate(app.state.hub.database)

    async def fail() -> None:
        raise RuntimeError("the secret is 42")

    async def lose_database() -> None:
        raise OperationalError("SELECT secret", {}, Exception("gone"))

    async def misname() -> None:
        EnvRef.parse("no reference")

    async def refuse_surrogates() -> None:
        raise InvalidPackageError("bad \ud800 name", problems=["\ud800"])

    for route in (fail, lose_database, misname, refuse_surrogates):
        app.router.add_api_route(f"/probe/{route.__name__}/x", route)
        app.router.routes.insert(0, app.router.routes.pop())
    return app


async def ask(app: FastAPI, path: str) -> httpx.Response:
    transport = httpx.ASGITransport(app=app)
    async with httpx.AsyncClient(transport=transport, base_url="http://hub.test") as client:
        response = await client.get(path)
    app.state.hub.close()
    return response


async def test_an_unexpected_fault_tells_its_id_and_nothing_else(
    app: FastAPI, caplog: pytest.LogCaptureFixture
) -> None:
    response = await ask(app, "/probe/fail/x")

    detail = assert_refused(response, 500, "internal")
    assert "42" not in detail
    assert response.headers["strop-hub"]
    assert response.headers["x-request-id"] in caplog.text
    assert "the secret is 42" in caplog.text


async def test_a_lost_database_is_a_503_without_its_statement(app: FastAPI) -> None:
    response = await ask(app, "/probe/lose_database/x")

    assert "SELECT" not in assert_refused(response, 503, "storage_unavailable")


async def test_a_malformed_reference_is_the_callers_mistake(app: FastAPI) -> None:
    assert_refused(await ask(app, "/probe/misname/x"), 422, "invalid_request")


async def test_text_that_is_no_utf8_is_escaped(app: FastAPI) -> None:
    response = await ask(app, "/probe/refuse_surrogates/x")

    assert "bad \\ud800 name" in assert_refused(response, 422, "invalid_package")


def test_unknown_addresses_and_methods_are_problems(hub: RunningHub) -> None:
    assert_refused(hub.get("/api/v1/spoons"), 404, "not_found")
    response = httpx.delete(f"{hub.url}/healthz")
    assert_refused(response, 405, "method_not_allowed")
    assert response.headers["allow"] == "GET, HEAD"


@pytest.mark.parametrize("is_chunked", [False, True])
def test_a_body_that_is_kept_in_memory_is_limited(hub: RunningHub, is_chunked: bool) -> None:
    body = json.dumps({"references": ["a/b"], "more": "x" * 2_000_000}).encode()
    content = iter([body]) if is_chunked else body

    response = httpx.post(
        f"{hub.url}/api/v1/resolve",
        content=content,
        headers={"content-type": "application/json"},
    )

    assert_refused(response, 413, "too_large")


@pytest.mark.parametrize("body", [b"", b"{", b"[]", b'{"reason": 3}', b"\xff", b'"x"', b"null"])
def test_a_body_of_another_shape_is_refused(hub: RunningHub, tmp_path: Path, body: bytes) -> None:
    owner, token = hub.new_user()
    hub.push(token, owner, an_upload(tmp_path))

    with hub.client(token) as client:
        response = client.post(
            f"/api/v1/environments/{owner}/maze/versions/0.1.0/yank",
            content=body,
            headers={"content-type": "application/json"},
        )

    assert response.status_code in (400, 422)
    assert response.headers["content-type"] == "application/problem+json"
