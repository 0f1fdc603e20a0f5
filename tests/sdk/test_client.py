"""The client against a real hub."""

from pathlib import Path

import pytest

from strop.errors import HubRefusedError, HubUnreachableError
from strop.hub.client import HubClient, Upload
from strop.hub.wire import PushOutcome, ResolvedVersion
from tests.factories import an_upload
from tests.hub_server.running_hub import RunningHub
from tests.sdk.loopback import Request, reply, serve
from tests.sdk.published import publish


def test_a_hub_tells_who_a_token_speaks_for(hub: RunningHub) -> None:
    user, token = hub.new_user()
    with HubClient(hub.url, token) as client:
        assert client.health().status == "ok"
        assert client.whoami().user == user


def test_a_push_is_found_listed_resolved_and_downloaded(hub: RunningHub, tmp_path: Path) -> None:
    owner, token = author = hub.new_user()
    pushed = publish(hub, author, tmp_path)
    with HubClient(hub.url, token) as client:
        assert pushed.outcome is PushOutcome.PUBLISHED
        assert client.environment(owner, "maze").latest_version == "0.1.0"
        assert client.version(owner, "maze", "0.1.0").digest == pushed.version.digest
        assert [item.version for item in client.versions(owner, "maze")] == ["0.1.0"]
        (item,) = client.resolve([f"{owner}/maze"], "3.11.0").items
        assert isinstance(item, ResolvedVersion)
        client.download(item.wheel, tmp_path / "maze.whl")
    assert (tmp_path / "maze.whl").stat().st_size == item.wheel.size_bytes


def test_the_same_push_again_changes_nothing(hub: RunningHub, tmp_path: Path) -> None:
    author = hub.new_user()
    first = publish(hub, author, tmp_path)

    again = publish(hub, author, tmp_path)

    assert again.outcome is PushOutcome.ALREADY_PUBLISHED
    assert again.version.digest == first.version.digest


def test_another_tree_at_a_version_is_refused_by_its_code(hub: RunningHub, tmp_path: Path) -> None:
    author = hub.new_user()
    publish(hub, author, tmp_path)

    with pytest.raises(HubRefusedError) as caught:
        publish(hub, author, tmp_path, answer="43")

    assert (caught.value.status, caught.value.code) == (409, "version_exists")


def test_all_pages_of_a_listing_are_read(hub: RunningHub, tmp_path: Path) -> None:
    owner, token = author = hub.new_user()
    versions = [f"0.{minor}.0" for minor in range(55)]
    for version in versions:
        publish(hub, author, tmp_path, version=version)
    with HubClient(hub.url, token) as client:
        found = [item.version for item in client.versions(owner, "maze")]

    assert found == versions[::-1]


def test_a_search_narrows_by_owner_text_category_and_tag(hub: RunningHub, tmp_path: Path) -> None:
    owner, token = author = hub.new_user()
    publish(hub, author, tmp_path, name="maze")
    publish(hub, author, tmp_path, name="sums", manifest={"category": "math", "tags": ["easy"]})
    with HubClient(hub.url, token) as client:

        def names(query: str = "", **given: str) -> list[str]:
            return sorted(i.name for i in client.environments(query, owner=owner, **given))

        assert names() == ["maze", "sums"]
        assert names("sums") == ["sums"]
        assert names(category="math") == ["sums"]
        assert names(tag="multi-turn") == ["maze"]
        assert names(category="code") == []


def test_a_version_is_yanked_and_let_back(hub: RunningHub, tmp_path: Path) -> None:
    owner, token = author = hub.new_user()
    publish(hub, author, tmp_path)
    with HubClient(hub.url, token) as client:
        yanked = client.yank(owner, "maze", "0.1.0", reason="leaky")
        assert (yanked.is_yanked, yanked.yank_reason) == (True, "leaky")
        assert client.yank(owner, "maze", "0.1.0", undo=True).is_yanked is False


def test_a_private_environment_is_there_only_for_its_owner(hub: RunningHub, tmp_path: Path) -> None:
    owner, token = hub.new_user()
    upload = an_upload(tmp_path, name="hidden")
    with HubClient(hub.url, token) as client:
        files = Upload(upload.wheel, upload.source, upload.fields["tree_digest"])
        client.push(owner, files, visibility="private")
        assert client.environment(owner, "hidden").is_private
    with HubClient(hub.url) as stranger, pytest.raises(HubRefusedError) as caught:
        stranger.environment(owner, "hidden")
    assert caught.value.status == 404


@pytest.mark.parametrize("token", [None, "strop_wrong", "no-form"])
def test_a_push_without_a_valid_token_is_refused(
    token: str | None, hub: RunningHub, tmp_path: Path
) -> None:
    owner, _ = hub.new_user()
    upload = an_upload(tmp_path)
    with HubClient(hub.url, token) as client, pytest.raises(HubRefusedError) as caught:
        client.push(owner, Upload(upload.wheel, upload.source, upload.fields["tree_digest"]))
    assert caught.value.status == 401
    assert f"strop login {hub.url}" in str(caught.value)


def test_a_push_tells_how_far_it_is(hub: RunningHub, tmp_path: Path) -> None:
    owner, token = hub.new_user()
    upload = an_upload(tmp_path, files={"maze.py": "#" + "x" * 3_000_000})
    seen: list[tuple[int, int]] = []
    with HubClient(hub.url, token) as client:
        client.push(
            owner,
            Upload(upload.wheel, upload.source, upload.fields["tree_digest"]),
            progress=lambda gone, total: seen.append((gone, total)),
        )
    total = upload.wheel.stat().st_size + (upload.source or upload.wheel).stat().st_size
    assert seen[-1] == (total, total)


def test_a_push_over_a_connection_that_is_cut_is_sent_again_whole(tmp_path: Path) -> None:
    upload = an_upload(tmp_path)
    bodies: list[bytes] = []

    def answer(request: Request) -> bytes | None:
        bodies.append(request.body)
        return None if len(bodies) == 1 else reply(200, "{}")

    with (
        serve(answer) as server,
        HubClient(server.url, "strop_t", attempt_count=2) as client,
        pytest.raises(Exception, match="no PushResult"),
    ):
        client.push("ada", Upload(upload.wheel, upload.source))

    assert len(bodies) == 2
    assert all(upload.wheel.read_bytes() in body for body in bodies)


def test_a_push_is_repeated_a_bounded_number_of_times(tmp_path: Path) -> None:
    upload = an_upload(tmp_path)
    with serve(lambda request: None) as server:
        with HubClient(server.url, attempt_count=2) as client, pytest.raises(HubUnreachableError):
            client.push("ada", Upload(upload.wheel))
        assert len(server.requests) == 2
