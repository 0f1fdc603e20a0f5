"""A hub follows another one by its change feed, and goes on where it was cut off."""

from pathlib import Path

import pytest

from strop.errors import HubUnreachableError
from strop.hub.wire import Scope
from strop_hub import admin
from strop_hub.settings import Settings
from strop_hub.upkeep.mirror import Mirrored, mirror
from strop_hub.upkeep.verify import verify
from tests.hub_server.author import Author
from tests.hub_server.checking import check_whole
from tests.hub_server.running_hub import run_hub
from tests.servers.processes import free_ports


def follow(settings: Settings, url: str) -> Mirrored:
    with admin.open_hub(settings) as hub:
        result = mirror(hub, url, "far")
        assert verify(hub).differences == []
    return result


@pytest.fixture
def here(tmp_path: Path) -> Settings:
    settings = Settings.read({}, data=tmp_path / "here")
    admin.init(settings, "ada", with_sdk=False)
    return settings


@pytest.mark.embedded
def test_publishing_yanking_and_deleting_are_taken_over_once(
    hub_data: Path, tmp_path: Path, here: Settings
) -> None:
    with run_hub(hub_data) as there:
        author = Author.new(there, tmp_path / "packages")
        (first, _) = author.publish("maze", "1.0", "1.1")
        author.publish("secret", visibility="private")
        follow(here, there.url)
        again = follow(here, there.url)
        author.yank("maze", "1.0", "leaky grader")
        follow(here, there.url)
        owners_token = there.new_token(author.owner, scopes=[Scope.ADMIN])
        with there.client(owners_token) as client:
            path = f"/api/v1/environments/{author.owner}/maze/versions/1.1"
            assert client.delete(path).status_code == 204
        last = follow(here, there.url)

    assert again.followed_count == 0
    assert (last.followed_count, last.skipped) == (1, [])
    with run_hub(here.data, "ada") as mirrored:
        versions = mirrored.get(f"/api/v1/environments/far-{author.owner}/maze/versions").json()
        names = mirrored.get("/api/v1/environments").json()["items"]
    (kept,) = versions["items"]
    assert (kept["version"], kept["digest"]) == ("1.0", first["digest"])
    assert (kept["is_yanked"], kept["yank_reason"]) == (True, "leaky grader")
    assert [item["name"] for item in names] == ["maze"]


@pytest.mark.embedded
def test_what_is_purged_there_is_erased_here(
    hub_data: Path, tmp_path: Path, here: Settings
) -> None:
    with run_hub(hub_data) as there:
        author = Author.new(there, tmp_path / "packages")
        author.publish("maze", "1.0")
        (secret,) = author.publish("maze", "1.1", files={"maze.py": "KEY = 1\n"})
        follow(here, there.url)
        with there.client(there.admin_token) as client:
            path = f"/api/v1/environments/{author.owner}/maze/purge"
            body = {"version": "1.1", "reason": "a key got in"}
            assert client.post(path, json=body).status_code == 204
        last = follow(here, there.url)

    assert (last.followed_count, last.skipped) == (1, [])
    with admin.open_hub(here) as hub:
        assert not hub.storage.has(secret["digest"])
        assert verify(hub).version_count == 1


def test_a_hub_that_does_not_answer_is_named_and_nothing_is_lost(here: Settings) -> None:
    (port,) = free_ports(1)

    with pytest.raises(HubUnreachableError, match="goes on where it was"):
        follow(here, f"http://127.0.0.1:{port}")

    assert check_whole(here) == 0
