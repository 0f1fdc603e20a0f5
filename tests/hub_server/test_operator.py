"""What an operator decides on the hub's own machine, while the hub serves."""

from pathlib import Path

import pytest

from strop.hub.refs import EnvRef
from strop_hub import admin
from strop_hub.errors import HubError, InvalidRequestError, NotFoundError, ReservedNameError
from strop_hub.releases import operator
from strop_hub.settings import Settings
from tests.factories import an_upload
from tests.hub_server.author import Author, ask
from tests.hub_server.running_hub import RunningHub
from tests.hub_server.test_push import assert_refused
from tests.waiting import wait_until

WHOAMI = "/api/v1/whoami"


def claim(settings: Settings, full_name: str) -> str | None:
    with admin.open_hub(settings) as hub:
        return operator.claim(hub, EnvRef.parse(full_name))


def test_a_name_on_the_shared_index_is_moved_by_the_operator(
    hub: RunningHub, tmp_path: Path, name: str
) -> None:
    first, second = Author.new(hub, tmp_path / "1"), Author.new(hub, tmp_path / "2")
    first.publish(name, "1.0")
    second.publish(name, "2.0")

    def owners_of_the_page() -> list[str]:
        page = ask(hub, "GET", f"/simple/{name}/", accept="text/html").text
        return [one.owner for one in (first, second) if f"/owners/{one.owner}/" in page]

    before = owners_of_the_page()
    former = claim(hub.settings, f"{second.owner}/{name}")
    wait_until(lambda: owners_of_the_page() == [second.owner])
    again = claim(hub.settings, f"{second.owner}/{name}")
    # A later push of who had it takes nothing back, and has its own index.
    first.publish(name, "3.0")

    assert before == [first.owner]
    assert (former, again) == (f"{first.owner}/{name}", None)
    assert owners_of_the_page() == [second.owner]
    assert "3.0" in ask(hub, "GET", f"/owners/{first.owner}/simple/{name}/").text
    changes = hub.get(f"/api/v1/changes?since={last_serial(hub) - 5}&limit=5").json()["items"]
    told = [(change["owner"], change["action"]) for change in changes if change["name"] == name]
    assert (first.owner, "unclaim") in told
    assert (second.owner, "claim") in told


def last_serial(hub: RunningHub) -> int:
    return int(hub.get("/api/v1/changes?limit=1").json()["last_serial"])


def test_what_must_not_be_on_the_shared_index_is_refused_its_name(
    hub: RunningHub, tmp_path: Path, name: str
) -> None:
    author = Author.new(hub, tmp_path)
    author.publish(name, visibility="private")
    author.publish(f"{name}-2")
    kept = Settings.read(hub.settings.variables(), reserved_names=(f"{name}-2",))

    refusals: dict[str, type[HubError]] = {
        name: InvalidRequestError,
        f"{name}-2": ReservedNameError,
        f"{name}-3": NotFoundError,
    }
    for refused, error in refusals.items():
        with pytest.raises(error):
            claim(kept, f"{author.owner}/{refused}")


def test_an_owner_keeps_as_much_as_the_operator_says(hub: RunningHub, tmp_path: Path) -> None:
    owner, token = hub.new_user()
    uploads = [an_upload(tmp_path / v, name="maze", version=v) for v in ("1.0", "1.1")]
    assert hub.push(token, owner, uploads[0]).status_code == 201
    kept_bytes = admin.space_show(hub.settings, owner).stored_bytes

    admin.quota_set(hub.settings, owner, kept_bytes)
    refused = hub.push(token, owner, uploads[1])
    line = admin.quota_set(hub.settings, owner, None)
    accepted = hub.push(token, owner, uploads[1])

    assert kept_bytes == uploads[0].stored_bytes
    assert "Ask the hub's operator" in assert_refused(refused, 413, "quota_exceeded")
    assert (line.quota_bytes, line.is_default) == (hub.settings.owner_quota_bytes, True)
    assert accepted.status_code == 201, accepted.text


def test_a_user_who_is_shut_out_is_let_in_again(hub: RunningHub) -> None:
    user, token = hub.new_user()

    admin.user_disable(hub.settings, user)
    shut_out = hub.get(WHOAMI, token)
    admin.user_disable(hub.settings, user, is_disabled=False)

    assert_refused(shut_out, 401, "token_invalid")
    assert hub.get(WHOAMI, token).status_code == 200


def test_the_only_administrator_cannot_be_shut_out(tmp_path: Path) -> None:
    settings = Settings.read({}, data=tmp_path / "hub")
    admin.init(settings, "ada", with_sdk=False)
    with pytest.raises(InvalidRequestError, match="only administrator"):
        admin.user_disable(settings, "ada")
    admin.user_add(settings, "grace", is_admin=True)

    admin.user_disable(settings, "ada")

    with pytest.raises(InvalidRequestError, match="only administrator"):
        admin.user_disable(settings, "grace")
