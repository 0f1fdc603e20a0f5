"""Rules of publishing that depend on what the hub holds: names, dependencies, quota, deletions."""

from pathlib import Path

from strop_hub import admin
from strop_hub.accounts.service import find_user
from strop_hub.models import Environment, Owner, Tombstone
from tests.factories import an_upload
from tests.hub_server.running_hub import RunningHub, run_hub
from tests.hub_server.test_push import assert_refused


def requirement(dependencies: list[str], requires: list[str] | None = None) -> dict[str, object]:
    return {"dependencies": dependencies, "requires": requires or []}


def test_the_first_public_publisher_has_the_name_on_the_shared_index(
    hub: RunningHub, tmp_path: Path, name: str
) -> None:
    first, first_token = hub.new_user()
    second, second_token = hub.new_user()

    claimed = hub.push(first_token, first, an_upload(tmp_path / "1", name=name))
    late = hub.push(second_token, second, an_upload(tmp_path / "2", name=name))

    assert claimed.json()["warnings"] == []
    assert late.status_code == 201
    assert "belongs to another owner" in late.json()["warnings"][0]
    page = hub.get(f"/simple/{name}/").text
    assert f"/owners/{first}/" in page or f"owners/{first}/" in page
    assert second not in page


def test_a_private_environment_claims_no_name(hub: RunningHub, tmp_path: Path, name: str) -> None:
    private, private_token = hub.new_user()
    public, public_token = hub.new_user()
    hidden = an_upload(tmp_path / "1", name=name)
    hub.push(private_token, private, hidden, visibility="private")

    response = hub.push(public_token, public, an_upload(tmp_path / "2", name=name))

    assert response.json()["warnings"] == []


def test_the_sdks_own_name_is_refused(hub: RunningHub, tmp_path: Path) -> None:
    owner, token = hub.new_user()

    response = hub.push(token, owner, an_upload(tmp_path, name="strop"))

    assert "Choose another name" in assert_refused(response, 422, "name_reserved")


def test_a_dependency_that_the_hub_knows_must_be_required(
    hub: RunningHub, tmp_path: Path, name: str
) -> None:
    owner, token = hub.new_user()
    base, ours = f"{name}-base", an_upload(tmp_path / "1", name=f"{name}-base")
    hub.push(token, owner, ours)
    bare = an_upload(tmp_path / "2", name=name, manifest=requirement([f"{base}>=0.1", "strop"]))

    response = hub.push(token, owner, bare)

    detail = assert_refused(response, 422, "dependency_claimed")
    assert f"`{owner}/{base}`" in detail
    required = requirement([f"{base}>=0.1", "strop"], [f"{owner}/{base}@~=0.1"])
    named = an_upload(tmp_path / "3", name=name, manifest=required)
    assert hub.push(token, owner, named).status_code == 201


def test_a_package_may_depend_on_itself_for_its_extras(
    hub: RunningHub, tmp_path: Path, name: str
) -> None:
    owner, token = hub.new_user()
    first, second = (
        an_upload(
            tmp_path / number,
            name=name,
            version=number,
            manifest=requirement([f"{name}[all]"]),
        )
        for number in ("1.0", "2.0")
    )

    assert hub.push(token, owner, first).status_code == 201
    assert hub.push(token, owner, second).status_code == 201


def test_an_owner_keeps_no_more_than_its_quota(hub: RunningHub, tmp_path: Path, name: str) -> None:
    owner, token = hub.new_user()
    first, second = (an_upload(tmp_path / v, name=name, version=v) for v in ("1.0", "2.0"))
    assert hub.push(token, owner, first).status_code == 201
    with admin.open_hub(hub.settings) as parts:

        def set_quota(session: object) -> int:
            row = find_user(session, owner).owner  # type: ignore[arg-type]
            row.quota_bytes = row.stored_bytes + 10
            return row.stored_bytes

        stored_bytes = parts.database.write(set_quota)
    assert stored_bytes == first.stored_bytes

    refused = hub.push(token, owner, second)
    again = hub.push(token, owner, first)

    assert "higher quota" in assert_refused(refused, 413, "quota_exceeded")
    assert again.status_code == 200
    assert hub.get(f"/api/v1/environments/{owner}/{name}/versions/2.0").status_code == 404


def test_what_the_hub_unpacks_and_keeps_counts_against_the_quota(
    hub: RunningHub, tmp_path: Path, name: str
) -> None:
    owner, token = hub.new_user()
    plain = an_upload(tmp_path / "1", name=name, version="1.0")
    wordy = an_upload(tmp_path / "2", name=name, version="2.0", readme="maze " * 2_000)
    admin.quota_set(hub.settings, owner, plain.stored_bytes + wordy.stored_bytes - 1)

    assert hub.push(token, owner, plain).status_code == 201
    assert_refused(hub.push(token, owner, wordy), 413, "quota_exceeded")
    admin.quota_set(hub.settings, owner, plain.stored_bytes + wordy.stored_bytes)
    assert hub.push(token, owner, wordy).status_code == 201


def test_a_deleted_version_is_never_published_again(
    hub: RunningHub, tmp_path: Path, name: str
) -> None:
    owner, token = hub.new_user()
    with admin.open_hub(hub.settings) as parts:
        parts.database.write(
            lambda session: session.add(
                Tombstone(
                    owner_id=find_user(session, owner).owner_id, name=name, canonical_version="1"
                )
            )
        )

    response = hub.push(token, owner, an_upload(tmp_path, name=name, version="1.0.0"))

    assert "higher number" in assert_refused(response, 409, "version_deleted")
    with parts.database.read() as session:
        found = session.query(Environment).join(Owner).where(Owner.name == owner)
        assert found.count() == 0
    parts.database.close()


def test_a_name_on_the_operators_list_is_published_and_not_claimed(
    hub_data: Path, tmp_path: Path
) -> None:
    with run_hub(hub_data, reserved_names="Numpy_2, torch") as hub:
        owner, token = hub.new_user()

        response = hub.push(token, owner, an_upload(tmp_path, name="numpy-2"))

        assert response.status_code == 201, response.text
        assert hub.get("/simple/numpy-2/").status_code == 404
        assert hub.get(f"/owners/{owner}/simple/numpy-2/").status_code == 200
