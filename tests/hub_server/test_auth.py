"""Who is recognised, who is told what, and who sees which environments."""

import base64
from datetime import timedelta
from pathlib import Path

import httpx
import pytest
from sqlalchemy import select, update
from sqlalchemy.orm import Session

from strop.hub.wire import Scope
from strop_hub import admin
from strop_hub.accounts.service import find_user
from strop_hub.db import now
from strop_hub.models import Role, Token, User
from strop_hub.tokens import digest_of, new_token
from tests.factories import an_upload
from tests.hub_server.running_hub import RunningHub, run_hub
from tests.hub_server.test_push import assert_refused

WHOAMI = "/api/v1/whoami"


def change_token(hub: RunningHub, token: str, **values: object) -> None:
    with admin.open_hub(hub.settings) as parts:
        parts.database.write(
            lambda session: session.execute(
                update(Token).where(Token.digest == digest_of(token)).values(**values)
            )
        )


def test_whoami_tells_what_the_token_is_worth(hub: RunningHub) -> None:
    owner, _ = hub.new_user()
    lab = admin.organisation_add(hub.settings, f"a-lab-of-{owner}", owner)
    other, _ = hub.new_user()
    readable = admin.organisation_add(hub.settings, f"readable-{owner}", other)
    admin.member_set(hub.settings, readable, owner, Role.READER)
    token = hub.new_token(owner, scopes=[Scope.READ, Scope.PUBLISH], limited_to=lab, days=10)

    found = hub.get(WHOAMI, token).json()

    assert found["user"] == owner
    assert found["owners"] == [owner, lab]
    assert found["scopes"] == ["publish", "read"]
    assert found["limited_to"] == lab
    assert not found["is_admin"]
    assert found["expires_at"] > now().isoformat()


def test_pip_style_credentials_are_recognised(hub: RunningHub) -> None:
    owner, token = hub.new_user()
    password = base64.b64encode(f"__token__:{token}".encode()).decode()

    response = httpx.get(hub.url + WHOAMI, headers={"authorization": f"Basic {password}"})

    assert response.json()["user"] == owner


def test_the_three_refusals_of_credentials_are_told_apart(hub: RunningHub, tmp_path: Path) -> None:
    owner, expired = hub.new_user()
    change_token(hub, expired, expires_at=now() - timedelta(days=1))
    upload = an_upload(tmp_path)

    for token, code in (
        (None, "token_missing"),
        (new_token(), "token_invalid"),
        ("strop_mistyped", "token_invalid"),
        (expired, "token_expired"),
    ):
        for response in (hub.get(WHOAMI, token), hub.push(token, owner, upload)):
            detail = assert_refused(response, 401, code)
            assert "Basic" in response.headers["www-authenticate"]
            assert "strop " in detail or "STROP_TOKEN" in detail


def test_a_revoked_token_and_a_disabled_users_token_are_worth_nothing(hub: RunningHub) -> None:
    owner, revoked = hub.new_user()
    _, disabled = hub.new_user()
    admin.token_revoke(hub.settings, revoked)
    with admin.open_hub(hub.settings) as parts:

        def disable(session: Session) -> None:
            token = session.scalars(select(Token).where(Token.digest == digest_of(disabled))).one()
            session.get_one(User, token.user_id).is_disabled = True

        parts.database.write(disable)

    assert_refused(hub.get(WHOAMI, revoked), 401, "token_invalid")
    assert_refused(hub.get(WHOAMI, disabled), 401, "token_invalid")
    assert hub.get(WHOAMI, hub.new_token(owner)).status_code == 200


def test_a_token_revoked_while_the_upload_runs_publishes_nothing(
    hub: RunningHub, tmp_path: Path
) -> None:
    owner, token = hub.new_user()
    upload = an_upload(tmp_path)
    request = httpx.Request("POST", hub.url, **upload.form())
    body = request.read()

    def revoking() -> object:
        yield body[:100]
        admin.token_revoke(hub.settings, token)
        yield body[100:]

    headers = {"content-type": request.headers["content-type"]}
    with hub.client(token) as client:
        path = f"/api/v1/owners/{owner}/versions"
        response = client.post(path, content=revoking(), headers=headers)  # type: ignore[arg-type]

    assert_refused(response, 401, "token_invalid")
    assert hub.get(f"/api/v1/environments/{owner}/maze").status_code == 404


def test_a_role_taken_away_is_gone_at_once(hub: RunningHub, tmp_path: Path) -> None:
    owner, _ = hub.new_user()
    member, token = hub.new_user()
    lab = admin.organisation_add(hub.settings, f"lab-of-{owner}", owner)
    admin.member_set(hub.settings, lab, member, Role.PUBLISHER)
    assert hub.push(token, lab, an_upload(tmp_path)).status_code == 201

    admin.member_set(hub.settings, lab, member, None)

    refused = hub.push(token, lab, an_upload(tmp_path, version="0.2.0"))
    assert_refused(refused, 403, "forbidden")


@pytest.fixture
def private(hub: RunningHub, tmp_path: Path) -> tuple[str, str]:
    """An owner of the private environments `one` and `two`, and a token of all scopes."""
    owner, token = hub.new_user()
    for name in ("one", "two"):
        upload = an_upload(tmp_path, name=name)
        assert hub.push(token, owner, upload, visibility="private").status_code == 201
    return owner, token


def seen(hub: RunningHub, owner: str, token: str | None) -> set[str]:
    items = hub.get(f"/api/v1/environments?owner={owner}", token).json()["items"]
    return {item["name"] for item in items}


def test_private_environments_are_seen_by_members_with_a_reading_token(
    hub: RunningHub, private: tuple[str, str]
) -> None:
    owner, token = private
    _, stranger = hub.new_user()

    assert seen(hub, owner, token) == {"one", "two"}
    assert seen(hub, owner, hub.new_token(owner, scopes=[Scope.READ])) == {"one", "two"}
    assert seen(hub, owner, hub.new_token(owner, scopes=[Scope.PUBLISH])) == set()
    assert seen(hub, owner, stranger) == set()
    assert seen(hub, owner, None) == set()


def test_a_limited_token_sees_no_further_than_its_limit(
    hub: RunningHub, private: tuple[str, str]
) -> None:
    owner, _ = private
    other, _ = hub.new_user()

    assert seen(hub, owner, hub.new_token(owner, limited_to=owner)) == {"one", "two"}
    assert seen(hub, owner, hub.new_token(owner, limited_to=f"{owner}/one")) == {"one"}
    assert seen(hub, owner, hub.new_token(owner, limited_to=f"{other}/one")) == set()
    assert seen(hub, owner, hub.new_token(owner, limited_to=other)) == set()


def test_an_administrator_sees_everything_with_a_token_of_that_scope_only(
    hub: RunningHub, private: tuple[str, str]
) -> None:
    owner, _ = private
    reading = hub.new_token("root", scopes=[Scope.READ])
    limited = hub.new_token("root", scopes=[Scope.ADMIN], limited_to="root")

    assert seen(hub, owner, hub.admin_token) == {"one", "two"}
    assert seen(hub, owner, reading) == set()
    assert seen(hub, owner, limited) == set()


def test_using_a_token_is_noted_when_the_hub_writes_its_batch(hub_data: Path) -> None:
    with run_hub(hub_data) as hub:
        owner, token = hub.new_user()
        hub.get(WHOAMI, token)
        assert hub.stop() in (0, -15)
    with admin.open_hub(hub.settings) as parts, parts.database.read() as session:
        user = find_user(session, owner)
        row = session.scalars(select(Token).where(Token.user_id == user.id)).one()
        assert row.last_used_at is not None
        assert row.last_used_at.tzinfo is not None
