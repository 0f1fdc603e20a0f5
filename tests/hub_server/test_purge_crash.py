"""What a purge that was killed has left is erased by whoever comes next."""

import subprocess
import sys
from pathlib import Path

import httpx
import pytest

from strop_hub import admin
from strop_hub.publish import failpoints
from strop_hub.releases.deletion import PURGE_LOG, PurgeRecord, keep_log, read_purges
from strop_hub.settings import Settings
from strop_hub.storage import open_storage
from strop_hub.upkeep.verify import verify
from tests.architecture.tree import ROOT
from tests.factories import an_upload, sha256_of
from tests.hub_server.running_hub import STOP_S, RunningHub, run_hub
from tests.waiting import wait_until

KILLED = -9


@pytest.mark.embedded
def test_a_purge_killed_at_every_step_in_turn_is_finished_by_the_next_start(
    hub_data: Path, tmp_path: Path
) -> None:
    kept = an_upload(tmp_path / "1", version="0.1.0")
    secret = an_upload(tmp_path / "2", version="0.2.0", files={"maze.py": "KEY = 1\n"})
    key = sha256_of(secret.wheel)
    with run_hub(hub_data, failpoint=failpoints.PURGE[0]) as hub:
        owner, token = hub.new_user()
        for upload in (kept, secret):
            assert hub.push(token, owner, upload).status_code == 201
        purge_until_death(hub, f"{owner}/maze", "0.2.0")
    storage = open_storage(hub.settings)
    assert (storage.has(key), read_purges(hub_data)) == (True, [])

    for point in failpoints.PURGE[1:]:
        # It goes on with the purge by itself, and gets as far as this.
        with run_hub(hub_data, failpoint=point) as hub:
            assert hub.process.wait(STOP_S) == KILLED
        assert storage.has(key) == (point == "purge.erase")
        assert [record.version for record in read_purges(hub_data)] == ["0.2.0"]
    assert named_by_verify(hub.settings) == [f"{owner}/maze@0.2.0"]

    with run_hub(hub_data) as hub:
        wait_until(lambda: f"erased what {owner}/maze@0.2.0 left" in hub.log.read_text())
        assert named_by_verify(hub.settings) == []
        assert not storage.has(key)
        assert len(read_purges(hub_data)) == 1
        assert hub.get(f"/api/v1/environments/{owner}/maze").json()["latest_version"] == "0.1.0"


FILLS_UP = """
import resource, sys
from pathlib import Path
from strop_hub.releases.deletion import PURGE_LOG, keep_log
from tests.hub_server.test_purge_crash import a_record

log = Path(sys.argv[1], PURGE_LOG)
resource.setrlimit(resource.RLIMIT_FSIZE, (log.stat().st_size + 10,) * 2)
keep_log(log.parent, [a_record("0.2.0")])
"""


def test_a_line_that_the_disk_cuts_leaves_nothing_in_the_log(tmp_path: Path) -> None:
    keep_log(tmp_path, [a_record("0.1.0")])
    before = (tmp_path / PURGE_LOG).read_bytes()

    refused = subprocess.run(
        [sys.executable, "-c", FILLS_UP, tmp_path], cwd=ROOT, stderr=subprocess.PIPE, text=True
    )

    assert refused.returncode == 1
    assert "OSError: [Errno 27]" in refused.stderr
    assert (tmp_path / PURGE_LOG).read_bytes() == before
    keep_log(tmp_path, [a_record("0.1.0"), a_record("0.2.0")])
    assert read_purges(tmp_path) == [a_record("0.1.0"), a_record("0.2.0")]


def a_record(version: str) -> PurgeRecord:
    return PurgeRecord("ada", "maze", version, ["0" * 64], "a key got in")


def purge_until_death(hub: RunningHub, reference: str, version: str) -> None:
    body = {"version": version, "reason": "a key got in"}
    with pytest.raises(httpx.TransportError), hub.client(hub.admin_token) as client:
        client.post(f"/api/v1/environments/{reference}/purge", json=body)
    assert hub.process.wait(STOP_S) == KILLED


def named_by_verify(settings: Settings) -> list[str]:
    with admin.open_hub(settings) as parts:
        differences = verify(parts).differences
    assert all("run `strop hub gc`" in difference.detail for difference in differences)
    return [difference.subject for difference in differences]
