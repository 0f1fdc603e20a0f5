"""Renamed owners and transferred environments: former names lead to the present ones."""

from pathlib import Path
from typing import Any

import httpx
import pytest

from strop.hub.wire import Scope
from strop_hub import admin
from strop_hub.errors import NameTakenError
from tests.factories import an_upload
from tests.hub_server.author import API, Author, ask
from tests.hub_server.running_hub import RunningHub


@pytest.fixture
def author(hub: RunningHub, tmp_path: Path) -> Author:
    return Author.new(hub, tmp_path)


@pytest.fixture
def team(author: Author) -> str:
    """An organisation of the author's."""
    return admin.organisation_add(author.hub.settings, f"team-{author.owner}", author.owner)


def owning(author: Author) -> str:
    return author.hub.new_token(author.owner, scopes=[Scope.ADMIN])


def call(author: Author, method: str, path: str, token: str = "", **body: Any) -> httpx.Response:
    with author.hub.client(token or owning(author)) as client:
        return client.request(method, path, json=body or None)


def follow(author: Author, path: str, token: str | None = None) -> httpx.Response:
    with author.hub.client(token) as client:
        return client.get(path, follow_redirects=True)


def transfer(author: Author, to: str) -> None:
    response = call(author, "POST", f"{API}/{author.owner}/maze/transfer", owner=to)
    assert response.status_code == 200, response.text
    assert response.json()["owner"] == to


def test_every_door_leads_from_a_renamed_owner_to_its_new_name(author: Author) -> None:
    (version,) = author.publish("maze")
    wheel = next(file for file in version["files"] if file["kind"] == "wheel")
    old, new = author.owner, f"new-{author.owner}"

    renamed = call(author, "POST", f"/api/v1/owners/{old}/rename", name=f"New-{old}")

    assert renamed.json() == {"name": new}, renamed.text
    assert follow(author, f"{API}/{old}/maze").json()["owner"] == new
    assert follow(author, f"/owners/{old}/simple/maze/").url.path == f"/owners/{new}/simple/maze/"
    assert follow(author, f"/{old}/maze").url.path == f"/{new}/maze"
    for url in (httpx.URL(wheel["url"]).path, f"/owners/{old}/files/maze/{wheel['filename']}"):
        assert follow(author, url).headers["etag"] == f'"{wheel["sha256"]}"'
    (item,) = author.resolve(f"{old}/maze@0.1.0")
    assert (item["owner"], item["version"]) == (new, "0.1.0")
    assert item["warnings"] == [f"`{old}/maze` is now `{new}/maze`. Use that name."]
    author.owner = new
    assert call(author, "GET", "/api/v1/whoami").json()["user"] == new
    author.publish("maze", "0.2.0")


def test_a_name_that_an_owner_had_is_nobody_elses(author: Author) -> None:
    old = author.owner
    call(author, "POST", f"/api/v1/owners/{old}/rename", name=f"new-{old}")
    author.owner = f"new-{old}"
    call(author, "DELETE", f"/api/v1/owners/{old}/redirect")

    with pytest.raises(NameTakenError):
        admin.user_add(author.hub.settings, old)
    other, token = author.hub.new_user([Scope.ADMIN])
    taken = call(author, "POST", f"/api/v1/owners/{other}/rename", token, name=old)
    back = call(author, "POST", f"/api/v1/owners/{author.owner}/rename", name=old)

    assert taken.json()["code"] == "name_taken"
    assert back.json() == {"name": old}
    author.owner = old


def test_only_the_owner_ends_where_a_former_name_leads(author: Author) -> None:
    author.publish("maze")
    old = author.owner
    call(author, "POST", f"/api/v1/owners/{old}/rename", name=f"new-{old}")
    author.owner = f"new-{old}"
    _, stranger = author.hub.new_user([Scope.ADMIN])
    path = f"/api/v1/owners/{old}/redirect"

    refused = call(author, "DELETE", path, stranger)
    assert follow(author, f"{API}/{old}/maze").status_code == 200
    ended = call(author, "DELETE", path)

    assert (refused.status_code, ended.status_code) == (403, 204)
    assert follow(author, f"{API}/{old}/maze").status_code == 404


def test_a_token_limited_to_a_renamed_owner_keeps_its_limit(author: Author) -> None:
    author.publish("maze", visibility="private")
    limited = author.hub.new_token(author.owner, limited_to=f"{author.owner}/maze")
    new = f"new-{author.owner}"
    call(author, "POST", f"/api/v1/owners/{author.owner}/rename", name=new)
    author.owner = new

    assert call(author, "GET", f"{API}/{new}/maze", limited).status_code == 200
    assert call(author, "GET", "/api/v1/whoami", limited).json()["limited_to"] == f"{new}/maze"


def test_a_transferred_environment_is_found_under_both_owners(author: Author, team: str) -> None:
    author.publish("maze")

    transfer(author, team)

    assert follow(author, f"{API}/{author.owner}/maze").json()["owner"] == team
    page = follow(author, f"/owners/{author.owner}/simple/maze/")
    assert page.url.path == f"/owners/{team}/simple/maze/"
    assert author.resolve(f"{author.owner}/maze")[0]["owner"] == team
    changes = ask(author.hub, "GET", "/api/v1/changes?limit=1000").json()["items"]
    moves = [one for one in changes if (one["action"], one["owner"]) == ("transfer", team)]
    assert [one["details"] for one in moves] == [{"was": f"{author.owner}/maze"}]


def test_a_push_to_a_former_name_is_told_the_present_one(
    author: Author, team: str, tmp_path: Path
) -> None:
    author.publish("maze")
    transfer(author, team)
    upload = an_upload(tmp_path / "2", version="0.2.0")

    former = author.hub.push(author.token, author.owner, upload)
    present = author.hub.push(author.token, team, upload)

    assert (former.status_code, former.json()["code"]) == (409, "moved")
    assert f"`{team}/maze`" in former.json()["detail"]
    assert present.status_code == 201


def test_numbers_used_under_a_former_name_are_spent_there(
    author: Author, team: str, tmp_path: Path
) -> None:
    author.publish("maze")
    transfer(author, team)
    call(author, "DELETE", f"{API}/{team}/maze/redirects/{author.owner}")

    again = author.hub.push(author.token, author.owner, an_upload(tmp_path / "1"))
    higher = author.hub.push(author.token, author.owner, an_upload(tmp_path / "2", version="0.2"))

    assert again.json()["code"] == "version_deleted"
    assert higher.status_code == 201
    assert ask(author.hub, "GET", f"{API}/{author.owner}/maze").json()["owner"] == author.owner


def test_an_environment_can_be_transferred_back(author: Author, team: str) -> None:
    author.publish("maze")
    transfer(author, team)

    back = call(author, "POST", f"{API}/{team}/maze/transfer", owner=author.owner)

    assert back.json()["owner"] == author.owner, back.text
    assert follow(author, f"{API}/{team}/maze").json()["owner"] == author.owner
    assert ask(author.hub, "GET", f"{API}/{author.owner}/maze").status_code == 200


def test_transfers_that_must_not_be_are_refused(author: Author, team: str) -> None:
    author.publish("maze")
    stranger, token = author.hub.new_user([Scope.ADMIN])
    path = f"{API}/{author.owner}/maze/transfer"
    other = Author(author.hub, author.folder / "other", team, author.token)
    other.publish("maze", "0.3.0")

    assert call(author, "POST", path, owner=stranger).status_code == 403
    assert call(author, "POST", path, token, owner=stranger).status_code == 403
    assert call(author, "POST", path, author.token, owner=team).status_code == 403
    assert call(author, "POST", path, owner=team).json()["code"] == "conflict"
    assert call(author, "POST", path, author.hub.admin_token, owner="nobody").status_code == 404


def test_the_closed_door_leads_on_whoever_may_see_where(author: Author, team: str) -> None:
    (version,) = author.publish("maze", visibility="private")
    wheel = next(file for file in version["files"] if file["kind"] == "wheel")
    transfer(author, team)
    _, stranger = author.hub.new_user()

    for rest in ("simple/maze/", f"files/maze/{wheel['filename']}"):
        path = f"/auth/owners/{author.owner}/{rest}"
        followed = follow(author, path, author.token)
        assert followed.status_code == 200, rest
        assert followed.url.path == f"/auth/owners/{team}/{rest}"
        assert follow(author, path, stranger).status_code == 404


def test_a_former_name_of_something_private_leads_nowhere_for_others(
    author: Author, team: str
) -> None:
    author.publish("maze", visibility="private")
    transfer(author, team)

    for path in (f"{API}/{author.owner}/maze", f"/owners/{author.owner}/simple/maze/"):
        assert ask(author.hub, "GET", path).status_code == 404
    assert author.resolve(f"{author.owner}/maze")[0]["code"] == "not_found"
    assert follow(author, f"{API}/{author.owner}/maze", author.token).json()["owner"] == team
