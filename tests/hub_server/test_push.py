"""What a push publishes, what it answers, and whom it refuses."""

from pathlib import Path

import httpx
import pytest

from strop.hub.wire import Scope
from strop_hub import admin
from strop_hub.models import Role
from strop_hub.storage import open_storage
from tests.factories import AnUpload, a_wheel, an_upload, sha256_of
from tests.hub_server.running_hub import RunningHub

ALL_BUT_READ = [Scope.CREATE, Scope.PUBLISH]


def version_path(owner: str, version: str = "0.1.0", name: str = "maze") -> str:
    return f"/api/v1/environments/{owner}/{name}/versions/{version}"


def assert_refused(response: httpx.Response, status: int, code: str) -> str:
    """The refusal's detail, when it is this one and in the right form."""
    assert response.status_code == status, response.text
    assert response.headers["content-type"] == "application/problem+json"
    problem = response.json()
    assert problem["code"] == code
    assert problem["status"] == status
    assert problem["request_id"] == response.headers["x-request-id"]
    return str(problem["detail"])


def test_a_push_publishes_the_wheel_and_the_source(hub: RunningHub, tmp_path: Path) -> None:
    owner, token = hub.new_user()
    upload = an_upload(tmp_path)

    response = hub.push(token, owner, upload)

    assert response.status_code == 201, response.text
    result = response.json()
    assert result["outcome"] == "published"
    version = result["version"]
    assert (version["owner"], version["name"], version["version"]) == (owner, "maze", "0.1.0")
    assert version["digest"] == sha256_of(upload.wheel)
    assert version["tree_digest"] == upload.fields["tree_digest"]
    assert version["published_by"] == owner
    assert version["readme"] == "# Maze\n"
    assert version["settings_schema"]["properties"] == {"size": {"type": "integer"}}
    for file in version["files"]:
        content = hub.get(httpx.URL(file["url"]).path).content
        expected = upload.wheel if file["kind"] == "wheel" else upload.source
        assert expected is not None
        assert content == expected.read_bytes()
    assert hub.get(version_path(owner)).json() == version


def test_the_same_tree_again_changes_nothing_although_its_wheel_differs(
    hub: RunningHub, tmp_path: Path
) -> None:
    owner, token = hub.new_user()
    first = an_upload(tmp_path / "1", tree={"a.py": "1"})
    again = an_upload(tmp_path / "2", tree={"a.py": "1"}, files={"maze.py": "# built again\n"})
    assert sha256_of(first.wheel) != sha256_of(again.wheel)
    published = hub.push(token, owner, first).json()

    response = hub.push(token, owner, again)

    assert response.status_code == 200, response.text
    assert response.json()["outcome"] == "already_published"
    assert response.json()["version"] == published["version"]
    assert not open_storage(hub.settings).has(sha256_of(again.wheel))


def test_another_tree_at_a_published_version_is_refused_with_the_remedy(
    hub: RunningHub, tmp_path: Path
) -> None:
    owner, token = hub.new_user()
    published = hub.push(token, owner, an_upload(tmp_path / "1", tree={"a.py": "1"})).json()

    response = hub.push(token, owner, an_upload(tmp_path / "2", tree={"a.py": "2"}))

    detail = assert_refused(response, 409, "version_exists")
    assert f"`{owner}/maze@0.1.0`" in detail
    assert "Raise `version`" in detail
    assert hub.get(version_path(owner)).json() == published["version"]


def test_1_0_and_1_0_0_are_one_version(hub: RunningHub, tmp_path: Path) -> None:
    owner, token = hub.new_user()
    hub.push(token, owner, an_upload(tmp_path / "1", version="1.0", tree={"a.py": "1"}))

    other = hub.push(token, owner, an_upload(tmp_path / "2", version="1.0.0", tree={"a": "2"}))
    same = hub.push(token, owner, an_upload(tmp_path / "3", version="1.0.0", tree={"a.py": "1"}))

    assert_refused(other, 409, "version_exists")
    assert same.status_code == 200
    assert same.json()["version"]["version"] == "1.0"


def test_a_foreign_wheel_needs_no_source_and_is_known_by_its_bytes(
    hub: RunningHub, tmp_path: Path
) -> None:
    owner, token = hub.new_user()
    upload = an_upload(tmp_path / "1", is_foreign=True)
    other = an_upload(tmp_path / "2", is_foreign=True, files={"maze.py": "# other\n"})

    first, again, changed = (hub.push(token, owner, each) for each in (upload, upload, other))

    assert first.status_code == 201, first.text
    assert first.json()["version"]["kind"] == "foreign"
    assert again.status_code == 200
    assert_refused(changed, 409, "version_exists")


def test_an_environment_without_its_source_is_refused(hub: RunningHub, tmp_path: Path) -> None:
    owner, token = hub.new_user()

    response = hub.push(token, owner, AnUpload(a_wheel(tmp_path), None))

    assert "without its source" in assert_refused(response, 422, "invalid_package")


@pytest.mark.parametrize("field", ["wheel_sha256", "source_sha256", "tree_digest"])
def test_bytes_that_differ_from_what_was_announced_are_refused(
    hub: RunningHub, tmp_path: Path, field: str
) -> None:
    owner, token = hub.new_user()

    response = hub.push(token, owner, an_upload(tmp_path), **{field: "0" * 64})

    assert field in assert_refused(response, 422, "digest_mismatch")
    assert hub.get(version_path(owner)).status_code == 404


@pytest.mark.parametrize("digest", ["", "abc", "G" * 64, "A" * 64])
def test_what_is_no_digest_is_refused(hub: RunningHub, tmp_path: Path, digest: str) -> None:
    owner, token = hub.new_user()

    response = hub.push(token, owner, an_upload(tmp_path), wheel_sha256=digest)

    assert_refused(response, 400, "malformed_body")


def test_a_tree_digest_needs_the_tree(hub: RunningHub, tmp_path: Path) -> None:
    owner, token = hub.new_user()

    response = hub.push(token, owner, an_upload(tmp_path, is_foreign=True), tree_digest="0" * 64)

    assert "no file `source`" in assert_refused(response, 400, "malformed_body")


def test_a_wrong_manifest_is_refused_with_every_problem(hub: RunningHub, tmp_path: Path) -> None:
    owner, token = hub.new_user()
    upload = an_upload(tmp_path, manifest={"category": "cooking", "sandbox": "oven", "spoon": 1})

    response = hub.push(token, owner, upload)

    assert_refused(response, 422, "invalid_manifest")
    problems = "\n".join(response.json()["problems"])
    assert all(word in problems for word in ("category", "sandbox", "spoon"))


def test_a_file_that_is_no_wheel_or_no_source_is_refused(hub: RunningHub, tmp_path: Path) -> None:
    owner, token = hub.new_user()
    upload = an_upload(tmp_path)
    assert upload.source is not None
    broken = tmp_path / upload.wheel.name
    no_wheel, no_source = broken.read_bytes(), upload.source.read_bytes()

    broken.write_bytes(b"PK\x03\x04 and so on")
    refused_wheel = hub.push(token, owner, AnUpload(broken, upload.source))
    broken.write_bytes(no_wheel)
    upload.source.write_bytes(no_source[:50])
    refused_source = hub.push(token, owner, AnUpload(broken, upload.source))

    assert_refused(refused_wheel, 422, "invalid_package")
    assert_refused(refused_source, 422, "invalid_package")


def test_somebody_elses_owner_and_no_owner_are_refused_alike(
    hub: RunningHub, tmp_path: Path
) -> None:
    other, _ = hub.new_user()
    _, token = hub.new_user()
    upload = an_upload(tmp_path)

    theirs = hub.push(token, other, upload)
    nobodys = hub.push(token, "nobody-here", upload)

    detail = assert_refused(theirs, 403, "forbidden")
    assert assert_refused(nobodys, 403, "forbidden") == detail.replace(other, "nobody-here")


def test_an_owner_that_is_no_name_is_refused(hub: RunningHub, tmp_path: Path) -> None:
    _, token = hub.new_user()

    response = hub.push(token, "-maze-", an_upload(tmp_path))

    assert_refused(response, 422, "invalid_request")


def test_owners_are_the_same_in_every_spelling(hub: RunningHub, tmp_path: Path) -> None:
    owner, token = hub.new_user()

    response = hub.push(token, owner.upper().replace("-", "_"), an_upload(tmp_path))

    assert response.status_code == 201, response.text
    assert response.json()["version"]["owner"] == owner


def test_a_member_publishes_as_the_organisation_and_a_reader_does_not(
    hub: RunningHub, tmp_path: Path
) -> None:
    owner, _ = hub.new_user()
    publisher, publisher_token = hub.new_user()
    reader, reader_token = hub.new_user()
    lab = admin.organisation_add(hub.settings, f"lab-{owner}", owner)
    admin.member_set(hub.settings, lab, publisher, Role.PUBLISHER)
    admin.member_set(hub.settings, lab, reader, Role.READER)

    refused = hub.push(reader_token, lab, an_upload(tmp_path))
    published = hub.push(publisher_token, lab, an_upload(tmp_path))

    assert_refused(refused, 403, "forbidden")
    assert published.status_code == 201, published.text


def test_a_token_needs_the_scope_and_the_refusal_names_it(hub: RunningHub, tmp_path: Path) -> None:
    owner, reading = hub.new_user([Scope.READ])
    creating = hub.new_token(owner, scopes=[Scope.CREATE])
    publishing = hub.new_token(owner, scopes=[Scope.PUBLISH])
    first, second = an_upload(tmp_path), an_upload(tmp_path, version="0.2.0")

    assert "`publish`" in assert_refused(hub.push(reading, owner, first), 403, "scope_missing")
    assert "`create`" in assert_refused(hub.push(publishing, owner, first), 403, "scope_missing")
    assert hub.push(creating, owner, first).status_code == 201
    assert "`publish`" in assert_refused(hub.push(creating, owner, second), 403, "scope_missing")
    assert hub.push(publishing, owner, second).status_code == 201


def test_a_token_is_worth_nothing_outside_its_limit(hub: RunningHub, tmp_path: Path) -> None:
    owner, _ = hub.new_user()
    to_maze = hub.new_token(owner, limited_to=f"{owner}/maze")
    to_owner = hub.new_token(owner, limited_to=owner)
    to_other = hub.new_token(owner, limited_to="somebody")
    maze, other = an_upload(tmp_path), an_upload(tmp_path / "other", name="other")

    assert_refused(hub.push(to_other, owner, maze), 403, "scope_missing")
    assert f"`{owner}/maze`" in assert_refused(
        hub.push(to_maze, owner, other), 403, "scope_missing"
    )
    assert hub.push(to_maze, owner, maze).status_code == 201
    assert hub.push(to_owner, owner, other).status_code == 201


def test_a_private_environment_is_seen_by_its_owner_alone(hub: RunningHub, tmp_path: Path) -> None:
    owner, token = hub.new_user()
    _, stranger = hub.new_user()
    publishing = hub.new_token(owner, scopes=ALL_BUT_READ)
    upload = an_upload(tmp_path, name="qx-secret-7")

    response = hub.push(publishing, owner, upload, visibility="private")

    assert response.status_code == 201, response.text
    path = version_path(owner, name="qx-secret-7")
    assert hub.get(path, token).status_code == 200
    absent = hub.get(version_path(owner, name="qx-absent-8"), stranger)
    for other in (stranger, publishing, None):
        hidden = hub.get(path, other)
        assert hidden.status_code == 404
        detail = hidden.json()["detail"].replace("qx-secret-7", "qx-absent-8")
        assert detail == absent.json()["detail"]


def test_the_visibility_is_set_once_and_a_later_wish_is_answered_with_a_warning(
    hub: RunningHub, tmp_path: Path
) -> None:
    owner, token = hub.new_user()
    hub.push(token, owner, an_upload(tmp_path), visibility="private")

    silent = hub.push(token, owner, an_upload(tmp_path, version="0.2.0"))
    warned = hub.push(token, owner, an_upload(tmp_path, version="0.3.0"), visibility="public")

    assert silent.json()["warnings"] == []
    assert "stays private" in warned.json()["warnings"][0]
    assert hub.get(version_path(owner, "0.3.0")).status_code == 404


def test_an_unknown_visibility_is_refused(hub: RunningHub, tmp_path: Path) -> None:
    owner, token = hub.new_user()

    response = hub.push(token, owner, an_upload(tmp_path), visibility="secret")

    assert "`public` or `private`" in assert_refused(response, 422, "invalid_request")


def test_a_version_with_local_part_and_epoch_is_published_and_found(
    hub: RunningHub, tmp_path: Path
) -> None:
    owner, token = hub.new_user()

    response = hub.push(token, owner, an_upload(tmp_path, version="1!2.0+git.abc"))

    assert response.status_code == 201, response.text
    for file in response.json()["version"]["files"]:
        path = httpx.URL(file["url"]).raw_path.decode()
        assert hub.get(path).status_code == 200


def test_every_answer_carries_the_hubs_headers(hub: RunningHub) -> None:
    given = httpx.get(f"{hub.url}/healthz", headers={"x-request-id": "abc-1"})
    hostile = httpx.get(f"{hub.url}/no/such/thing/here", headers={"x-request-id": "a b"})

    assert given.headers["strop-hub"]
    assert given.headers["x-request-id"] == "abc-1"
    assert hostile.status_code == 404
    assert hostile.headers["strop-hub"]
    assert hostile.headers["x-request-id"] != "a b"
