"""Deleted and purged versions: what goes, what stays for ever."""

import hashlib
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from strop.hub.refs import EnvRef
from strop.hub.wire import Scope
from strop_hub import admin
from strop_hub.errors import StorageUnavailableError
from strop_hub.leases import write_named
from strop_hub.releases import deletion, operator
from strop_hub.releases.deletion import read_purges
from strop_hub.settings import Settings
from strop_hub.storage import FileStorage
from strop_hub.upkeep.dump import back_up
from strop_hub.upkeep.verify import verify
from tests.factories import an_upload, sha256_of
from tests.hub_server.author import Author, ask
from tests.hub_server.releases.test_standing import call, page
from tests.hub_server.running_hub import RunningHub, run_hub


@pytest.fixture
def author(hub: RunningHub, tmp_path: Path) -> Author:
    return Author.new(hub, tmp_path)


def owner_token(author: Author) -> str:
    return author.hub.new_token(author.owner, scopes=[Scope.ADMIN])


def delete(author: Author, rest: str = "/versions/0.2.0") -> None:
    response = call(author, "DELETE", rest, owner_token(author))
    assert response.status_code == 204, response.text


def test_a_deleted_version_is_gone_and_its_number_is_spent(author: Author, tmp_path: Path) -> None:
    author.publish("maze", "0.1.0", "0.2.0")

    delete(author)

    gone = call(author, "GET", "/versions/0.2.0")
    assert gone.status_code == 404
    assert "was deleted" in gone.json()["detail"]
    assert page(author)["versions"] == ["0.1.0"]
    assert author.resolve(f"{author.owner}/maze")[0]["version"] == "0.1.0"
    again = author.hub.push(
        author.token, author.owner, an_upload(tmp_path / "again", version="0.2")
    )
    assert (again.status_code, again.json()["code"]) == (409, "version_deleted")


def test_a_deleted_environment_cannot_be_told_from_one_that_never_was(
    author: Author, tmp_path: Path
) -> None:
    author.publish("maze", "0.1.0", "0.2.0")

    delete(author, "")

    assert call(author, "GET", "").status_code == 404
    assert ask(author.hub, "GET", f"/owners/{author.owner}/simple/maze/").status_code == 404
    assert author.resolve(f"{author.owner}/maze")[0]["code"] == "not_found"
    again = author.hub.push(author.token, author.owner, an_upload(tmp_path / "x", version="0.2.0"))
    assert again.json()["code"] == "version_deleted"
    higher = author.hub.push(author.token, author.owner, an_upload(tmp_path / "y", version="0.3"))
    assert higher.status_code == 201


def test_deleting_gives_the_owners_space_back(author: Author) -> None:
    author.publish("maze", "0.1.0")
    delete(author, "")
    author.publish("maze", "0.2.0")

    listed = call(author, "GET", "/versions").json()["items"]

    assert [version["version"] for version in listed] == ["0.2.0"]


def test_a_purge_erases_the_bytes_and_leaves_its_reason(author: Author) -> None:
    author.publish("maze", "0.1.0")
    (secret,) = author.publish("maze", "0.2.0", files={"maze.py": f"KEY = {author.owner!r}\n"})
    wheel = next(file for file in secret["files"] if file["kind"] == "wheel")
    blob = Path(wheel["sha256"])

    body = {"version": "0.2.0", "reason": "a key got in"}
    assert call(author, "POST", "/purge", owner_token(author), **body).status_code == 403
    response = call(author, "POST", "/purge", author.hub.admin_token, **body)

    assert response.status_code == 204, response.text
    assert call(author, "GET", "/versions/0.2.0").status_code == 404
    assert page(author)["versions"] == ["0.1.0"]
    stored = {path.name for path in author.hub.settings.blobs.rglob("*") if path.is_file()}
    assert blob.name[2:] not in stored
    record = read_purges(author.hub.settings.data)[-1]
    assert (record.owner, record.version, record.reason) == (author.owner, "0.2.0", "a key got in")
    assert wheel["sha256"] in record.sha256s
    changes = ask(author.hub, "GET", "/api/v1/changes?limit=1000").json()["items"]
    (event,) = [one for one in changes if (one["owner"], one["action"]) == (author.owner, "purge")]
    assert event["details"] == {"reason": "a key got in"}


@pytest.mark.embedded
def test_what_was_purged_is_purged_again_from_a_restored_hub(
    hub_data: Path, tmp_path: Path
) -> None:
    with run_hub(hub_data) as hub:
        author = Author.new(hub, tmp_path / "author")
        author.publish("maze", "0.1.0")
        author.publish("maze", "0.2.0", files={"maze.py": "KEY = 1\n"})
        settings = hub.settings
    shutil.copytree(hub_data, tmp_path / "backup")
    reference = EnvRef.parse(f"{author.owner}/maze@0.2.0")
    with admin.open_hub(settings) as parts:
        (record,) = operator.purge(parts, reference, "a key got in")
        assert not parts.storage.has(record.sha256s[0])
    for name in ("hub.sqlite3", "blobs"):
        place = hub_data / name
        shutil.rmtree(place) if place.is_dir() else place.unlink()
        source = tmp_path / "backup" / name
        shutil.copytree(source, place) if source.is_dir() else shutil.copy(source, place)

    with admin.open_hub(settings) as parts:
        assert all(parts.storage.has(sha256) for sha256 in record.sha256s)
        again, idle = deletion.repeat_purges(parts), deletion.repeat_purges(parts)
        left = [sha256 for sha256 in record.sha256s if parts.storage.has(sha256)]

    assert (again, idle) == ([record], [])
    with run_hub(hub_data) as hub:
        author.hub = hub
        assert call(author, "GET", "/versions/0.2.0").status_code == 404
        shared = {call(author, "GET", "/versions/0.1.0").json()["files"][0]["sha256"]}
        assert record.sha256s[0] not in shared
    assert len(left) <= 1, "only what the other version needs as well, such as the README"


@pytest.mark.embedded
def test_a_backup_from_before_a_purge_brings_nothing_back(hub_data: Path, tmp_path: Path) -> None:
    with run_hub(hub_data) as hub:
        author = Author.new(hub, tmp_path / "author")
        author.publish("maze", "0.1.0")
        author.publish("maze", "0.2.0", files={"maze.py": "KEY = 1\n"})
        with admin.open_hub(hub.settings) as parts:
            back_up(parts, tmp_path / "backup")
        body = {"version": "0.2.0", "reason": "a key got in"}
        response = call(author, "POST", "/purge", author.hub.admin_token, **body)
        assert response.status_code == 204
    (record,) = read_purges(hub_data)
    fresh = tmp_path / "fresh"
    command = [str(Path(sys.executable).with_name("strop")), "hub", "restore"]
    command += [str(tmp_path / "backup"), "--purged-from", str(hub_data), "--data", str(fresh)]

    result = subprocess.run(command, capture_output=True, text=True)

    assert result.returncode == 0, result.stderr
    assert f"{author.owner}/maze@0.2.0 was purged, and stays away." in result.stderr
    assert read_purges(fresh) == [record]
    with admin.open_hub(Settings.read({}, data=fresh)) as parts:
        assert not parts.storage.has(record.sha256s[0])
        assert verify(parts).differences == []
        # The backup itself forgets the bytes with the next one into the same folder.
        back_up(parts, tmp_path / "backup")
    assert not FileStorage(tmp_path / "backup" / "blobs").has(record.sha256s[0])
    with run_hub(fresh) as hub:
        author.hub = hub
        assert call(author, "GET", "/versions/0.2.0").status_code == 404
        assert call(author, "GET", "/versions/0.1.0").status_code == 200


@pytest.mark.embedded
def test_a_hub_over_an_older_database_purges_again_before_it_answers(
    hub_data: Path, tmp_path: Path
) -> None:
    with run_hub(hub_data) as hub:
        author = Author.new(hub, tmp_path / "author")
        author.publish("maze", "0.1.0", "0.2.0")
    shutil.copy(hub_data / "hub.sqlite3", tmp_path / "older")
    with admin.open_hub(Settings.read({}, data=hub_data)) as parts:
        operator.purge(parts, EnvRef.parse(f"{author.owner}/maze@0.2.0"), "a key got in")
    shutil.copy(tmp_path / "older", hub_data / "hub.sqlite3")

    with run_hub(hub_data) as hub:
        author.hub = hub
        assert call(author, "GET", "/versions/0.2.0").status_code == 404
        assert "purged" in hub.log.read_text()


def test_an_upload_puts_bytes_again_that_a_purge_took_meanwhile(hub: RunningHub) -> None:
    content = hub.settings.url.encode()
    key = hashlib.sha256(content).hexdigest()
    tries = []
    with admin.open_hub(hub.settings) as parts:

        def put() -> None:
            parts.storage.put_bytes(key, content)

        put()
        deletion.erase(parts, [deletion.PurgeRecord("nobody", "maze", "1.0", [key], "a key")])
        assert not parts.storage.has(key)
        write_named(parts.database, parts.storage, [key], put, lambda _: tries.append(key))

        assert (tries, parts.storage.has(key)) == ([key], True)
        with pytest.raises(StorageUnavailableError, match="loses what is put"):
            write_named(parts.database, parts.storage, ["0" * 64], list, lambda _: None)


def test_a_purge_keeps_blobs_that_another_version_needs(author: Author, tmp_path: Path) -> None:
    shared = an_upload(tmp_path, is_foreign=True)
    other_owner, other_token = author.hub.new_user()
    author.hub.push(author.token, author.owner, shared)
    author.hub.push(other_token, other_owner, shared)

    call(author, "POST", "/purge", author.hub.admin_token, reason="not mine to share")

    path = f"/owners/{other_owner}/files/maze/{shared.wheel.name}"
    kept = ask(author.hub, "GET", path)
    assert kept.status_code == 200
    assert kept.headers["etag"] == f'"{sha256_of(shared.wheel)}"'
