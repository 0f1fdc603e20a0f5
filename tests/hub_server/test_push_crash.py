"""A hub that is killed in the middle of a push leaves nothing half-published."""

from pathlib import Path

import httpx
import pytest

from strop_hub.publish import failpoints
from tests.factories import AnUpload, an_upload
from tests.hub_server.checking import check_whole, uploads_under_way
from tests.hub_server.running_hub import STOP_S, RunningHub, run_hub

KILLED = -9
COMMITTED = {"publish.announce"}
"""Points after the commit: the push is whole although its answer never came."""


def push_until_death(hub: RunningHub, token: str, owner: str, upload: AnUpload) -> None:
    with pytest.raises(httpx.TransportError):
        hub.push(token, owner, upload)
    assert hub.process.wait(STOP_S) == KILLED


def is_published(hub: RunningHub, owner: str) -> bool:
    response = hub.get(f"/api/v1/environments/{owner}/maze")
    assert response.status_code in (200, 404)
    return response.status_code == 200


def test_a_push_killed_at_every_step_in_turn_succeeds_in_the_end(
    hub_data: Path, tmp_path: Path
) -> None:
    upload, owner, token = an_upload(tmp_path), "", ""
    for point in failpoints.PUBLISH:
        with run_hub(hub_data, failpoint=point) as hub:
            if not owner:
                owner, token = hub.new_user()
            assert not is_published(hub, owner), f"visible before {point}"
            assert uploads_under_way(hub.settings) == []
            push_until_death(hub, token, owner, upload)
            assert check_whole(hub.settings) == (1 if point in COMMITTED else 0), point

    with run_hub(hub_data) as hub:
        assert is_published(hub, owner)
        assert hub.push(token, owner, upload).status_code == 200
        assert check_whole(hub.settings) == 1
        assert uploads_under_way(hub.settings) == []


@pytest.mark.slow
@pytest.mark.parametrize("point", failpoints.PUBLISH)
def test_a_push_killed_at_a_step_can_be_repeated_at_once(
    hub_data: Path, tmp_path: Path, point: str
) -> None:
    first, second = an_upload(tmp_path / "1"), an_upload(tmp_path / "2", version="0.2.0")
    with run_hub(hub_data) as hub:
        owner, token = hub.new_user()
        assert hub.push(token, owner, first).status_code == 201
    with run_hub(hub_data, failpoint=point) as hub:
        push_until_death(hub, token, owner, second)

    with run_hub(hub_data) as hub:
        assert check_whole(hub.settings) == (2 if point in COMMITTED else 1)
        assert hub.push(token, owner, second).status_code == (200 if point in COMMITTED else 201)
        assert check_whole(hub.settings) == 2


def test_every_step_of_a_push_or_a_purge_has_a_failpoint_of_its_own() -> None:
    sources = Path(failpoints.__file__).parents[1].rglob("*.py")
    reached = [
        line.split('reach("')[1].split('")')[0]
        for source in sources
        for line in source.read_text().splitlines()
        if 'reach("' in line
    ]

    assert sorted(reached) == sorted(failpoints.PUBLISH + failpoints.PURGE)
