"""Two hub processes over one folder, a folder that turns unwritable, and a hub that dies."""

import os
import signal
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import httpx
import pytest

from tests.factories import an_upload
from tests.hub_server.checking import check_whole, uploads_under_way
from tests.hub_server.running_hub import STOP_S, run_hub
from tests.waiting import wait_until

pytestmark = pytest.mark.embedded


def test_two_hubs_over_one_folder_publish_each_version_once(hub_data: Path, tmp_path: Path) -> None:
    with run_hub(hub_data) as one, run_hub(hub_data) as other:
        owner, token = one.new_user()
        uploads = [
            an_upload(tmp_path / str(number), version="1.0", tree={"a.py": str(number)})
            for number in range(6)
        ]

        with ThreadPoolExecutor(6) as threads:
            pushes = [
                threads.submit(hub.push, token, owner, upload)
                for hub, upload in zip([one, other] * 3, uploads, strict=True)
            ]
            answers = [push.result() for push in pushes]

        assert sorted(answer.status_code for answer in answers) == [201, 409, 409, 409, 409, 409]
        paths = (f"/api/v1/environments/{owner}/maze", "/simple/maze/")
        for path in paths:
            shown = [hub.get(path).text.replace(other.url, one.url) for hub in (one, other)]
            assert shown[0] == shown[1]
        assert check_whole(one.settings) == 1


@pytest.mark.slow
def test_what_one_hub_yanks_the_other_no_longer_chooses(hub_data: Path, tmp_path: Path) -> None:
    with run_hub(hub_data) as one, run_hub(hub_data) as other:
        owner, token = one.new_user()
        for version in ("1.0", "2.0"):
            assert one.push(token, owner, an_upload(tmp_path, version=version)).status_code == 201
        assert "data-yanked" not in other.get("/simple/maze/").text

        with one.client(token) as client:
            client.post(f"/api/v1/environments/{owner}/maze/versions/2.0/yank", json={})

        detail = other.get(f"/api/v1/environments/{owner}/maze").json()
        assert detail["latest_version"] == "1.0"
        # Pages show what other processes write within a second.
        wait_until(lambda: other.get("/simple/maze/").text.count("data-yanked") == 1)


@pytest.mark.slow
def test_a_hub_killed_under_many_pushes_keeps_every_version_that_it_confirmed(
    hub_data: Path, tmp_path: Path
) -> None:
    uploads = {
        f"0.{number}": an_upload(tmp_path / str(number), version=f"0.{number}")
        for number in range(12)
    }
    confirmed = []
    with run_hub(hub_data) as hub:
        owner, token = hub.new_user()

        def push(version: str) -> None:
            try:
                if hub.push(token, owner, uploads[version]).status_code == 201:
                    confirmed.append(version)
            except httpx.TransportError:
                return
            if len(confirmed) >= 4:
                os.kill(hub.process.pid, signal.SIGKILL)

        with ThreadPoolExecutor(4) as threads:
            list(threads.map(push, uploads))
        hub.process.wait(STOP_S)

    with run_hub(hub_data) as hub:
        versions = hub.get(f"/api/v1/environments/{owner}/maze/versions").json()["items"]
        there = {item["version"] for item in versions}
        assert len(confirmed) >= 4
        assert set(confirmed) <= there
        assert check_whole(hub.settings) == len(there)
        assert uploads_under_way(hub.settings) == []


def test_nobody_else_on_the_machine_can_read_a_hubs_folder(hub_data: Path) -> None:
    with run_hub(hub_data) as hub:
        assert hub.get("/readyz").status_code == 200
        assert hub_data.stat().st_mode & 0o077 == 0


@pytest.mark.slow
def test_a_folder_of_blobs_that_is_gone_is_told_and_reads_of_rows_go_on(
    hub_data: Path, tmp_path: Path
) -> None:
    with run_hub(hub_data) as hub:
        owner, token = hub.new_user()
        assert hub.push(token, owner, an_upload(tmp_path)).status_code == 201
        away = hub_data / "away"
        (hub_data / "blobs").rename(away)

        ready = hub.get("/readyz")
        assert (ready.status_code, ready.json()["status"]) == (503, "failing")
        assert ready.json()["checks"]["database"] == "ok"
        assert hub.get("/healthz").status_code == 200
        assert hub.get("/simple/maze/").status_code == 200

        away.rename(hub_data / "blobs")
        assert hub.get("/readyz").status_code == 200
        assert hub.push(token, owner, an_upload(tmp_path, version="0.2.0")).status_code == 201
        assert check_whole(hub.settings) == 2
