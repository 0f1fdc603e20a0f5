"""The upload API of packaging clients: what it publishes, and what it refuses."""

import hashlib
from pathlib import Path
from typing import Any

import httpx
import pytest

from strop.hub.wire import Scope
from strop_hub import admin
from tests.factories import a_sdist, a_wheel, an_upload, sha256_of
from tests.hub_server.author import Author, ask
from tests.hub_server.index.test_index import document
from tests.hub_server.running_hub import RunningHub, run_hub


@pytest.fixture
def author(hub: RunningHub, tmp_path: Path) -> Author:
    return Author.new(hub, tmp_path)


def upload(
    author: Author,
    path: Path,
    *,
    owner: str | None = None,
    token: str | None = "",
    **fields: str,
) -> httpx.Response:
    """Upload a file as clients do; an empty token is the author's."""
    form = {":action": "file_upload", "protocol_version": "1", **fields}
    address = "/legacy/" if owner is None else f"/owners/{owner}/legacy/"
    with author.hub.client() as client:
        secret = author.token if token == "" else token
        if secret is not None:
            client.auth = httpx.BasicAuth("__token__", secret)
        content = {"content": (path.name, path.read_bytes(), "application/octet-stream")}
        return client.post(address, data=form, files=content)


def refusal(response: httpx.Response, status: int, code: str) -> str:
    assert response.status_code == status, response.text
    problem = response.json()
    assert problem["code"] == code, problem
    return str(problem["detail"])


def version_of(author: Author, version: str = "0.1.0") -> httpx.Response:
    path = f"/api/v1/environments/{author.owner}/maze/versions/{version}"
    return ask(author.hub, "GET", path)


def test_a_wheel_becomes_a_version_and_the_same_again_changes_nothing(
    author: Author, tmp_path: Path
) -> None:
    wheel = a_wheel(tmp_path, is_foreign=True)

    first, again = upload(author, wheel), upload(author, wheel)

    assert (first.status_code, again.status_code) == (200, 200), first.text
    assert "already" in again.text
    assert version_of(author).json()["digest"] == sha256_of(wheel)
    assert version_of(author).json()["kind"] == "foreign"


def test_an_environment_of_ours_keeps_its_kind_and_manifest(author: Author, tmp_path: Path) -> None:
    assert upload(author, a_wheel(tmp_path)).status_code == 200

    version = version_of(author).json()
    assert (version["kind"], version["manifest"]["category"]) == ("strop", "logic")


def test_other_bytes_are_refused_in_words_that_clients_know(author: Author, tmp_path: Path) -> None:
    upload(author, a_wheel(tmp_path / "1", is_foreign=True))
    other = a_wheel(tmp_path / "2", is_foreign=True, files={"maze.py": "# other\n"})

    detail = refusal(upload(author, other), 400, "file_exists")

    assert detail.startswith("File already exists ('maze-0.1.0-py3-none-any.whl')")
    assert version_of(author).json()["digest"] != sha256_of(other)


def test_a_version_has_one_wheel(author: Author, tmp_path: Path) -> None:
    wheel = a_wheel(tmp_path, is_foreign=True)
    upload(author, wheel)
    second = wheel.with_name("maze-0.1.0-py2.py3-none-any.whl")
    second.write_bytes(wheel.read_bytes() + b"")

    response = upload(author, second)

    assert response.status_code in (200, 400)
    assert len(version_of(author).json()["files"]) == 1


def test_a_source_distribution_alone_is_neither_listed_nor_resolvable(
    author: Author, tmp_path: Path
) -> None:
    sdist, wheel = a_sdist(tmp_path), a_wheel(tmp_path, is_foreign=True)

    assert upload(author, sdist).status_code == 200
    assert upload(author, sdist).status_code == 200

    page = f"/owners/{author.owner}/simple/maze/"
    assert version_of(author).status_code == 404
    assert ask(author.hub, "GET", page).status_code == 404
    assert ask(author.hub, "GET", f"/{author.owner}/maze").status_code == 404
    (item,) = author.resolve(f"{author.owner}/maze")
    assert item["code"] == "not_found"

    assert upload(author, wheel).status_code == 200

    assert {file["kind"] for file in version_of(author).json()["files"]} == {"sdist", "wheel"}
    files = document(author.hub, page)["files"]
    assert [file["filename"] for file in files] == [wheel.name, sdist.name]
    assert [bool(file["core-metadata"]) for file in files] == [True, False]


def test_a_source_distribution_may_follow_its_wheel_until_another_is_there(
    author: Author, tmp_path: Path
) -> None:
    author.publish("maze")
    sdist = a_sdist(tmp_path)
    other = a_sdist(tmp_path / "other", files={"setup.cfg": "[metadata]\n"})

    assert upload(author, sdist).status_code == 200
    detail = refusal(upload(author, other), 400, "file_exists")

    assert detail.startswith("File already exists ('maze-0.1.0.tar.gz'")
    assert version_of(author).json()["digest"] != sha256_of(sdist)


def test_a_push_completes_a_version_of_which_the_source_distribution_came(
    author: Author, tmp_path: Path
) -> None:
    upload(author, a_sdist(tmp_path / "sdist"))

    author.publish("maze")

    kinds = {file["kind"] for file in version_of(author).json()["files"]}
    assert kinds == {"sdist", "wheel", "source"}


def test_a_version_closes_for_new_files_after_some_days(hub_data: Path, tmp_path: Path) -> None:
    with run_hub(hub_data, version_open_days="0") as hub:
        author = Author.new(hub, tmp_path)
        author.publish("maze")

        detail = refusal(upload(author, a_sdist(tmp_path)), 409, "version_closed")

    assert "Publish a new version" in detail


def test_a_token_of_several_owners_is_told_the_other_addresses(
    author: Author, tmp_path: Path
) -> None:
    team = f"team-of-{author.owner}"
    admin.organisation_add(author.hub.settings, team, author.owner)
    wheel = a_wheel(tmp_path, is_foreign=True)
    limited = author.hub.new_token(author.owner, limited_to=team)

    detail = refusal(upload(author, wheel), 400, "owner_ambiguous")

    assert f"/owners/{author.owner}/legacy/" in detail
    assert f"/owners/{team}/legacy/" in detail
    assert upload(author, wheel, token=limited).status_code == 200
    assert upload(author, wheel, owner=author.owner).status_code == 200
    assert ask(author.hub, "GET", f"/owners/{team}/simple/maze/").status_code == 200


@pytest.mark.parametrize("field", ["md5_digest", "sha256_digest", "blake2_256_digest"])
def test_every_digest_that_is_given_is_checked(author: Author, tmp_path: Path, field: str) -> None:
    wheel = a_wheel(tmp_path, is_foreign=True)
    content = wheel.read_bytes()
    right = {
        "md5_digest": hashlib.md5(content).hexdigest(),
        "sha256_digest": hashlib.sha256(content).hexdigest(),
        "blake2_256_digest": hashlib.blake2b(content, digest_size=32).hexdigest(),
    }

    wrong = upload(author, wheel, **right | {field: "0" * len(right[field])})

    assert field in refusal(wrong, 422, "digest_mismatch")
    assert version_of(author).status_code == 404
    assert upload(author, wheel, **right).status_code == 200


@pytest.mark.parametrize(
    ("fields", "code"),
    [
        ({"name": "other"}, "invalid_package"),
        ({"version": "0.2"}, "invalid_package"),
        ({"metadata_version": "2.3"}, "invalid_package"),
        ({"requires_python": ">=3.13"}, "invalid_package"),
        ({"filetype": "sdist"}, "invalid_package"),
        ({":action": "submit"}, "malformed_body"),
        ({"protocol_version": "2"}, "malformed_body"),
        ({"attestations": "[]"}, "attestation_refused"),
    ],
)
def test_a_form_that_contradicts_its_file_is_refused(
    author: Author, tmp_path: Path, fields: dict[str, str], code: str
) -> None:
    response = upload(author, a_wheel(tmp_path, is_foreign=True), **fields)

    assert response.json()["code"] == code
    assert 400 <= response.status_code < 500
    assert version_of(author).status_code == 404


def test_fields_may_come_in_any_order_repeated_and_large(author: Author, tmp_path: Path) -> None:
    wheel = a_wheel(tmp_path, is_foreign=True)
    files: list[Any] = [
        ("classifiers", (None, "Topic :: Games")),
        ("content", (wheel.name, wheel.read_bytes())),
        ("classifiers", (None, "Topic :: Education")),
        ("description", (None, "long " * 400_000)),
        ("name", (None, "Maze")),
        ("version", (None, "0.1")),
        (":action", (None, "file_upload")),
    ]
    with author.hub.client() as client:
        response = client.post("/legacy/", files=files, auth=("__token__", author.token))

    assert response.status_code == 422, response.text
    assert "version" in response.json()["detail"]

    files[5] = ("version", (None, "0.1.0"))
    with author.hub.client() as client:
        response = client.post("/legacy", files=files, auth=("__token__", author.token))
    assert response.status_code == 200, response.text


def test_a_broken_archive_is_refused_with_its_rule(author: Author, tmp_path: Path) -> None:
    sdist = tmp_path / "maze-0.1.0.tar.gz"
    sdist.write_bytes(b"\x1f\x8bnot really")
    other = tmp_path / "maze-0.1.0.egg"
    other.write_bytes(b"egg")

    assert "maze-0.1.0.tar.gz" in refusal(upload(author, sdist), 422, "invalid_package")
    assert "neither a wheel" in refusal(upload(author, other), 422, "invalid_package")


def test_whoever_may_not_publish_is_refused(author: Author, tmp_path: Path) -> None:
    wheel = a_wheel(tmp_path, is_foreign=True)
    reader = author.hub.new_token(author.owner, scopes=[Scope.READ])
    stranger, _ = author.hub.new_user()

    nobody = upload(author, wheel, token=None)

    assert nobody.status_code == 401
    assert "Basic" in nobody.headers["www-authenticate"]
    assert upload(author, wheel, token=reader).status_code == 403
    assert upload(author, wheel, owner=stranger).status_code == 403
    assert upload(author, wheel, owner="not a name").status_code == 422


def test_a_file_over_the_limit_is_refused_as_too_large(hub_data: Path, tmp_path: Path) -> None:
    with run_hub(hub_data, max_file_bytes="1000") as hub:
        author = Author.new(hub, tmp_path)

        response = upload(author, a_wheel(tmp_path, files={"maze.py": "x" * 5000}))
        large = tmp_path / "maze-0.1.0.tar.gz"
        large.write_bytes(bytes(3_000_000))

        assert response.status_code in (200, 413)
        refusal(upload(author, large), 413, "too_large")


def test_a_name_of_the_sdk_is_reserved(author: Author, tmp_path: Path) -> None:
    refusal(upload(author, a_wheel(tmp_path, name="strop")), 422, "name_reserved")
    refusal(upload(author, a_sdist(tmp_path, name="strop")), 422, "name_reserved")


def test_a_wheel_that_was_pushed_is_known_by_its_bytes(author: Author, tmp_path: Path) -> None:
    pushed = an_upload(tmp_path)
    author.hub.push(author.token, author.owner, pushed)

    assert "already" in upload(author, pushed.wheel).text
