"""A hub follows another one by its change feed, and goes on where it was cut off."""

from pathlib import Path
from typing import Any

import pytest

from strop.errors import ConfigError, HubUnreachableError
from strop.hub.wire import Scope
from strop_hub import admin
from strop_hub.settings import Settings
from strop_hub.upkeep.mirror import Mirrored, mirror
from strop_hub.upkeep.verify import verify
from tests.factories import a_sdist, a_wheel
from tests.hub_server.author import Author
from tests.hub_server.checking import check_whole
from tests.hub_server.running_hub import RunningHub, run_hub
from tests.servers.processes import free_ports


def follow(settings: Settings, url: str) -> Mirrored:
    with admin.open_hub(settings) as hub:
        result = mirror(hub, url, "far")
        assert verify(hub).differences == []
    return result


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


@pytest.mark.embedded
def test_what_does_harm_there_is_not_served_here_until_it_is_released(
    hub_data: Path, tmp_path: Path, here: Settings
) -> None:
    with run_hub(hub_data) as there, run_hub(here.data, "ada") as mirrored:
        author = Author.new(there, tmp_path / "packages")
        author.publish("maze", "1.0", "1.1")
        author.publish("late", "1.0")
        path = f"/api/v1/environments/{author.owner}"
        with there.client(there.admin_token) as moderator:
            reason = {"reason": "leaky grader"}
            assert moderator.post(f"{path}/maze/versions/1.1/quarantine", json=reason).is_success
            wanted = reason | {"status": "quarantined"}
            assert moderator.put(f"{path}/late/status", json=wanted).is_success
            follow(here, there.url)
            chosen = resolved(mirrored, f"far-{author.owner}/maze")
            absent = mirrored.get(f"/api/v1/environments/far-{author.owner}/late")

            assert moderator.delete(f"{path}/maze/versions/1.1/quarantine").is_success
            assert moderator.put(f"{path}/late/status", json={"status": "active"}).is_success
            follow(here, there.url)
            released = [resolved(mirrored, f"far-{author.owner}/{n}") for n in ("maze", "late")]

            assert moderator.post(f"{path}/maze/versions/1.1/quarantine", json=reason).is_success
            assert moderator.put(f"{path}/late/status", json=wanted).is_success
            last = follow(here, there.url)
            stopped = [resolved(mirrored, f"far-{author.owner}/{n}") for n in ("maze", "late")]
            named = resolved(mirrored, f"far-{author.owner}/maze@1.1")

    assert (chosen["version"], absent.status_code) == ("1.0", 404)
    assert [item["version"] for item in released] == ["1.1", "1.0"]
    assert stopped[0]["version"] == "1.0"
    assert "leaky grader" in stopped[1]["detail"]
    assert "leaky grader" in named["detail"]
    assert (last.followed_count, last.skipped) == (2, [])


@pytest.mark.embedded
def test_source_distributions_standing_tags_and_moves_are_taken_over(
    hub_data: Path, tmp_path: Path, here: Settings
) -> None:
    with run_hub(hub_data) as there, run_hub(here.data, "ada") as mirrored:
        author = Author.new(there, tmp_path / "packages")
        wheel = a_wheel(tmp_path, is_foreign=True)
        upload(author, wheel)
        follow(here, there.url)
        sdist = a_sdist(tmp_path)
        upload(author, sdist)
        token = there.new_token(author.owner, scopes=[Scope.ADMIN])
        path = f"/api/v1/environments/{author.owner}/maze"
        with there.client(token) as owner:
            assert owner.put(f"{path}/tags/stable", json={"version": "0.1.0"}).is_success
            status = {"status": "deprecated", "reason": "use labyrinth"}
            assert owner.put(f"{path}/status", json=status).is_success
            assert owner.post(f"{path}/versions/0.1.0/close").is_success
        followed = follow(here, there.url)
        far = f"/api/v1/environments/far-{author.owner}/maze"
        shown = mirrored.get(far).json()
        tags = mirrored.get(f"{far}/tags").json()["items"]
        admin.user_add(there.settings, "grace")
        with there.client(there.admin_token) as client:
            assert client.post(f"{path}/transfer", json={"owner": "grace"}).is_success
        with there.client(there.new_token("grace")) as owner:
            assert owner.delete("/api/v1/environments/grace/maze/tags/stable").is_success
        last = follow(here, there.url)
        moved = mirrored.get("/api/v1/environments/far-grace/maze").json()
        left = mirrored.get("/api/v1/environments/far-grace/maze/tags").json()["items"]

    assert followed.skipped == last.skipped == []
    assert {file["filename"] for file in shown["latest"]["files"]} == {wheel.name, sdist.name}
    assert shown["latest"]["is_closed"]
    assert (shown["status"], shown["status_reason"]) == ("deprecated", "use labyrinth")
    assert [(tag["tag"], tag["version"]) for tag in tags] == [("stable", "0.1.0")]
    assert (moved["owner"], moved["latest"]["digest"]) == ("far-grace", shown["latest"]["digest"])
    assert left == []


def resolved(hub: RunningHub, reference: str) -> dict[str, Any]:
    with hub.client() as client:
        answer = client.post("/api/v1/resolve", json={"references": [reference]})
    (item,) = answer.json()["items"]
    return dict(item)


def upload(author: Author, file: Path) -> None:
    with author.hub.client() as client:
        answer = client.post(
            f"/owners/{author.owner}/legacy/",
            files={"content": (file.name, file.read_bytes())},
            auth=("__token__", author.token),
        )
    assert answer.status_code == 200, answer.text


def test_a_hub_that_does_not_answer_is_named_and_nothing_is_lost(here: Settings) -> None:
    (port,) = free_ports(1)

    with pytest.raises(HubUnreachableError, match="goes on where it was"):
        follow(here, f"http://127.0.0.1:{port}")

    assert check_whole(here) == 0


def test_an_address_that_is_no_hubs_is_named_with_what_to_do(
    hub: RunningHub, here: Settings
) -> None:
    with pytest.raises(ConfigError, match=r"no hub at .*/simple: .* or --simple where it is"):
        follow(here, f"{hub.url}/simple")

    assert check_whole(here) == 0
