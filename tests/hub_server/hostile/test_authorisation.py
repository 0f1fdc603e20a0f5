"""Every kind of token at every route that needs one, against the rules written down anew."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx
import pytest

from strop.hub.wire import Scope
from strop_hub import admin
from strop_hub.models import Role
from strop_hub.tokens import new_token
from tests.factories import an_upload
from tests.hub_server.checks.report import a_report
from tests.hub_server.hostile.conformity import Description
from tests.hub_server.running_hub import RunningHub, run_hub

ALL_BUT_ADMIN = (Scope.READ, Scope.CREATE, Scope.PUBLISH, Scope.YANK)
ABSENT = "99.9"
"""No version has this number: whoever may act is told so, and nothing is changed."""

_PUBLISHERS = {Role.OWNER, Role.PUBLISHER}
ROLES = {
    Scope.CREATE: _PUBLISHERS,
    Scope.PUBLISH: _PUBLISHERS,
    Scope.YANK: _PUBLISHERS,
    Scope.ADMIN: {Role.OWNER},
}


@dataclass(frozen=True)
class Operation:
    """A route, and who may use it."""

    method: str
    path: str
    scope: Scope
    body: tuple[tuple[str, Any], ...] = ()
    is_for_admins_too: bool = False
    is_for_admins_only: bool = False

    def send(self, client: httpx.Client, environment: str) -> httpx.Response:
        """Ask for it, about a version that is not there."""
        path = f"/api/v1/environments/{environment}{self.path}"
        return client.request(self.method, path, json=dict(self.body) or None)


_VERSION = f"/versions/{ABSENT}"
_WHY = (("reason", "x"),)
OPERATIONS = {
    "show_environment": Operation("GET", "", Scope.READ),
    "list_versions": Operation("GET", "/versions", Scope.READ),
    "show_version": Operation("GET", _VERSION, Scope.READ),
    "download_file": Operation("GET", f"{_VERSION}/files/maze.whl", Scope.READ),
    "list_tags": Operation("GET", "/tags", Scope.READ),
    "show_tag": Operation("GET", "/tags/never", Scope.READ),
    "yank": Operation("POST", f"{_VERSION}/yank", Scope.YANK, _WHY),
    "unyank": Operation("DELETE", f"{_VERSION}/yank", Scope.YANK),
    "quarantine_version": Operation("POST", f"{_VERSION}/quarantine", Scope.YANK, _WHY, True),
    "release_version": Operation("DELETE", f"{_VERSION}/quarantine", Scope.YANK, (), True),
    "set_status": Operation("PUT", "/status", Scope.YANK, (("status", "active"),), True),
    "close_version": Operation("POST", f"{_VERSION}/close", Scope.PUBLISH),
    "list_checks": Operation("GET", f"{_VERSION}/checks", Scope.READ),
    "report_check": Operation(
        "POST", f"{_VERSION}/checks", Scope.PUBLISH, tuple(a_report("0" * 64).items())
    ),
    "set_tag": Operation("PUT", "/tags/stable", Scope.PUBLISH, (("version", ABSENT),)),
    "remove_tag": Operation("DELETE", "/tags/never", Scope.PUBLISH),
    "delete_version": Operation("DELETE", _VERSION, Scope.ADMIN, (), True),
    "purge": Operation(
        "POST", "/purge", Scope.ADMIN, (("version", ABSENT), ("reason", "x")), True, True
    ),
}
ELSEWHERE = {
    *("show_liveness", "show_readiness", "show_caller", "list_environments", "list_changes"),
    *("resolve_references", "push", "upload_file", "upload_owners_file", "delete_environment"),
}
"""About no single environment, or tested below; what is new is sorted in by its own tests."""


@dataclass(frozen=True)
class Holder:
    """A token, and what its holder is to the environments' owner."""

    token: str | None
    role: Role | None = None
    scopes: tuple[Scope, ...] = ()
    limit: str | None = None
    is_hub_admin: bool = False

    def reaches(self, environment: str) -> bool:
        """Whether the limit includes the environment."""
        return self.limit in (None, environment, environment.partition("/")[0])

    def has(self, scope: Scope) -> bool:
        """Whether the token is for this."""
        return scope in self.scopes or Scope.ADMIN in self.scopes

    @property
    def acts_for_the_hub(self) -> bool:
        """Whether the holder administers with this token."""
        return self.is_hub_admin and Scope.ADMIN in self.scopes and self.limit is None

    def expected(self, operation: Operation, environment: str, *, is_private: bool) -> str:
        """What the rules say."""
        sees = self.has(Scope.READ) or self.has(operation.scope)
        is_members = self.role is not None and self.reaches(environment)
        if is_private and not (sees and (is_members or self.acts_for_the_hub)):
            return "hidden"
        if operation.method == "GET":
            return "allowed"
        if operation.is_for_admins_too and self.acts_for_the_hub:
            return "allowed"
        if self.token is None:
            return "unauthenticated"
        may = self.role in ROLES[operation.scope] and self.has(operation.scope)
        if not may or not self.reaches(environment) or operation.is_for_admins_only:
            return "forbidden"
        return "allowed"


@dataclass(frozen=True)
class Lab:
    """An organisation with a public and a private environment, and holders of all kinds."""

    owner: str
    holders: Sequence[Holder]

    def environment(self, *, is_private: bool) -> str:
        """The full name of one of the two."""
        return f"{self.owner}/{'hidden' if is_private else 'shown'}"


_labs: dict[str, Lab] = {}


@pytest.fixture
def lab(hub: RunningHub, tmp_path: Path) -> Lab:
    # One for each hub: nothing that follows changes it, and its tokens take seconds to make.
    if hub.url not in _labs:
        _labs[hub.url] = make_lab(hub, tmp_path)
    return _labs[hub.url]


def make_lab(hub: RunningHub, folder: Path) -> Lab:
    founder, _ = hub.new_user()
    owner = admin.organisation_add(hub.settings, f"lab-of-{founder}", founder)
    token = hub.new_token(founder)
    for name, visibility in (("shown", "public"), ("hidden", "private")):
        upload = an_upload(folder, name=name)
        assert hub.push(token, owner, upload, visibility=visibility).status_code == 201
    holders = [Holder(None)]
    kinds = [(scope,) for scope in Scope] + [ALL_BUT_ADMIN]
    for role in (Role.OWNER, Role.PUBLISHER, Role.READER, None):
        user = founder if role is Role.OWNER else hub.new_user()[0]
        if role is not None:
            admin.member_set(hub.settings, owner, user, role)
        # Refusals are written down, which takes its time: who may little is asked less.
        for scopes in kinds if role in _PUBLISHERS else kinds[-2:]:
            holders.append(Holder(hub.new_token(user, scopes=list(scopes)), role, scopes))
    limits = (owner, f"{owner}/hidden", f"{owner}/shown", f"{owner}/other", founder)
    for limit in limits:
        scopes = (Scope.ADMIN,) if limit == owner else ALL_BUT_ADMIN
        limited = hub.new_token(founder, scopes=list(scopes), limited_to=limit)
        holders.append(Holder(limited, Role.OWNER, scopes, limit))
    for scopes, of_limit in (
        ((Scope.ADMIN,), None),
        (ALL_BUT_ADMIN, None),
        ((Scope.ADMIN,), "root"),
        ((Scope.ADMIN,), owner),
    ):
        of_root = hub.new_token("root", scopes=list(scopes), limited_to=of_limit)
        holders.append(Holder(of_root, None, scopes, of_limit, is_hub_admin=True))
    return Lab(owner, holders)


def outcome_of(response: httpx.Response) -> str:
    if response.status_code in (401, 403):
        return {401: "unauthenticated", 403: "forbidden"}[response.status_code]
    if response.status_code == 404:
        is_hidden = "not on this hub, or not visible to you" in response.json()["detail"]
        return "hidden" if is_hidden else "allowed"
    assert response.status_code == 200, response.text
    return "allowed"


@pytest.mark.parametrize("is_private", [False, True], ids=["public", "private"])
@pytest.mark.parametrize("name", OPERATIONS)
def test_a_route_lets_in_whom_the_rules_let_in(
    hub: RunningHub, lab: Lab, name: str, is_private: bool
) -> None:
    operation, environment = OPERATIONS[name], lab.environment(is_private=is_private)
    differing = []
    with hub.client() as client:
        for holder in lab.holders:
            client.headers["authorization"] = f"Bearer {holder.token}"
            if holder.token is None:
                del client.headers["authorization"]
            found = outcome_of(operation.send(client, environment))
            expected = holder.expected(operation, environment, is_private=is_private)
            if found != expected:
                differing.append((holder, expected, found))

    assert differing == []


@pytest.mark.parametrize("name", OPERATIONS)
def test_a_false_token_is_refused_even_where_none_is_needed(
    hub: RunningHub, lab: Lab, name: str
) -> None:
    for is_private in (False, True):
        with hub.client(new_token()) as client:
            response = OPERATIONS[name].send(client, lab.environment(is_private=is_private))
        assert (response.status_code, response.json()["code"]) == (401, "token_invalid")


def test_every_route_about_an_environment_is_in_the_table(hub: RunningHub) -> None:
    operations = Description(hub.get("/openapi.json").json()).operations

    about_one = {
        name
        for name, (_, path, _) in operations.items()
        if path.startswith("/api/v1/environments/{owner}/{name}")
    }

    assert about_one - ELSEWHERE - set(OPERATIONS) <= {"transfer_environment", "end_redirect"}
    assert set(OPERATIONS) <= set(operations)


@pytest.mark.parametrize("is_private", [False, True], ids=["public", "private"])
def test_publishing_takes_a_role_a_scope_and_a_limit_that_reaches(
    hub: RunningHub, lab: Lab, tmp_path: Path, is_private: bool
) -> None:
    environment = lab.environment(is_private=is_private)
    name = environment.partition("/")[2]
    # The bytes of a published version under its number: whoever may publish is told of it.
    upload = an_upload(tmp_path, name=name, tree={"other.py": "x"})
    for holder in lab.holders:
        response = hub.push(holder.token, lab.owner, upload)
        may = holder.role in _PUBLISHERS and holder.has(Scope.PUBLISH)
        if holder.token is None:
            assert response.status_code == 401
        elif may and holder.reaches(environment):
            assert (response.status_code, response.json()["code"]) == (409, "version_exists")
        else:
            assert response.status_code == 403, (holder, response.text)


def test_a_limited_token_learns_from_no_refusal_what_else_there_is(
    hub: RunningHub, tmp_path: Path
) -> None:
    owner, token = hub.new_user()
    hidden = an_upload(tmp_path / "1", name="hidden")
    assert hub.push(token, owner, hidden, visibility="private").status_code == 201
    absent = an_upload(tmp_path / "2", name="absent")

    for scopes in ([Scope.CREATE], [Scope.PUBLISH], [Scope.CREATE, Scope.PUBLISH], [Scope.ADMIN]):
        limited = hub.new_token(owner, scopes=scopes, limited_to=f"{owner}/mine")
        refusals = [hub.push(limited, owner, upload) for upload in (hidden, absent)]
        details = {
            refusal.json()["detail"].replace("hidden", "X").replace("absent", "X")
            for refusal in refusals
        }
        assert {refusal.status_code for refusal in refusals} == {403}
        assert len(details) == 1


def test_only_administrators_read_the_whole_feed(hub: RunningHub, lab: Lab) -> None:
    for holder in lab.holders:
        with hub.client(holder.token) as client:
            whole = client.get("/api/v1/changes?whole=true&limit=1")
            public = client.get("/api/v1/changes?limit=1000")
        assert whole.status_code == (200 if holder.acts_for_the_hub else 403)
        assert lab.environment(is_private=True) not in [
            f"{change['owner']}/{change['name']}" for change in public.json()["items"]
        ]


def test_the_listing_of_each_holder_is_what_the_rules_say(hub: RunningHub, lab: Lab) -> None:
    read = Operation("GET", "", Scope.READ)
    for holder in lab.holders:
        with hub.client(holder.token) as client:
            page = client.get(f"/api/v1/environments?owner={lab.owner}").json()
            catalog = client.get(f"/?owner={lab.owner}").text
        seen = {item["name"] for item in page["items"]}
        hidden = lab.environment(is_private=True)
        may_see = holder.expected(read, hidden, is_private=True) == "allowed"
        assert seen == ({"shown", "hidden"} if may_see else {"shown"}), holder
        assert (f"/{hidden}" in catalog) is may_see


@pytest.mark.embedded
def test_a_token_ends_at_its_hour_and_not_before(hub_data: Path) -> None:
    with run_hub(hub_data) as hub:
        owner, token = hub.new_user()
        with admin.open_hub(hub.settings) as parts:
            connection = parts.database.engine.raw_connection()
            newest = "(SELECT max(id) FROM tokens)"
            text = f"UPDATE tokens SET expires_at = datetime('now', ?) WHERE id = {newest}"
            for shift, status in (("+1 hour", 200), ("-1 second", 401), ("+2 seconds", 200)):
                connection.execute(text, (shift,))
                connection.commit()
                assert hub.get("/api/v1/whoami", token).status_code == status, (owner, shift)
            connection.close()
