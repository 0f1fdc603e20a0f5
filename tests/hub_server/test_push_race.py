"""Of pushes that come at the same time exactly one wins, whatever the others hold."""

import threading
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

import httpx
import pytest

from tests.factories import AnUpload, an_upload
from tests.hub_server.checking import check_whole
from tests.hub_server.running_hub import RunningHub, run_hub


def push_at_once(
    hubs: Sequence[RunningHub], token: str, owner: str, uploads: Sequence[AnUpload]
) -> list[httpx.Response]:
    """Push each upload from a thread of its own, to the hubs by turns."""
    barrier = threading.Barrier(len(uploads))
    responses: list[httpx.Response] = []

    def push(hub: RunningHub, upload: AnUpload) -> None:
        form = upload.form()
        with hub.client(token) as client:
            client.get("/healthz")
            barrier.wait()
            responses.append(client.post(f"/api/v1/owners/{owner}/versions", **form))

    threads = [
        threading.Thread(target=push, args=(hubs[number % len(hubs)], upload))
        for number, upload in enumerate(uploads)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return responses


def statuses(responses: Sequence[httpx.Response]) -> Counter[int]:
    return Counter(response.status_code for response in responses)


@pytest.mark.parametrize("count", [2, 8])
def test_of_different_trees_at_once_exactly_one_is_published(
    hub: RunningHub, tmp_path: Path, count: int
) -> None:
    owner, token = hub.new_user()
    for version in ("1.0", "1.1", "1.2"):
        uploads = [
            an_upload(tmp_path / f"{version}-{n}", version=version, tree={"a.py": str(n)})
            for n in range(count)
        ]

        responses = push_at_once([hub], token, owner, uploads)

        assert statuses(responses) == {201: 1, 409: count - 1}
        winner = next(each for each in responses if each.status_code == 201).json()["version"]
        path = f"/api/v1/environments/{owner}/maze/versions/{version}"
        assert hub.get(path).json()["digest"] == winner["digest"]


def test_of_the_same_tree_at_once_one_is_published_and_the_others_succeed(
    hub: RunningHub, tmp_path: Path
) -> None:
    owner, token = hub.new_user()
    uploads = [
        an_upload(tmp_path / str(n), tree={"a.py": ""}, files={"maze.py": f"# {n}\n"})
        for n in range(8)
    ]

    responses = push_at_once([hub], token, owner, uploads)

    assert statuses(responses) == {201: 1, 200: 7}
    assert len({response.json()["version"]["digest"] for response in responses}) == 1


def test_new_environments_at_once_all_appear(hub: RunningHub, tmp_path: Path) -> None:
    owner, token = hub.new_user()
    uploads = [an_upload(tmp_path / str(n), name=f"{owner}-maze-{n}") for n in range(8)]

    responses = push_at_once([hub], token, owner, uploads)

    assert statuses(responses) == {201: 8}
    listed = hub.get(f"/api/v1/environments?owner={owner}").json()["items"]
    assert len(listed) == 8


def test_two_processes_over_one_folder_agree_on_the_winner(hub_data: Path, tmp_path: Path) -> None:
    with run_hub(hub_data) as one, run_hub(hub_data) as other:
        owner, token = one.new_user()
        for version in ("1.0", "1.1"):
            uploads = [
                an_upload(tmp_path / f"{version}-{n}", version=version, tree={"a.py": str(n)})
                for n in range(6)
            ]

            responses = push_at_once([one, other], token, owner, uploads)

            assert statuses(responses) == {201: 1, 409: 5}
        assert check_whole(one.settings) == 2
